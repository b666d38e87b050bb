"""GPT-2 (Radford 2019)."""

from __future__ import annotations

from uwaga.checkpoints.formats.huggingface.folder import FamilyModel, HuggingFaceFolder
from uwaga.checkpoints.weight_map import Table, View
from uwaga.settings import DecoderOnlySettings
from uwaga.tokenizers.pretrained import TokenIds, TokeniserPair, read_gpt2_tokeniser

UNSUPPORTED = {
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "scale_attn_by_inverse_layer_idx": (False,),
}
MAX_NEW_TOKENS = 64
"""Default maximum number of new tokens."""

PREFIX = "transformer."
HEAD, EMBEDDING = "lm_head.weight", "wte.weight"
MASKS = ("attn.bias", "attn.masked_bias")
"""Names of buffers in older checkpoints: the look-ahead mask and the value of masked scores."""

LAYER_PARTS = (
    ("attention_norm", View("ln_1")),
    ("attention.query", View("attn.c_attn", transposed=True, first=0, last=1, parts=3)),
    ("attention.key_value", View("attn.c_attn", transposed=True, first=1, last=3, parts=3)),
    ("attention.output", View("attn.c_proj", transposed=True)),
    ("feed_forward_norm", View("ln_2")),
    ("feed_forward.inner", View("mlp.c_fc", transposed=True)),
    ("feed_forward.outer", View("mlp.c_proj", transposed=True)),
)
"""Names of a layer's parts in uwaga and their weights in files.

Weights are stored (inputs, outputs), and the projections to queries, keys and values are fused.
"""


def read_gpt2(folder: HuggingFaceFolder) -> FamilyModel:
    """Interpret a GPT-2 folder; see :data:`uwaga.checkpoints.formats.huggingface.folder.FamilyReader`."""
    reader = folder.reader
    reader.refuse(UNSUPPORTED)
    size = reader.integer("vocab_size", 50257, minimum=4)
    width = reader.integer("n_embd", 768, minimum=1)
    values = {
        "layers": reader.integer("n_layer", 12, minimum=1),
        "width": width,
        "heads": reader.integer("n_head", 12, minimum=1),
        "feed_forward": reader.integer("n_inner", 4 * width, minimum=1),
        "activation": reader.activation("activation_function", "gelu_new"),
        "norm": "pre",
        "norm_epsilon": reader.number("layer_norm_epsilon", 1e-5),
        "max_length": reader.integer("n_positions", 1024, minimum=1),
        "embedding_scale": False,
        "attention_scale": reader.flag("scale_attn_weights", True),
        "tie_output": reader.flag("tie_word_embeddings", True),
        "dropout": 0.0,
    }
    settings = folder.settings(DecoderOnlySettings, values, size)
    end = reader.integer("eos_token_id", size - 1)
    start = reader.integer("bos_token_id", end)
    # If no id is stated here, the padding token is the tokeniser's or, if it has none, the end symbol.
    pad = None if reader.values.get("pad_token_id") is None else reader.integer("pad_token_id")
    reader.check_ids(size, bos_token_id=start, eos_token_id=end, pad_token_id=pad)
    tokeniser = read_gpt2_tokeniser(folder.path, TokenIds(size, start, end, pad)).target
    tensors = {name.removeprefix(PREFIX): tensor for name, tensor in folder.tensors.items()}
    return FamilyModel(
        settings,
        (size, size),
        TokeniserPair(tokeniser, tokeniser),
        table(settings),
        tensors,
        generation_defaults={"max_new_tokens": MAX_NEW_TOKENS},
    )


def table(settings: DecoderOnlySettings) -> Table:
    """Return the table of weights, with stored names as in a model without an output layer."""
    is_tied = settings.tie_output
    weights = {
        "embedding.weight": (View(EMBEDDING),),
        "positions.weight": (View("wpe.weight"),),
        "output_weight": (View(EMBEDDING if is_tied else HEAD),),
    }
    for kind in ("weight", "bias"):
        weights[f"decoder_norm.{kind}"] = (View(f"ln_f.{kind}"),)
        for layer in range(settings.layers):
            for part, view in LAYER_PARTS:
                stored_view = View(
                    f"h.{layer}.{view.name}.{kind}", view.transposed, view.first, view.last, view.parts
                )
                weights[f"decoder.{layer}.{part}.{kind}"] = (stored_view,)
    masks = tuple(f"h.{layer}.{mask}" for layer in range(settings.layers) for mask in MASKS)
    return Table(weights, {HEAD: EMBEDDING} if is_tied else {}, unused=masks)

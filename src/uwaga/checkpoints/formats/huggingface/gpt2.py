"""GPT-2 (Radford 2019)."""

from __future__ import annotations

from uwaga.checkpoints.formats.huggingface.folder import FamilyModel, HuggingFaceFolder
from uwaga.checkpoints.weight_map import Table, View
from uwaga.settings import DecoderOnlySettings
from uwaga.tokenizers.pretrained import Sides, TokenIds, read_gpt2_tokeniser

UNSUPPORTED = {
    "is_encoder_decoder": (False,),
    "add_cross_attention": (False,),
    "scale_attn_by_inverse_layer_idx": (False,),
}
LONGEST = 64
"""New tokens where the folder states no number."""

PREFIX = "transformer."
HEAD, EMBEDDING = "lm_head.weight", "wte.weight"
MASKS = ("attn.bias", "attn.masked_bias")
"""Stored with older checkpoints: the look-ahead mask and what it writes over scores."""

BLOCK = (
    ("attention_norm", View("ln_1")),
    ("attention.query", View("attn.c_attn", turned=True, first=0, last=1, of=3)),
    ("attention.key_value", View("attn.c_attn", turned=True, first=1, last=3, of=3)),
    ("attention.output", View("attn.c_proj", turned=True)),
    ("feed_forward_norm", View("ln_2")),
    ("feed_forward.inner", View("mlp.c_fc", turned=True)),
    ("feed_forward.outer", View("mlp.c_proj", turned=True)),
)
"""Weights are stored (in, out); query, key and value one below the other."""


def read_gpt2(folder: HuggingFaceFolder) -> FamilyModel:
    """Interpret a GPT-2 folder; see :data:`uwaga.checkpoints.formats.huggingface.folder.FamilyReader`."""
    reader = folder.reader
    reader.refuse(UNSUPPORTED)
    size = reader.whole("vocab_size", 50257, least=4)
    width = reader.whole("n_embd", 768, least=1)
    values = {
        "layers": reader.whole("n_layer", 12, least=1),
        "width": width,
        "heads": reader.whole("n_head", 12, least=1),
        "feed_forward": reader.whole("n_inner", 4 * width, least=1),
        "activation": reader.activation("activation_function", "gelu_new"),
        "norm": "pre",
        "norm_epsilon": reader.number("layer_norm_epsilon", 1e-5),
        "max_length": reader.whole("n_positions", 1024, least=1),
        "embedding_scale": False,
        "attention_scale": reader.flag("scale_attn_weights", True),
        "tie_output": reader.flag("tie_word_embeddings", True),
        "dropout": 0.0,
    }
    settings = folder.settings(DecoderOnlySettings, values, size)
    end = reader.whole("eos_token_id", size - 1)
    start = reader.whole("bos_token_id", end)
    # Without an id here padding is the tokeniser's, or the end symbol.
    pad = None if reader.values.get("pad_token_id") is None else reader.whole("pad_token_id")
    reader.within(size, bos_token_id=start, eos_token_id=end, pad_token_id=pad)
    tokeniser = read_gpt2_tokeniser(folder.path, TokenIds(size, start, end, pad)).target
    tensors = {name.removeprefix(PREFIX): tensor for name, tensor in folder.tensors.items()}
    return FamilyModel(
        settings,
        (size, size),
        Sides(tokeniser, tokeniser),
        table(settings),
        tensors,
        unstated={"max_length": LONGEST + 1},
    )


def table(settings: DecoderOnlySettings) -> Table:
    """Return the table of weights, under the names of the model without its head."""
    tied = settings.tie_output
    weights = {
        "embedding.weight": (View(EMBEDDING),),
        "positions.weight": (View("wpe.weight"),),
        "output_weight": (View(EMBEDDING if tied else HEAD),),
    }
    for kind in ("weight", "bias"):
        weights[f"decoder_norm.{kind}"] = (View(f"ln_f.{kind}"),)
        for layer in range(settings.layers):
            for ours, part in BLOCK:
                stored = View(f"h.{layer}.{part.name}.{kind}", part.turned, part.first, part.last, part.of)
                weights[f"decoder.{layer}.{ours}.{kind}"] = (stored,)
    masks = tuple(f"h.{layer}.{mask}" for layer in range(settings.layers) for mask in MASKS)
    return Table(weights, {HEAD: EMBEDDING} if tied else {}, unused=masks)

"""BERT (Devlin 2018)."""

from __future__ import annotations

from collections.abc import Mapping

from uwaga.checkpoints.formats.huggingface.folder import FamilyModel, HuggingFaceFolder
from uwaga.checkpoints.storage.tensors import StoredTensor
from uwaga.checkpoints.weight_map import Table, View
from uwaga.settings import EncoderOnlySettings
from uwaga.tokenizers.pretrained import TokenIds, TokeniserPair, read_bert_tokeniser

UNSUPPORTED = {
    "is_encoder_decoder": (False,),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "position_embedding_type": ("absolute",),
}

PREFIX, HEAD = "bert.", "cls.predictions."
BIAS, DECODER_BIAS = f"{HEAD}bias", f"{HEAD}decoder.bias"
"""The two possible names of the output layer's bias; if both are stored, the second is used."""
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
"""Names of norm parameters in the first checkpoints, and their current names."""

UNUSED_WEIGHTS = (
    "embeddings.position_ids",
    "pooler.dense.weight",
    "pooler.dense.bias",
    "cls.seq_relationship.weight",
    "cls.seq_relationship.bias",
)
"""Names of stored weights that are ignored: position indices and the head for next-sentence prediction."""

EMBEDDING = "embeddings.word_embeddings.weight"
LAYER_PARTS = (
    ("attention.query", ("attention.self.query",)),
    ("attention.key_value", ("attention.self.key", "attention.self.value")),
    ("attention.output", ("attention.output.dense",)),
    ("attention_norm", ("attention.output.LayerNorm",)),
    ("feed_forward.inner", ("intermediate.dense",)),
    ("feed_forward.outer", ("output.dense",)),
    ("feed_forward_norm", ("output.LayerNorm",)),
)


def read_bert(folder: HuggingFaceFolder) -> FamilyModel:
    """Interpret a BERT folder; see :data:`uwaga.checkpoints.formats.huggingface.folder.FamilyReader`.

    The model can predict masked tokens only if the weights of the head are stored.
    """
    reader = folder.reader
    reader.refuse(UNSUPPORTED)
    size = reader.integer("vocab_size", 30522, minimum=4)
    values = {
        "layers": reader.integer("num_hidden_layers", 12, minimum=1),
        "width": reader.integer("hidden_size", 768, minimum=1),
        "heads": reader.integer("num_attention_heads", 12, minimum=1),
        "feed_forward": reader.integer("intermediate_size", 3072, minimum=1),
        "activation": reader.activation("hidden_act", "gelu"),
        "norm": "post",
        "norm_epsilon": reader.number("layer_norm_eps", 1e-12),
        "max_length": reader.integer("max_position_embeddings", 512, minimum=1),
        "embedding_scale": False,
        "token_types": reader.integer("type_vocab_size", 2, minimum=1),
        "tie_output": reader.flag("tie_word_embeddings", True),
        "dropout": 0.0,
    }
    settings = folder.settings(EncoderOnlySettings, values, size)
    pad = reader.integer("pad_token_id", 0)
    reader.check_ids(size, pad_token_id=pad)
    tokeniser = read_bert_tokeniser(folder.path, TokenIds(size, pad=pad)).source
    tensors = _normalise_names(folder.tensors)
    has_head = any(name.startswith(HEAD) for name in tensors)
    settings = settings.model_copy(update={"head": has_head})
    return FamilyModel(settings, (size, size), TokeniserPair(tokeniser, tokeniser), table(settings), tensors)


def _normalise_names(stored_tensors: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Return the weights under uniform names; stored names depend on the model class and the version."""
    tensors: dict[str, StoredTensor] = {}
    for name, tensor in stored_tensors.items():
        name_without_prefix = name.removeprefix(PREFIX)
        for old_name, new_name in OLD_NAMES.items():
            name_without_prefix = name_without_prefix.replace(old_name, new_name)
        tensors[name_without_prefix] = tensor
    if DECODER_BIAS in tensors:
        tensors[BIAS] = tensors.pop(DECODER_BIAS)
    return tensors


def table(settings: EncoderOnlySettings) -> Table:
    """Return the table of weights, with stored names as in the first published model."""
    weights: dict[str, tuple[View, ...]] = {
        "embedding.weight": (View(EMBEDDING),),
        "positions.weight": (View("embeddings.position_embeddings.weight"),),
        "types.weight": (View("embeddings.token_type_embeddings.weight"),),
    }
    for kind in ("weight", "bias"):
        weights[f"embedding_norm.{kind}"] = (View(f"embeddings.LayerNorm.{kind}"),)
        for layer in range(settings.layers):
            for part, stored_parts in LAYER_PARTS:
                views = tuple(
                    View(f"encoder.layer.{layer}.{stored_part}.{kind}") for stored_part in stored_parts
                )
                weights[f"encoder.{layer}.{part}.{kind}"] = views
        weights[f"head.transform.{kind}"] = (View(f"{HEAD}transform.dense.{kind}"),)
        weights[f"head.norm.{kind}"] = (View(f"{HEAD}transform.LayerNorm.{kind}"),)
    weights["head.bias"] = (View(BIAS),)
    weights["head.weight"] = (View(f"{HEAD}decoder.weight"),)
    aliases = {f"{HEAD}decoder.weight": EMBEDDING} if settings.tie_output else {}
    return Table(weights, aliases, unused=UNUSED_WEIGHTS)

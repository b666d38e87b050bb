"""BERT (Devlin 2018)."""

from __future__ import annotations

from collections.abc import Mapping

from uwaga.checkpoints.formats.huggingface.folder import FamilyModel, HuggingFaceFolder
from uwaga.checkpoints.storage.tensors import StoredTensor
from uwaga.checkpoints.weight_map import Table, View
from uwaga.settings import EncoderOnlySettings
from uwaga.tokenizers.pretrained import Sides, TokenIds, read_bert_tokeniser

UNSUPPORTED = {
    "is_encoder_decoder": (False,),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "position_embedding_type": ("absolute",),
}

PREFIX, HEAD = "bert.", "cls.predictions."
BIAS, READ_BIAS = f"{HEAD}bias", f"{HEAD}decoder.bias"
"""The output's bias stands under the first name; where the second is stored too, that one is read."""
OLD = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
"""What the first checkpoints call the parameters of a norm."""

UNUSED = (
    "embeddings.position_ids",
    "pooler.dense.weight",
    "pooler.dense.bias",
    "cls.seq_relationship.weight",
    "cls.seq_relationship.bias",
)
"""Counting, and what guesses whether one sentence follows another."""

EMBEDDING = "embeddings.word_embeddings.weight"
BLOCK = (
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

    The model predicts masked tokens if the weights of that head are stored.
    """
    reader = folder.reader
    reader.refuse(UNSUPPORTED)
    size = reader.whole("vocab_size", 30522, least=4)
    values = {
        "layers": reader.whole("num_hidden_layers", 12, least=1),
        "width": reader.whole("hidden_size", 768, least=1),
        "heads": reader.whole("num_attention_heads", 12, least=1),
        "feed_forward": reader.whole("intermediate_size", 3072, least=1),
        "activation": reader.activation("hidden_act", "gelu"),
        "norm": "post",
        "norm_epsilon": reader.number("layer_norm_eps", 1e-12),
        "max_length": reader.whole("max_position_embeddings", 512, least=1),
        "embedding_scale": False,
        "token_types": reader.whole("type_vocab_size", 2, least=1),
        "tie_output": reader.flag("tie_word_embeddings", True),
        "dropout": 0.0,
    }
    settings = folder.settings(EncoderOnlySettings, values, size)
    pad = reader.whole("pad_token_id", 0)
    reader.within(size, pad_token_id=pad)
    tokeniser = read_bert_tokeniser(folder.path, TokenIds(size, pad=pad)).source
    tensors = _renamed(folder.tensors)
    head = any(name.startswith(HEAD) for name in tensors)
    settings = settings.model_copy(update={"head": head})
    return FamilyModel(settings, (size, size), Sides(tokeniser, tokeniser), table(settings), tensors)


def _renamed(stored: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Normalise the names of the weights, which depend on the saved class and the age of the file."""
    found: dict[str, StoredTensor] = {}
    for name, tensor in stored.items():
        short = name.removeprefix(PREFIX)
        for old, new in OLD.items():
            short = short.replace(old, new)
        found[short] = tensor
    if READ_BIAS in found:
        found[BIAS] = found.pop(READ_BIAS)
    return found


def table(settings: EncoderOnlySettings) -> Table:
    """Return the table of weights, under the names of the first published model."""
    weights: dict[str, tuple[View, ...]] = {
        "embedding.weight": (View(EMBEDDING),),
        "positions.weight": (View("embeddings.position_embeddings.weight"),),
        "types.weight": (View("embeddings.token_type_embeddings.weight"),),
    }
    for kind in ("weight", "bias"):
        weights[f"embedding_norm.{kind}"] = (View(f"embeddings.LayerNorm.{kind}"),)
        for layer in range(settings.layers):
            for ours, theirs in BLOCK:
                names = tuple(View(f"encoder.layer.{layer}.{one}.{kind}") for one in theirs)
                weights[f"encoder.{layer}.{ours}.{kind}"] = names
        weights[f"head.transform.{kind}"] = (View(f"{HEAD}transform.dense.{kind}"),)
        weights[f"head.norm.{kind}"] = (View(f"{HEAD}transform.LayerNorm.{kind}"),)
    weights["head.bias"] = (View(BIAS),)
    weights["head.weight"] = (View(f"{HEAD}decoder.weight"),)
    same = {f"{HEAD}decoder.weight": EMBEDDING} if settings.tie_output else {}
    return Table(weights, same, unused=UNUSED)

"""BERT (Devlin 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uwaga.checkpoints.files.torch_files import Tensors
from uwaga.checkpoints.huggingface.config import ConfigReader
from uwaga.checkpoints.huggingface.recipe import Recipe
from uwaga.checkpoints.weight_map import Table
from uwaga.errors import ModelError, SettingsError
from uwaga.models.masked import MaskedEncoder
from uwaga.settings import EncoderOnlySettings, parse
from uwaga.text.pretrained import TokenIds, read_bert_tokeniser

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


def bert(folder: Path, config: Mapping[str, Any]) -> Recipe:
    """Understand a BERT folder; see :data:`uwaga.checkpoints.huggingface.recipe.Family`."""
    reader = ConfigReader(folder, config)
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
    try:
        settings = parse(EncoderOnlySettings, values, str(reader.path))
    except SettingsError as error:
        raise ModelError(str(error)) from None
    pad = reader.whole("pad_token_id", 0)
    reader.within(size, pad_token_id=pad)
    tokeniser = read_bert_tokeniser(folder, TokenIds(size, pad=pad)).source
    return Recipe(settings, size, size, tokeniser, tokeniser, table, build=build, prepare=prepare)


def build(recipe: Recipe, stored: Tensors) -> MaskedEncoder:
    """The encoder of a recipe's settings, predicting masked tokens if weights for that are stored."""
    head = any(name.startswith(HEAD) for name in stored.values)
    assert isinstance(recipe.settings, EncoderOnlySettings)
    return MaskedEncoder(recipe.settings.model_copy(update={"head": head}), recipe.source_vocabulary)


def prepare(stored: Tensors) -> Tensors:
    """One name for each weight, whichever class was saved and however old the file."""
    names = {name: name.removeprefix(PREFIX) for name in stored.values}
    for old, new in OLD.items():
        names = {name: short.replace(old, new) for name, short in names.items()}
    values = {names[name]: tensor for name, tensor in stored.values.items()}
    origin = {names[name]: path for name, path in stored.origin.items()}
    if READ_BIAS in values:
        values[BIAS], origin[BIAS] = values.pop(READ_BIAS), origin.pop(READ_BIAS)
    return Tensors(values, origin)


def table(model: MaskedEncoder) -> Table:
    """Where each weight is stored, under the names that :func:`prepare` gives."""
    weights: dict[str, tuple[str, ...]] = {
        "embedding.weight": (EMBEDDING,),
        "positions.weight": ("embeddings.position_embeddings.weight",),
        "types.weight": ("embeddings.token_type_embeddings.weight",),
    }
    same: dict[str, str] = {}
    for kind in ("weight", "bias"):
        weights[f"embedding_norm.{kind}"] = (f"embeddings.LayerNorm.{kind}",)
        for layer in range(model.settings.layers):
            for ours, theirs in BLOCK:
                names = tuple(f"encoder.layer.{layer}.{one}.{kind}" for one in theirs)
                weights[f"encoder.{layer}.{ours}.{kind}"] = names
        if model.head is not None:
            weights[f"head.transform.{kind}"] = (f"{HEAD}transform.dense.{kind}",)
            weights[f"head.norm.{kind}"] = (f"{HEAD}transform.LayerNorm.{kind}",)
    if model.head is not None:
        tied = model.settings.tie_output
        weights["head.weight"] = (EMBEDDING if tied else f"{HEAD}decoder.weight",)
        weights["head.bias"] = (BIAS,)
        if tied:
            same[f"{HEAD}decoder.weight"] = EMBEDDING
    return Table(weights, same, unused=UNUSED)

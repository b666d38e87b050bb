"""T5, T5 1.1, FLAN-T5 and mT5 (Raffel 2020; Chung 2022; Xue 2021)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from uwaga.checkpoints.files.torch_files import Tensors
from uwaga.checkpoints.huggingface.config import ACTIVATIONS, ConfigReader
from uwaga.checkpoints.huggingface.recipe import Recipe, encoder_decoder
from uwaga.checkpoints.weight_map import Table
from uwaga.errors import ModelError, SettingsError
from uwaga.models.transformer import Transformer
from uwaga.settings import TransformerSettings, parse
from uwaga.text.pretrained import TokenIds, read_t5_tokeniser

UNSUPPORTED = {"is_decoder": (False,)}
LONGEST = 256
"""Target tokens where the folder states no limit: the other library's 20 would cut most translations."""

SHARED = "shared.weight"
COPIES = ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
HEAD = "lm_head.weight"
UNUSED = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)
"""Stored with the first checkpoints, read by nothing."""

ATTENTION = (("query", ("q",)), ("key_value", ("k", "v")), ("output", ("o",)))
ENCODER = (("attention", "SelfAttention"), ("feed_forward", "DenseReluDense"))
DECODER = (
    ("self_attention", "SelfAttention"),
    ("cross_attention", "EncDecAttention"),
    ("feed_forward", "DenseReluDense"),
)
PLAIN = (("inner", ("wi",)), ("outer", ("wo",)))
GATED = (("inner", ("wi_0",)), ("gate", ("wi_1",)), ("outer", ("wo",)))


def t5(folder: Path, config: Mapping[str, Any]) -> Recipe:
    """Understand a T5 or mT5 folder; see :data:`uwaga.checkpoints.huggingface.recipe.Family`."""
    reader = ConfigReader(folder, config)
    reader.refuse(UNSUPPORTED)
    size = reader.whole("vocab_size", least=4)
    activation, gated = _activation(reader)
    layers = reader.whole("num_layers", least=1)
    values = {
        "encoder_layers": layers,
        "decoder_layers": reader.whole("num_decoder_layers", layers, least=1),
        "width": reader.whole("d_model", least=1),
        "heads": reader.whole("num_heads", least=1),
        "head_width": reader.whole("d_kv", least=1),
        "feed_forward": reader.whole("d_ff", least=1),
        "activation": activation,
        "gated": gated,
        "norm": "pre",
        "norm_kind": "rms",
        "norm_epsilon": reader.number("layer_norm_epsilon", 1e-6),
        "positions": "relative",
        "relative_buckets": reader.whole("relative_attention_num_buckets", 32, least=4),
        "relative_distance": reader.whole("relative_attention_max_distance", 128, least=4),
        "embedding_scale": False,
        "attention_bias": False,
        "feed_forward_bias": False,
        "attention_scale": False,
        "output_scale": _output_scale(reader),
        "tie": "all",
        "dropout": 0.0,
    }
    try:
        settings = parse(TransformerSettings, values, str(reader.path))
    except SettingsError as error:
        raise ModelError(str(error)) from None
    pad, end = reader.whole("pad_token_id", 0), reader.whole("eos_token_id", 1)
    stated = reader.stated_start()
    start = pad if stated is None else stated
    reader.within(size, decoder_start_token_id=start, eos_token_id=end, pad_token_id=pad)
    sides = read_t5_tokeniser(folder, TokenIds(size, start, end, pad))
    unstated = {"max_length": LONGEST + 1}
    return Recipe(settings, size, size, sides.source, sides.target, table, build=build, unstated=unstated)


def build(recipe: Recipe, stored: Tensors) -> nn.Module:
    """The model, with an output layer of its own where one is stored that is not the embeddings.

    Versions 1.1 and later have one; what their ``config.json`` says of ties is about the output's scale.
    """
    tables = [stored.values[name] for name in (SHARED, *COPIES) if name in stored.values]
    head = stored.values.get(HEAD)
    alike = head is None or any(head.shape == one.shape and torch.equal(head, one) for one in tables)
    settings = recipe.settings if alike else recipe.settings.model_copy(update={"tie": "embeddings"})
    return encoder_decoder(replace(recipe, settings=settings), stored)


def table(model: Transformer) -> Table:
    """Where each weight is stored."""
    settings = model.settings
    weights = dict(_blocks("encoder", settings.encoder_layers, ENCODER, settings.gated))
    weights |= _blocks("decoder", settings.decoder_layers, DECODER, settings.gated)
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        weights[f"{side}_positions.weight"] = (bias,)
        weights[f"{side}_embedding.weight"] = (SHARED,)
        weights[f"{stack}_norm.weight"] = (f"{stack}.final_layer_norm.weight",)
    same = dict.fromkeys(COPIES, SHARED)
    weights["output_weight"] = (SHARED,)
    if settings.tie == "all":
        same[HEAD] = SHARED
    else:
        weights["output_weight"] = (HEAD,)
    return Table(weights, same, unused=UNUSED)


def _blocks(
    stack: str, layers: int, parts: tuple[tuple[str, str], ...], gated: bool
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for layer in range(layers):
        for place, (ours, theirs) in enumerate(parts):
            there = f"{stack}.block.{layer}.layer.{place}"
            yield f"{stack}.{layer}.{ours}_norm.weight", (f"{there}.layer_norm.weight",)
            inner = (GATED if gated else PLAIN) if ours == "feed_forward" else ATTENTION
            for name, stored in inner:
                names = tuple(f"{there}.{theirs}.{one}.weight" for one in stored)
                yield f"{stack}.{layer}.{ours}.{name}.weight", names


def _activation(reader: ConfigReader) -> tuple[str, bool]:
    """The feed-forward's activation, and whether it is gated."""
    name = reader.values.get("feed_forward_proj") or "relu"
    gate, _, inner = str(name).rpartition("-")
    inner = "gelu_new" if name == "gated-gelu" else inner
    if gate not in ("", "gated") or inner not in ACTIVATIONS:
        known = ", ".join(f"{one}, gated-{one}" for one in ACTIVATIONS)
        raise ModelError(f"{reader.path}: 'feed_forward_proj' = {name!r} is not supported; uwaga has {known}")
    return ACTIVATIONS[inner], gate == "gated"


def _output_scale(reader: ConfigReader) -> bool:
    """Whether features are scaled before the output: in T5 1.0 and its like, never in mT5."""
    if reader.values["model_type"] != "t5":
        return False
    return reader.flag("scale_decoder_outputs", reader.flag("tie_word_embeddings", True))

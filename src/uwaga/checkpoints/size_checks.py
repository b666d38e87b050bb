"""Checks, made before memory is allocated, that a model's settings match the size of its weights."""

from __future__ import annotations

import math
from collections.abc import Mapping

from uwaga.checkpoints.storage.tensors import StoredTensor
from uwaga.engine.layout import stored_shapes
from uwaga.errors import ModelError
from uwaga.settings import DecoderOnlySettings, EncoderOnlySettings, ProphetNetSettings, TransformerSettings
from uwaga.settings.recurrent import RecurrentSettings

SizedSettings = (
    TransformerSettings | DecoderOnlySettings | EncoderOnlySettings | ProphetNetSettings | RecurrentSettings
)
"""Types of settings that determine the shapes of a model's weights."""
SLACK = 1 << 22
"""Tolerance for the number of weights; checks of names and shapes detect smaller differences."""
MAX_BUFFER_NUMBERS = 1 << 24
"""Maximum size of a computed table, such as a position table, in float32 numbers (64 MiB)."""


def check_against_weights(
    location: str,
    settings: TransformerSettings | DecoderOnlySettings | EncoderOnlySettings | ProphetNetSettings,
    vocabulary: int,
    tensors: Mapping[str, StoredTensor],
) -> None:
    """Raise ModelError if the settings describe a larger model than the stored weights.

    Args:
        location: the file of the settings, for messages.
        settings: settings of the model.
        vocabulary: number of tokens of the larger vocabulary.
        tensors: the stored tensors.
    """
    layers, width = layer_count(settings), settings.width
    if layers > len(tensors):
        raise ModelError(
            f"{location}: the model has {layers} layers, but only {len(tensors)} weights are stored; "
            "the files belong to different models"
        )
    inner_width = settings.heads * (settings.head_width or 1)
    rows = {
        "the vocabulary size": vocabulary,
        "the width": width,
        "the feed-forward size": settings.feed_forward,
        "the size of all heads": inner_width,
    }
    if isinstance(settings, ProphetNetSettings):
        rows["the decoder's feed-forward size"] = settings.decoder_feed_forward or 0
        rows["the number of relative positions"] = settings.relative_buckets
    if isinstance(settings, TransformerSettings):
        rows["the decoder's feed-forward size"] = settings.decoder_feed_forward or 0
        rows["the number of relative positions"] = (
            settings.relative_buckets if settings.positions == "relative" else 0
        )
    has_no_position_table = isinstance(settings, TransformerSettings) and settings.positions == "relative"
    has_no_position_table |= isinstance(settings, DecoderOnlySettings) and settings.positions == "rotary"
    rows["the number of positions"] = 0 if has_no_position_table else settings.max_length
    stored_count = sum(math.prod(tensor.shape) for tensor in tensors.values())
    for name, count in rows.items():
        if count * width > stored_count + SLACK:
            raise ModelError(
                f"{location}: {name} ({count}) at width {width} would need more numbers than the "
                f"{stored_count} that are stored; the files belong to different models, or one is damaged"
            )


def layer_count(settings: SizedSettings) -> int:
    """Return the total number of layers of a model."""
    if isinstance(settings, RecurrentSettings):
        return settings.total_layers
    if isinstance(settings, TransformerSettings | ProphetNetSettings):
        return settings.encoder_layers + settings.decoder_layers
    return settings.layers


def layer_width(settings: SizedSettings) -> int:
    """Return the width of a model's layers."""
    return settings.hidden if isinstance(settings, RecurrentSettings) else settings.width


def weight_shapes(
    settings: SizedSettings, source: int, target: int, location: str = "settings"
) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight by its name in uwaga; tied weights are listed once.

    Args:
        settings: settings of the model.
        source: number of source tokens.
        target: number of target tokens.
        location: the file of the settings, for messages.
    """
    if isinstance(settings, EncoderOnlySettings):
        return _encoder_only_shapes(settings, target)
    if isinstance(settings, ProphetNetSettings):
        return _prophetnet_shapes(settings, target)
    return stored_shapes(settings, source, target, location)


def _encoder_only_shapes(settings: EncoderOnlySettings, vocabulary: int) -> dict[str, tuple[int, ...]]:
    width, inner_width = (
        settings.width,
        settings.heads * (settings.head_width or settings.width // settings.heads),
    )
    shapes: dict[str, tuple[int, ...]] = {
        "embedding.weight": (vocabulary, width),
        "positions.weight": (settings.max_length + settings.position_offset, width),
        "types.weight": (settings.token_types, width),
    }
    linear_layers: dict[str, tuple[int, int, bool]] = {}
    norm_names = ["embedding_norm"]
    for layer in range(settings.layers):
        name, bias = f"encoder.{layer}", settings.attention_bias
        linear_layers[f"{name}.attention.query"] = (inner_width, width, bias)
        linear_layers[f"{name}.attention.key_value"] = (2 * inner_width, width, bias)
        linear_layers[f"{name}.attention.output"] = (width, inner_width, bias)
        bias = settings.feed_forward_bias
        for part in ("inner", "gate") if settings.gated else ("inner",):
            linear_layers[f"{name}.feed_forward.{part}"] = (settings.feed_forward, width, bias)
        linear_layers[f"{name}.feed_forward.outer"] = (width, settings.feed_forward, bias)
        norm_names += [f"{name}.attention_norm", f"{name}.feed_forward_norm"]
    if settings.head:
        linear_layers["head.transform"] = (width, width, True)
        norm_names.append("head.norm")
        shapes["head.bias"] = (vocabulary,)
        if not settings.tie_output:
            shapes["head.weight"] = (vocabulary, width)
    for name, (outputs, inputs, bias) in linear_layers.items():
        shapes[f"{name}.weight"] = (outputs, inputs)
        if bias:
            shapes[f"{name}.bias"] = (outputs,)
    kinds = ("weight", "bias") if settings.norm_kind == "layer" else ("weight",)
    return shapes | {f"{name}.{kind}": (width,) for name in norm_names for kind in kinds}


def _prophetnet_shapes(settings: ProphetNetSettings, vocabulary: int) -> dict[str, tuple[int, ...]]:
    width, rows = settings.width, settings.max_length + 1 + settings.position_offset
    shapes: dict[str, tuple[int, ...]] = {
        "embedding.weight": (vocabulary, width),
        "streams.weight": (settings.ngram, width),
        "source_positions.weight": (rows, width),
        "target_positions.weight": (rows, width),
    }
    linear_layers: dict[str, tuple[int, int]] = {}
    norm_names = ["source_norm", "target_norm"]
    relative_rows = settings.relative_buckets * (settings.decoder_heads or settings.heads)
    sides = (
        ("encoder", settings.encoder_layers, ("attention",), settings.feed_forward),
        (
            "decoder",
            settings.decoder_layers,
            ("self_attention", "cross_attention"),
            settings.decoder_feed_forward or settings.feed_forward,
        ),
    )
    for stack, layers, attentions, inner_width in sides:
        for layer in range(layers):
            name = f"{stack}.{layer}"
            for attention in attentions:
                linear_layers[f"{name}.{attention}.query"] = (width, width)
                linear_layers[f"{name}.{attention}.key_value"] = (2 * width, width)
                linear_layers[f"{name}.{attention}.output"] = (width, width)
                norm_names.append(f"{name}.{attention}_norm")
            if stack == "decoder":
                linear_layers[f"{name}.self_attention.relative"] = (relative_rows, width)
            for part in ("inner", "gate") if settings.gated else ("inner",):
                linear_layers[f"{name}.feed_forward.{part}"] = (inner_width, width)
            linear_layers[f"{name}.feed_forward.outer"] = (width, inner_width)
            norm_names.append(f"{name}.feed_forward_norm")
    for name, (outputs, inputs) in linear_layers.items():
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = (outputs, inputs), (outputs,)
    return shapes | {f"{name}.{kind}": (width,) for name in norm_names for kind in ("weight", "bias")}

"""Stated sizes against the weights that lie there, before anything is listed or built from them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from uwaga.checkpoints.files.stored_tensor import StoredTensor
from uwaga.errors import ModelError
from uwaga.settings import (
    DecoderOnlySettings,
    EncoderOnlySettings,
    ProphetNetSettings,
    TransformerSettings,
)

SLACK = 1 << 22
"""Numbers that may be asked for beyond those stored: what is near is told apart by names and shapes."""
LARGEST_BUFFERS = 1 << 24
"""Numbers that a model may keep beside its stored weights, such as position tables: 64 MiB."""


def check_against_weights(
    where: str,
    settings: TransformerSettings | DecoderOnlySettings | EncoderOnlySettings | ProphetNetSettings,
    vocabulary: int,
    tensors: Mapping[str, StoredTensor],
) -> None:
    """Refuse settings that no model with these weights can have.

    Args:
        where: the file that states them, for messages.
        settings: of the model.
        vocabulary: tokens of the larger side.
        tensors: what is stored.

    Raises:
        ModelError: more layers than tensors, or a matrix of more numbers than all that is stored.
    """
    layers, width = layer_count(settings), settings.width
    if layers > len(tensors):
        raise ModelError(
            f"{where}: {layers} layers, but only {len(tensors)} weights are stored; "
            "the files are of different models"
        )
    inner = settings.heads * (settings.head_width or 1)
    rows = {
        "the vocabulary": vocabulary,
        "the width": width,
        "the feed-forward": settings.feed_forward,
        "the heads": inner,
    }
    if isinstance(settings, ProphetNetSettings):
        rows["the decoder's feed-forward"] = settings.decoder_feed_forward or 0
        rows["the relative positions"] = settings.relative_buckets
    if isinstance(settings, TransformerSettings):
        rows["the decoder's feed-forward"] = settings.decoder_feed_forward or 0
        rows["the relative positions"] = settings.relative_buckets if settings.positions == "relative" else 0
    relative = isinstance(settings, TransformerSettings) and settings.positions == "relative"
    rows["the positions"] = 0 if relative else settings.max_length
    stored = sum(math.prod(tensor.shape) for tensor in tensors.values())
    for name, count in rows.items():
        if count * width > stored + SLACK:
            raise ModelError(
                f"{where}: {name} ({count}) at width {width} would be more numbers than the {stored} "
                "that are stored; the files are of different models, or one is damaged"
            )


def layer_count(
    settings: TransformerSettings | DecoderOnlySettings | EncoderOnlySettings | ProphetNetSettings,
) -> int:
    """How many layers a model has in all."""
    if isinstance(settings, TransformerSettings | ProphetNetSettings):
        return settings.encoder_layers + settings.decoder_layers
    return settings.layers

"""The one head of a Transformer's cross-attention that is taught to align (Garg 2019 §4)."""

from __future__ import annotations

from torch import Tensor, nn

from uwaga.errors import SettingsError
from uwaga.models.blocks import DecoderBlock
from uwaga.models.layers.watched import WatchedAttention


def watch_head(decoder: nn.ModuleList, layer: int | None, head: int | None) -> None:
    """Have the attention of a head kept in training, for :func:`watched_weights`.

    Args:
        decoder: the blocks of a Transformer's decoder; one is changed.
        layer: of the decoder, from 1; None for the last but one, or the only one.
        head: of the layer, from 1; None for the first.

    Raises:
        SettingsError: there is no such layer or head.
    """
    layers = len(decoder)
    chosen = max(1, layers - 1) if layer is None else layer
    if chosen > layers:
        raise SettingsError(f"training.guided_alignment.layer: {chosen}, but the decoder has {layers}")
    block = decoder[chosen - 1]
    assert isinstance(block, DecoderBlock)
    if (head or 1) > block.cross_attention.heads:
        raise SettingsError(
            f"training.guided_alignment.head: {head}, but the layer has {block.cross_attention.heads}"
        )
    block.cross_attention = WatchedAttention(block.cross_attention, (head or 1) - 1)


def watched_weights(decoder: nn.ModuleList) -> Tensor:
    """(sentences, target, source) of the watched head, in this thread's latest call.

    Raises:
        SettingsError: none is watched.
    """
    for block in decoder:
        if isinstance(block, DecoderBlock) and isinstance(block.cross_attention, WatchedAttention):
            return block.cross_attention.take_weights()
    raise SettingsError("no head of the model is watched; choose one with watch_head")

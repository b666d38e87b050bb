"""One head of a model's cross-attention, or the mean of a layer's."""

from __future__ import annotations

import numpy as np

from uwaga.errors import SettingsError
from uwaga.results.attention import Floats


def one_head(cross: Floats | None, layer: int, head: int | None) -> Floats:
    """The cross-attention (target, source) of a head, or of None the mean of its layer's heads.

    Heads are added one to the next, as the engine does it, so that the mean has the same bits.

    Args:
        cross: (layers, heads, target, source); None of a model that has none.
        layer: from 0, or below 0 from the last, as :func:`which_layer` has it.
        head: from 0; None for the mean.

    Raises:
        SettingsError: there is no such layer or head.
    """
    if cross is None:
        raise SettingsError("the model has no attention to a source")
    layer = which_layer(layer, head, *cross.shape[:2])
    if head is not None:
        chosen: Floats = np.ascontiguousarray(cross[layer, head])
        return chosen
    total = np.zeros(cross.shape[2:], dtype=np.float32)
    for each in cross[layer]:
        total += each
    return total / np.float32(cross.shape[1])


def all_heads(cross: Floats | None) -> Floats:
    """The cross-attention (layers, heads, target, source) of a model that has one.

    Raises:
        SettingsError: it has none.
    """
    if cross is None:
        raise SettingsError("the model has no attention to a source")
    return cross


def which_layer(layer: int, head: int | None, layers: int, heads: int) -> int:
    """The layer, from 0, that is meant: below 0 it counts from the last, or is the first of too few.

    Raises:
        SettingsError: the decoder has no such layer or head; names it as it is shown, from 1.
    """
    if layer >= layers:
        raise SettingsError(f"there is no layer {layer + 1} to align by: the decoder has {layers}")
    if head is not None and not 0 <= head < heads:
        raise SettingsError(f"there is no head {head + 1} to align by: a layer has {heads}")
    return layer if layer >= 0 else max(0, layers + layer)

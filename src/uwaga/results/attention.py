"""Attention matrices of a sentence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uwaga.errors import SettingsError

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Attentions:
    """All attention matrices of a sentence.

    The axes of each array are ``(layers, heads, query, key)``, in float32. ``encoder`` is (source, source),
    ``decoder`` (target, target), and ``cross`` (target, source); the decoder's queries are the steps that
    predict each target token, including the end symbol. An array is None if the model does not have that kind
    of attention.

    The last source token is the end symbol. Key j of the decoder is the input of its step j: the start
    symbol, then the target tokens. Recurrent models have one layer with one head of cross-attention; decoders
    with an SSRU or an average instead of self-attention have no decoder matrices.
    """

    encoder: Floats | None = None
    decoder: Floats | None = None
    cross: Floats | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Attentions):
            return NotImplemented
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return all(a is b if a is None or b is None else np.array_equal(a, b) for a, b in pairs)

    def __hash__(self) -> int:
        return hash(tuple(None if matrix is None else matrix.shape for matrix in vars(self).values()))

    def __bool__(self) -> bool:
        """Return True if at least one matrix is present."""
        return any(matrix is not None for matrix in vars(self).values())

    def __repr__(self) -> str:
        shapes = [f"{name} {matrix.shape}" for name, matrix in vars(self).items() if matrix is not None]
        return f"Attentions({', '.join(shapes)})"

    def to_prompt(self, prompt: int) -> Floats:
        """Return a decoder-only model's attention to its prompt (layers, heads, target, prompt).

        Args:
            prompt: number of tokens of the prompt; the first step reads the last of these tokens.
        """
        assert self.decoder is not None
        return np.ascontiguousarray(self.decoder[:, :, prompt - 1 :, :prompt])

    def to_dict(self) -> dict[str, object]:
        """Return the available matrices by name, as nested lists rounded to six decimals."""
        matrices = {name: matrix for name, matrix in vars(self).items() if matrix is not None}
        return {name: np.round(matrix.astype(np.float64), 6).tolist() for name, matrix in matrices.items()}


def select_head(cross: Floats | None, layer: int, head: int | None) -> Floats:
    """Return the cross-attention (target, source) of a head, or the mean of a layer's heads.

    Heads are summed in order, as in the engine, so that the mean is bit-identical.

    Args:
        cross: (layers, heads, target, source); None for a model without cross-attention.
        layer: the layer, from 0, or negative to count from the last; see :func:`resolve_layer`.
        head: the head, from 0; None for the mean.

    Raises:
        SettingsError: the model has no cross-attention, or no such layer or head.
    """
    if cross is None:
        raise SettingsError("the model has no source attention (cross-attention)")
    layer = resolve_layer(layer, head, *cross.shape[:2])
    if head is not None:
        head_weights: Floats = np.ascontiguousarray(cross[layer, head])
        return head_weights
    total = np.zeros(cross.shape[2:], dtype=np.float32)
    for weights in cross[layer]:
        total += weights
    return total / np.float32(cross.shape[1])


def require_cross_attention(cross: Floats | None) -> Floats:
    """Return the cross-attention (layers, heads, target, source), which must not be None.

    Raises:
        SettingsError: the model has no cross-attention.
    """
    if cross is None:
        raise SettingsError("the model has no source attention (cross-attention)")
    return cross


def resolve_layer(layer: int, head: int | None, layers: int, heads: int) -> int:
    """Return the index of a layer, from 0; a negative number counts layers from the last, down to the first.

    Raises:
        SettingsError: the decoder has no such layer or head; the message counts them from 1.
    """
    if layer >= layers:
        raise SettingsError(f"alignment layer {layer + 1} does not exist: the decoder has {layers} layers")
    if head is not None and not 0 <= head < heads:
        raise SettingsError(f"alignment head {head + 1} does not exist: a layer has {heads} heads")
    return layer if layer >= 0 else max(0, layers + layer)

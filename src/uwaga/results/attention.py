"""The attention matrices of a sentence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uwaga.errors import SettingsError

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Attentions:
    """All attention matrices of a sentence.

    Axes: ``(layers, heads, query, key)`` float32; encoder (source, source), decoder (target, target),
    cross (target, source); the decoder's queries are the steps that predict each target token, including the
    end symbol. None for a kind of attention that the model does not have.

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
        return hash(tuple(None if each is None else each.shape for each in vars(self).values()))

    def __bool__(self) -> bool:
        """Return True if any matrix is present."""
        return any(each is not None for each in vars(self).values())

    def __repr__(self) -> str:
        shapes = [f"{name} {each.shape}" for name, each in vars(self).items() if each is not None]
        return f"Attentions({', '.join(shapes)})"

    def to_prompt(self, prompt: int) -> Floats:
        """Return the attention of a decoder-only model's steps to its prompt (layers, heads, target, prompt).

        Args:
            prompt: tokens of the prompt; the first step reads the last one.
        """
        assert self.decoder is not None
        return np.ascontiguousarray(self.decoder[:, :, prompt - 1 :, :prompt])

    def to_dict(self) -> dict[str, object]:
        """Return the available matrices by name, as nested lists rounded to six decimals."""
        present = {name: each for name, each in vars(self).items() if each is not None}
        return {name: np.round(each.astype(np.float64), 6).tolist() for name, each in present.items()}


def select_head(cross: Floats | None, layer: int, head: int | None) -> Floats:
    """The cross-attention (target, source) of a head, or of None the mean of its layer's heads.

    Heads are added one to the next, as the engine does it, so that the mean has the same bits.

    Args:
        cross: (layers, heads, target, source); None of a model that has none.
        layer: from 0, or below 0 from the last, as :func:`resolve_layer` has it.
        head: from 0; None for the mean.

    Raises:
        SettingsError: there is no such layer or head.
    """
    if cross is None:
        raise SettingsError("the model has no attention to a source")
    layer = resolve_layer(layer, head, *cross.shape[:2])
    if head is not None:
        chosen: Floats = np.ascontiguousarray(cross[layer, head])
        return chosen
    total = np.zeros(cross.shape[2:], dtype=np.float32)
    for each in cross[layer]:
        total += each
    return total / np.float32(cross.shape[1])


def require_cross_attention(cross: Floats | None) -> Floats:
    """The cross-attention (layers, heads, target, source) of a model that has one.

    Raises:
        SettingsError: it has none.
    """
    if cross is None:
        raise SettingsError("the model has no attention to a source")
    return cross


def resolve_layer(layer: int, head: int | None, layers: int, heads: int) -> int:
    """The layer, from 0, that is meant: below 0 it counts from the last, or is the first of too few.

    Raises:
        SettingsError: the decoder has no such layer or head; names it as it is shown, from 1.
    """
    if layer >= layers:
        raise SettingsError(f"alignment layer {layer + 1} does not exist: the decoder has {layers} layers")
    if head is not None and not 0 <= head < heads:
        raise SettingsError(f"alignment head {head + 1} does not exist: a layer has {heads} heads")
    return layer if layer >= 0 else max(0, layers + layer)

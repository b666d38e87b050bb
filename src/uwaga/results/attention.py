"""Every attention matrix of one sentence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uwaga.results.record import equal_fields

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Attentions:
    """Every attention matrix of one sentence.

    Axes: ``(layers, heads, query, key)`` float32; encoder (source, source), decoder (target, target),
    cross (target, source); queries of the decoder are the steps that predict each target token, the end of
    sentence included. None where a model has no such attention.

    The source's end symbol is its last token. Key j of the decoder is what its step j read: the start symbol,
    then each token before. Recurrent models have one layer of one head across; decoders with an SSRU or an
    average in the place of self-attention have none there.
    """

    encoder: Floats | None = None
    decoder: Floats | None = None
    cross: Floats | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attentions) and equal_fields(self, other)

    def __hash__(self) -> int:
        return hash(tuple(None if one is None else one.shape for one in vars(self).values()))

    def __bool__(self) -> bool:
        """Whether there is any."""
        return any(one is not None for one in vars(self).values())

    def __repr__(self) -> str:
        shapes = [f"{name} {one.shape}" for name, one in vars(self).items() if one is not None]
        return f"Attentions({', '.join(shapes)})"

    def to_dict(self) -> dict[str, object]:
        """What JSON can hold of it, under the same names: what there is, weights to six decimals."""
        there = {name: one for name, one in vars(self).items() if one is not None}
        return {name: np.round(one.astype(np.float64), 6).tolist() for name, one in there.items()}

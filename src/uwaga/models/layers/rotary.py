"""Rotary positions: rotation of queries and keys by angles that depend on the position (M37; Su 2021)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from uwaga.settings import RotarySettings


class Rotation(NamedTuple):
    """Cosines and sines of the angles of positions, each (rows or 1, 1, positions, head width / 2)."""

    cosines: Tensor
    sines: Tensor


class RotaryPositions:
    """The angles of rotary positions, m θ_i for pair i at position m; there are no parameters.

    Angles are always computed in float64, because angles of distant positions would lose precision in
    float32.
    """

    def __init__(self, settings: RotarySettings, head_width: int, max_length: int) -> None:
        self.frequencies = settings.frequencies(head_width, max_length)
        self.factor = settings.score_factor

    def __call__(self, positions: Tensor, dtype: torch.dtype) -> Rotation:
        """Return the rotation for ``positions`` (rows or 1, new), multiplied by the factor of YaRN."""
        frequencies = torch.from_numpy(self.frequencies).to(positions.device)
        angles = positions[:, None, :, None] * frequencies  # (rows or 1, 1, new, head width / 2)
        return Rotation((angles.cos() * self.factor).to(dtype), (angles.sin() * self.factor).to(dtype))


def rotate(x: Tensor, rotation: Rotation) -> Tensor:
    """Return ``x`` (rows, heads, positions, head width), rotated according to the positions.

    Elements i and i + d/2 of a head of width d are a pair (a, b), which becomes
    ``(a cos - b sin, b cos + a sin)`` (Su 2021 eq. 34). The product of a rotated query and a rotated key
    depends only on the distance of their positions.
    """
    first_half, second_half = x.chunk(2, dim=-1)
    rotated = (
        first_half * rotation.cosines - second_half * rotation.sines,
        second_half * rotation.cosines + first_half * rotation.sines,
    )
    return torch.cat(rotated, dim=-1)

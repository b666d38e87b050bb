"""Where a token stands: sinusoidal and learned positions (M16; Vaswani 2017 §3.5)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def sinusoids(positions: int, width: int) -> Tensor:
    """(positions, width) with ``sin(p / 10000^(2i/width))`` in even columns and the cosine in odd ones."""
    rates = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * rates  # (positions, width / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(positions, width).float()


class SinusoidalPositions(nn.Module):
    """Fixed sinusoids; nothing is learned or stored."""

    table: Tensor

    def __init__(self, positions: int, width: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(positions, width), persistent=False)

    def forward(self, start: int, length: int) -> Tensor:
        """(length, width): the vectors of positions start to start + length - 1."""
        return self.table[start : start + length]


class LearnedPositions(nn.Module):
    """One trained vector per position."""

    def __init__(self, positions: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(positions, width))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, start: int, length: int) -> Tensor:
        """(length, width): the vectors of positions start to start + length - 1."""
        return self.weight[start : start + length]

"""Positions: sinusoidal, learned and relative (M16; Vaswani 2017 §3.5; Raffel 2020)."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn

from uwaga.settings import TransformerSettings

SinusoidOrder = Literal["interleaved", "halves", "tensor2tensor"]


def sinusoids(positions: int, width: int, order: SinusoidOrder = "interleaved") -> Tensor:
    """Return the sinusoidal vectors of positions, (positions, width): ``sin`` and ``cos`` of ``p · rate_i``.

    The rates are ``10000^(-2i/width)``. The order ``interleaved`` has sines in even and cosines in odd
    columns; ``halves`` has all sines, then all cosines (Marian); ``tensor2tensor`` has the order of
    ``halves``, but the rates of that library, ``10000^(-i / (width/2 - 1))`` (M2M100).
    """
    if order == "tensor2tensor":
        rates = torch.exp(
            torch.arange(width // 2, dtype=torch.float64) * (-math.log(10000.0) / max(width // 2 - 1, 1))
        )
    else:
        rates = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * rates  # (positions, width / 2)
    if order != "interleaved":
        return torch.cat([angles.sin(), angles.cos()], dim=-1).float()
    return torch.stack([angles.sin(), angles.cos()], dim=-1).reshape(positions, width).float()


class SinusoidalPositions(nn.Module):
    """Fixed sinusoidal vectors of positions; there are no parameters."""

    table: Tensor

    def __init__(
        self, positions: int, width: int, order: SinusoidOrder = "interleaved", offset: int = 0
    ) -> None:
        super().__init__()
        table = sinusoids(positions + offset, width, order)[offset:]
        self.register_buffer("table", table, persistent=False)

    def forward(self, start: int, length: int) -> Tensor:
        """Return the vectors (length, width) of positions ``start`` to ``start + length - 1``."""
        return self.table[start : start + length]

    def lookup(self, positions: Tensor) -> Tensor:
        """Return the vectors (..., width) of ``positions`` (...)."""
        return self.table[positions]


class LearnedPositions(nn.Module):
    """A trained vector for each position, after ``offset`` unused rows (2 in BART)."""

    def __init__(self, positions: int, width: int, offset: int = 0) -> None:
        super().__init__()
        self.offset = offset
        self.weight = nn.Parameter(torch.empty(positions + offset, width))
        nn.init.normal_(self.weight, std=width**-0.5)

    def forward(self, start: int, length: int) -> Tensor:
        """Return the vectors (length, width) of positions ``start`` to ``start + length - 1``."""
        return self.weight[self.offset + start : self.offset + start + length]

    def lookup(self, positions: Tensor) -> Tensor:
        """Return the vectors (..., width) of ``positions`` (...)."""
        return self.weight[self.offset + positions]


class RelativePositions(nn.Module):
    """Relative positions: a bias is added to the scores, for each head and bucket (Raffel 2020 §2.1)."""

    def __init__(self, heads: int, buckets: int, distance: int, bidirectional: bool) -> None:
        super().__init__()
        self.buckets, self.distance, self.bidirectional = buckets, distance, bidirectional
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        nn.init.normal_(self.weight, std=heads**-0.5)

    def forward(self, start: int, target: int, source: int) -> Tensor:
        """Return the bias (heads, target, source) of the scores.

        Queries are at positions ``start`` to ``start + target - 1``, keys at 0 to ``source - 1``.
        """
        device = self.weight.device
        queries = torch.arange(start, start + target, device=device)[:, None]
        bucket = self.bucket(torch.arange(source, device=device)[None, :] - queries)  # (target, source)
        return self.weight[bucket].permute(2, 0, 1)

    def pairwise_bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the bias (rows, heads, target, source) of scores, given positions of queries and keys.

        ``queries`` are (rows, target), ``keys`` are (rows, source).
        """
        bucket = self.bucket(keys[:, None, :] - queries[:, :, None])  # (rows, target, source)
        return self.weight[bucket].permute(0, 3, 1, 2)

    def bucket(self, distance: Tensor) -> Tensor:
        """Return the :func:`relative_bucket` of each ``key position - query position``."""
        return relative_bucket(distance, self.buckets, self.distance, self.bidirectional)


def relative_bucket(distance: Tensor, buckets: int, max_distance: int, bidirectional: bool) -> Tensor:
    """Return the bucket of ``key position - query position`` (Raffel 2020 §2.1).

    In each direction, half of the buckets contain one distance each. The other half contain ranges of
    distances, which grow logarithmically up to ``max_distance``. Without ``bidirectional``, all later keys
    are in bucket 0.

    Args:
        distance: key position minus query position, (...).
        buckets: number of buckets of both directions together.
        max_distance: distance that shares its bucket with all larger distances.
        bidirectional: whether later keys have separate buckets.
    """
    count = buckets // 2 if bidirectional else buckets
    direction_offset = (distance > 0).long() * count if bidirectional else torch.zeros_like(distance)
    magnitude = distance.abs() if bidirectional else (-distance).clamp_min(0)
    exact_count = count // 2
    log_ratio = torch.log(magnitude.clamp_min(1).float() / exact_count) / math.log(max_distance / exact_count)
    logarithmic = (exact_count + (log_ratio * (count - exact_count)).long()).clamp_max(count - 1)
    return direction_offset + torch.where(magnitude < exact_count, magnitude, logarithmic)


Positions = SinusoidalPositions | LearnedPositions | RelativePositions


def make_positions(settings: TransformerSettings, heads: int, bidirectional: bool) -> Positions:
    """Return the layer for the positions in the source or in the target of a Transformer."""
    length, width, offset = settings.max_length, settings.width, settings.position_offset
    if settings.positions == "relative":
        return RelativePositions(heads, settings.relative_buckets, settings.relative_distance, bidirectional)
    if settings.positions == "learned":
        return LearnedPositions(length, width, offset)
    return SinusoidalPositions(length, width, settings.sinusoids, offset)


def position_vectors(positions: Positions, start: int, length: int) -> Tensor | None:
    """Return the vectors (length, width) of positions from ``start`` on; None for relative positions."""
    if isinstance(positions, RelativePositions):
        return None
    vectors: Tensor = positions(start, length)
    return vectors


def position_bias(positions: Positions, start: int, length: int) -> Tensor | None:
    """Return the bias (heads, target, source) to add to the scores, or None if positions are not relative.

    The ``length`` queries are at positions from ``start`` on, the keys at all positions up to the last query.
    """
    if isinstance(positions, RelativePositions):
        bias: Tensor = positions(start, length, start + length)
        return bias
    return None

"""Where a token stands, for the engine: the tables of :mod:`uwaga.models.layers.positions` in numpy."""

from __future__ import annotations

import math

import numpy as np

from uwaga.decoder import Ids
from uwaga.results.attention import Floats
from uwaga.settings import TransformerSettings


def sinusoids(settings: TransformerSettings) -> Floats:
    """(max_length, width): the sinusoids of each position (Vaswani 2017 §3.5), in the settings' order."""
    width, half = settings.width, settings.width // 2
    if settings.sinusoids == "tensor2tensor":
        exponents = np.arange(half) * (-math.log(10000.0) / max(half - 1, 1))
    else:
        exponents = np.arange(0, width, 2) * (-math.log(10000.0) / width)
    positions = np.arange(settings.position_offset, settings.position_offset + settings.max_length)
    angles = positions[:, None] * np.exp(exponents)  # (max_length, width / 2), float64
    if settings.sinusoids == "interleaved":
        table = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(len(positions), width)
    else:
        table = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
    return table.astype(np.float32)


def distances(weight: Floats, settings: TransformerSettings, both_ways: bool) -> Floats:
    """(heads, 2 * reach + 1): the bias of the scores for ``key - query`` from ``-reach`` to ``reach``.

    The reach is ``relative_distance``: all that is further away is alike (Raffel 2020 §2.1).

    Args:
        weight: (buckets, heads).
        settings: of the model.
        both_ways: whether later keys have buckets of their own.
    """
    reach = settings.relative_distance
    bucket = _bucket(np.arange(-reach, reach + 1), settings, both_ways)
    return np.ascontiguousarray(weight[bucket].T)


def _bucket(distance: Ids, settings: TransformerSettings, both_ways: bool) -> Ids:
    """The bucket of a distance; see :class:`uwaga.models.layers.positions.RelativePositions`."""
    count = settings.relative_buckets // 2 if both_ways else settings.relative_buckets
    side = (distance > 0) * count if both_ways else np.zeros_like(distance)
    away = np.abs(distance) if both_ways else np.maximum(-distance, 0)
    exact = count // 2
    near = (np.maximum(away, 1).astype(np.float32) / np.float32(exact)).astype(np.float32)
    spread = np.log(near) / np.float32(math.log(settings.relative_distance / exact))
    far = np.minimum(exact + (spread * np.float32(count - exact)).astype(np.int64), count - 1)
    return np.asarray(side + np.where(away < exact, away, far))

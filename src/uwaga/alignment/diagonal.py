"""Where a word's partner is likely to stand: the diagonal prior of Dyer 2013 (§2)."""

from __future__ import annotations

import numpy as np

from uwaga.decoder import Ids
from uwaga.results.attention import Floats

NULL = 0.08
"""Probability that a target word has no partner; as Dyer 2013 has it."""
FIRST, LEAST, MOST = 4.0, 0.1, 14.0
"""Tension: where it begins, and its bounds."""
ASCENTS, RATE = 8, 20.0


def distances(source: int, target: int) -> Floats:
    """(target, source) of how far each place is from the diagonal: ``|i / target - j / source|``."""
    rows = (np.arange(target, dtype=np.float32) + 1) / target
    columns = (np.arange(source, dtype=np.float32) + 1) / source
    away: Floats = np.abs(rows[:, None] - columns)
    return away


def diagonal_prior(away: Floats, tension: float) -> Floats:
    """(target, source + 1): null first, then ``(1 - NULL) · exp(-tension · away) / Z`` (eq. 1 ff.)."""
    close = np.exp(-tension * away)  # (target, source)
    close *= (1.0 - NULL) / close.sum(axis=1, keepdims=True)
    return np.concatenate([np.full((len(away), 1), NULL, dtype=close.dtype), close], axis=1)


def ascend(tension: float, observed: float, shapes: Ids, counts: Ids) -> float:
    """The tension by some steps of gradient ascent on the expected log-likelihood (§2.2).

    Args:
        tension: as it is.
        observed: mean distance from the diagonal, negative, that the posteriors have.
        shapes: (shapes, 2) the lengths of target and source that there are.
        counts: (shapes,) target words in pairs of each shape.
    """
    for _ in range(ASCENTS):
        expected = 0.0
        for (target, source), words in zip(shapes.tolist(), counts.tolist(), strict=True):
            away = distances(source, target)
            close = np.exp(-tension * away)
            expected -= words * float(np.mean((close * away).sum(axis=1) / close.sum(axis=1)))
        tension += RATE * (observed - expected / float(counts.sum()))
        tension = min(MOST, max(LEAST, tension))
    return tension

"""A decoder led along a known target, and where it looks on the way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uwaga.contracts import Choice, Decoder, Floats, Hypothesis, Ids
from uwaga.errors import SettingsError


def force(decoder: Decoder, source: Sequence[int], target: Sequence[int]) -> Hypothesis:
    """Feed a known target step by step and keep each step's attention.

    Args:
        decoder: the model.
        source: token ids with their end symbol.
        target: token ids with their end symbol.

    Returns:
        the target as a hypothesis whose ``attention`` is (target, source); its score is its log-probability.

    Raises:
        SettingsError: the model has no attention.
    """
    state = decoder.start(decoder.encode([source]), 1)
    tokens: Ids = np.array([decoder.symbols.start], dtype=np.int64)  # (rows,)
    scores, rows = list[float](), list[Floats]()
    for token in target:
        wanted: Ids = np.array([token], dtype=np.int64)
        step = decoder.step(tokens, state, Choice(count=1, forced=wanted, attention=True))
        if step.attention is None:
            raise no_attention()
        scores.append(float(step.log_probs[0, 0]))
        rows.append(step.attention[0, : len(source)])
        state, tokens = step.state, wanted
    total = sum(scores)
    return Hypothesis(tuple(target[:-1]), total, total, tuple(scores), attention=np.stack(rows))


def no_attention() -> SettingsError:
    """What to say to a user who wants to see the attention of a model that has none."""
    return SettingsError(
        "the model has no attention to look at: its decoder gets one vector for the whole sentence, as in "
        "Cho 2014 and Sutskever 2014; choose one with attention, such as Bahdanau, Luong or a Transformer"
    )

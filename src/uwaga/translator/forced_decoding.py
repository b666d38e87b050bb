"""A decoder led along known targets: what they cost, and where it looks on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from uwaga.decoder import Choice, Decoder, Ids, LogProbs
from uwaga.errors import SettingsError
from uwaga.results.attention import Floats
from uwaga.results.translation import Hypothesis


@dataclass(frozen=True)
class ForcedStep:
    """One position of all targets that are so long.

    ``indices`` (running,) says which targets these are, the longest first; ``tokens`` and ``log_probs``
    (running,) are theirs at this position; ``attention`` (running, source) where asked for, padding 0.
    """

    indices: Ids
    tokens: Ids
    log_probs: LogProbs
    attention: Floats | None


def forced_steps(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int] | Ids],
    start: int | None = None,
    attention: bool = False,
) -> Iterator[ForcedStep]:
    """Feed known targets token by token, all together; a target that is done is taken out.

    Args:
        decoder: the model.
        sources: token ids with their end symbols.
        targets: token ids with their end symbols, one or more of each source's.
        start: token that decoding starts from, None for the decoder's own.
        attention: whether to ask for the attention.

    Raises:
        SettingsError: the attention of a model that has none is asked for.
    """
    order = np.array(sorted(range(len(targets)), key=lambda index: -len(targets[index])), dtype=np.int64)
    lengths = np.array([len(targets[index]) for index in order])  # (sentences,) falling
    wanted: Ids = np.zeros((len(order), int(lengths[0])), dtype=np.int64)  # (sentences, target)
    for row, index in enumerate(order):
        wanted[row, : lengths[row]] = targets[index]
    state = decoder.start(decoder.encode([sources[index] for index in order]), 1)
    first = decoder.symbols.start if start is None else start
    tokens: Ids = np.full(len(order), first, dtype=np.int64)  # (running,)
    for position in range(wanted.shape[1]):
        running = int((lengths > position).sum())
        if running < len(tokens):
            state, tokens = state.select(np.arange(running)), tokens[:running]
        forced = wanted[:running, position]
        step = decoder.step(tokens, state, Choice(count=1, forced=forced, attention=attention))
        if attention and step.attention is None:
            raise no_attention()
        yield ForcedStep(order[:running], forced, step.log_probs[:, 0], step.attention)
        state, tokens = step.state, forced


def force(
    decoder: Decoder, source: Sequence[int], target: Sequence[int], start: int | None = None
) -> Hypothesis:
    """Feed a known target step by step and keep each step's attention.

    Args:
        decoder: the model.
        source: token ids with their end symbol.
        target: token ids with their end symbol.
        start: token that decoding starts from, None for the decoder's own.

    Returns:
        the target as a hypothesis whose ``attention`` is (target, source); its score is its log-probability.

    Raises:
        SettingsError: the model has no attention.
    """
    scores, rows = list[float](), list[Floats]()
    for step in forced_steps(decoder, [source], [target], start, attention=True):
        assert step.attention is not None
        scores.append(float(step.log_probs[0]))
        rows.append(step.attention[0, : len(source)])
    total = sum(scores)
    return Hypothesis(tuple(target[:-1]), total, total, tuple(scores), attention=np.stack(rows))


def no_attention() -> SettingsError:
    """What to say to a user who wants to see the attention of a model that has none."""
    return SettingsError(
        "the model has no attention to look at: its decoder gets one vector for the whole sentence, as in "
        "Cho 2014 and Sutskever 2014; choose one with attention, such as Bahdanau, Luong or a Transformer"
    )

"""The probability of a given target (M20)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from uwaga.contracts import Choice, Decoder, Ids
from uwaga.decoding.length_batching import length_batches

LARGEST_EXPONENT = 709.0

Scorer = Callable[[Sequence[Sequence[int]], Sequence[Sequence[int]]], list[list[float]]]
"""From sources and targets, all with their end symbols, to the log-probability of each target token."""


@dataclass(frozen=True)
class Score:
    """What a model thinks of a given target: ``p(Y | X) = Π_i p(y_i | Y_<i, X)`` (M20).

    ``token_scores`` are the natural log-probabilities of ``tokens`` and, last, of the end symbol;
    ``log_prob`` is their sum.
    """

    log_prob: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    source_tokens: tuple[str, ...]

    @property
    def mean(self) -> float:
        """``log_prob`` per token, end symbol counted."""
        return self.log_prob / len(self.token_scores)

    @property
    def perplexity(self) -> float:
        """``exp(-mean)``, infinite where a float cannot hold it."""
        return math.exp(-self.mean) if -self.mean < LARGEST_EXPONENT else math.inf


def in_batches(
    scorer: Scorer, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], batch_tokens: int
) -> list[list[float]]:
    """Score pairs of like length together, at most ``batch_tokens`` of the longer side at a time."""
    results: list[list[float]] = [[] for _ in sources]
    lengths = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    for numbers in length_batches(lengths, 1, batch_tokens):
        scored = scorer([sources[number] for number in numbers], [targets[number] for number in numbers])
        for number, scores in zip(numbers, scored, strict=True):
            results[number] = scores
    return results


def step_scorer(decoder: Decoder) -> Scorer:
    """Scoring with any decoder: each step is forced to take the target's next token."""

    def score(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        order = sorted(range(len(targets)), key=lambda number: -len(targets[number]))
        lengths = np.array([len(targets[number]) for number in order])  # (sentences,) falling
        wanted: Ids = np.zeros((len(order), int(lengths[0])), dtype=np.int64)  # (sentences, target)
        for row, number in enumerate(order):
            wanted[row, : lengths[row]] = targets[number]
        found = np.zeros(wanted.shape, dtype=np.float64)
        state = decoder.start(decoder.encode([sources[number] for number in order]), 1)
        tokens: Ids = np.full(len(order), decoder.symbols.start, dtype=np.int64)  # (running,)
        for position in range(wanted.shape[1]):
            running = int((lengths > position).sum())
            if running < len(tokens):
                state, tokens = state.select(np.arange(running)), tokens[:running]
            forced = wanted[:running, position]
            step = decoder.step(tokens, state, Choice(count=1, forced=forced))
            found[:running, position] = step.log_probs[:, 0]
            state, tokens = step.state, forced
        scores: list[list[float]] = [[] for _ in targets]
        for row, number in enumerate(order):
            scores[number] = found[row, : lengths[row]].tolist()
        return scores

    return score

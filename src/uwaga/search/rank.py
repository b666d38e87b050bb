"""Length normalisation, the pool of finished hypotheses, and the stopping rules (M24).

Log-probabilities are summed in float64. The score of a hypothesis of log-probability ``L`` and length ``m``,
end symbol included, is ``L / divisor(m)`` where ``divisor(m)`` is

- ``average``: ``m ** alpha``, the plain normalisation of ``transformers``, Marian and fairseq;
- ``gnmt``: ``((5 + m) / 6) ** alpha``, Wu et al. 2016, eq. 14;
- ``none``: 1.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import FinishedTarget, Ids
from uwaga.results.translation import Hypothesis
from uwaga.search.options import SearchOptions

Scores = NDArray[np.float64]
Flags = NDArray[np.bool_]
Value = TypeVar("Value", bound=np.generic)


@dataclass(frozen=True)
class Ranking:
    """The length normalisation of scores: a formula and its exponent alpha."""

    formula: str
    alpha: float

    @classmethod
    def from_options(cls, options: SearchOptions) -> Ranking:
        """Create the ranking that search options specify."""
        return cls(options.length_formula, options.length_penalty)

    def divisor(self, length: Ids) -> Scores:
        """Return the divisor for each length; a length of 0 counts as 1.

        C's ``pow`` computes the divisors, as in uwaga's C library; NumPy's may differ in the last bit.
        """
        counted_lengths = np.maximum(length, 1).astype(np.float64)
        if self.formula == "none":
            return np.ones_like(counted_lengths)
        bases = counted_lengths if self.formula == "average" else (5.0 + counted_lengths) / 6.0
        powers = [math.pow(base, self.alpha) for base in bases.ravel().tolist()]
        return np.array(powers).reshape(counted_lengths.shape)

    def bound(self, log_prob: Scores, shortest: Ids, longest: Ids) -> Scores:
        """Return an upper bound on the final scores of running hypotheses.

        Log-probabilities only decrease, and the divisor is monotonic in the length, so the bound is
        ``log_prob`` over the divisor at one end of the range of possible lengths.
        """
        return np.maximum(log_prob / self.divisor(shortest), log_prob / self.divisor(longest))


class TableRanking(Ranking):
    """A length normalisation given as a table of divisors.

    Args:
        divisors: (lengths,) from length 0.
    """

    def __init__(self, divisors: Scores) -> None:
        super().__init__("table", 0.0)
        object.__setattr__(self, "divisors", divisors)

    divisors: Scores

    def divisor(self, length: Ids) -> Scores:
        """See :meth:`Ranking.divisor`."""
        return np.asarray(self.divisors[np.maximum(length, 0)])


def gather(values: NDArray[Value], indices: Ids) -> NDArray[Value]:
    """Return ``values`` (rows, n) at the columns ``indices`` (rows, k), faster than
    ``np.take_along_axis``.
    """
    if values.shape[1] == indices.shape[1] == 1:
        return values  # greedy search
    return np.asarray(values[np.arange(len(values))[:, None], indices])


class FinishedHypotheses:
    """The best finished hypotheses of each sentence, best first.

    Axes (sentences, slots); an empty slot has score -inf. ``nodes`` are the last nodes of the hypotheses in
    the trellis, and ``depths`` are their lengths. Among equal scores, the hypothesis that finished first or
    ranked higher in the beam wins.
    """

    def __init__(self, sentences: int, slots: int) -> None:
        self.scores: Scores = np.full((sentences, slots), -np.inf)
        self.nodes: Ids = np.zeros((sentences, slots), dtype=np.int64)
        self.depths: Ids = np.zeros((sentences, slots), dtype=np.int64)
        self.truncated: Flags = np.zeros((sentences, slots), dtype=np.bool_)

    def add(self, indices: Ids, scores: Scores, nodes: Ids, depths: Ids, is_truncated: Flags) -> None:
        """Merge candidates into the pool.

        Args:
            indices: (added,) the sentences, each once.
            scores: (added, candidates), -inf for a candidate that is not added.
            nodes: (added, candidates) trellis nodes.
            depths: (added,) lengths of these hypotheses, end symbol included.
            is_truncated: (added, candidates) True if a limit cut them.
        """
        slots = self.scores.shape[1]
        merged_scores = np.concatenate([self.scores[indices], scores], axis=1)  # (added, slots + candidates)
        best_order = np.argsort(-merged_scores, axis=1, kind="stable")[:, :slots]  # (added, slots)

        def merge(old_values: NDArray[Value], new_values: NDArray[Value]) -> NDArray[Value]:
            return gather(np.concatenate([old_values[indices], new_values], axis=1), best_order)

        self.nodes[indices] = merge(self.nodes, nodes)
        self.depths[indices] = merge(self.depths, np.broadcast_to(depths[:, None], nodes.shape))
        self.truncated[indices] = merge(self.truncated, is_truncated)
        self.scores[indices] = gather(merged_scores, best_order)


def search_finished(
    options: SearchOptions,
    ranking: Ranking,
    running_scores: Scores,
    finished_scores: Scores,
    pool_sizes: Ids,
    length: Ids,
    longest: Ids,
) -> Flags:
    """Return a mask of the sentences whose beam search is finished (M24).

    Args:
        options: the stopping rule and ``nbest``.
        ranking: the length formula.
        running_scores: (sentences,) log-probability of each sentence's best running hypothesis, as used for
            ranks.
        finished_scores: (sentences, slots) scores of the finished hypotheses, best first, -inf for none.
        pool_sizes: (sentences,) number of finished hypotheses after which to stop.
        length: (sentences,) length of the running hypotheses, without uncounted tokens.
        longest: (sentences,) the maximum of this length.

    Returns:
        (sentences,) True for finished sentences.
    """
    worst_scores = finished_scores[np.arange(len(finished_scores)), pool_sizes - 1]  # (sentences,)
    is_full = worst_scores > -np.inf
    if options.early_stopping is True:
        return is_full
    if options.early_stopping == "estimate":
        return is_full & (running_scores / ranking.divisor(length) <= worst_scores)
    last_scores = finished_scores[:, options.nbest - 1]
    return ranking.bound(running_scores, length + 1, longest) <= last_scores


class StepOutcome(NamedTuple):
    """The outcome of a step, for streaming.

    Attributes:
        extended: (extended,) indices of the sentences with a new token.
        tokens: (extended,) the new token of each of these sentences.
        log_probs: (extended,) the log-probability of each new token.
        finished: (finished,) indices of the finished sentences.
    """

    extended: Ids
    tokens: Ids
    log_probs: Scores
    finished: Ids


def hypothesis(target: FinishedTarget, end_symbols: Collection[int]) -> Hypothesis:
    """Return a finished target as a hypothesis without its end symbol.

    The score of the end symbol is kept, unless the target is truncated.
    """
    tokens, token_scores, attention = target.tokens, target.log_probs, target.attention
    if tokens and tokens[-1] in end_symbols:
        tokens = tokens[:-1]
    if target.truncated:
        token_scores = token_scores[: len(tokens)]
        attention = None if attention is None else attention[: len(tokens)]
    return Hypothesis(
        tokens=tuple(tokens),
        score=target.score,
        log_prob=math.fsum(token_scores),
        token_scores=tuple(token_scores),
        truncated=target.truncated,
        attention=attention,
        draft=target.draft,
    )

"""The probability of a given target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from uwaga.decoder import Decoder
from uwaga.results.confidence import Word, words_of
from uwaga.results.translation import JsonRecord, json_number, shortened
from uwaga.search.length_batching import length_batches
from uwaga.settings.options import check_whole
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.forced_decoding import forced_steps

LARGEST_EXPONENT = 709.0


class Scorer(Protocol):
    """From sources and targets, all with their end symbols, to the log-probability of each target token.

    ``start`` is the token that decoding starts from, None for the model's own.
    """

    def __call__(
        self,
        sources: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        start: int | None = None,
    ) -> list[list[float]]: ...


@dataclass(frozen=True, repr=False)
class Score(JsonRecord):
    """What a model thinks of a given target: ``p(Y | X) = Π_i p(y_i | Y_<i, X)``.

    ``token_scores`` are the natural log-probabilities of ``tokens`` and, last, of the end symbol;
    ``log_prob`` is their sum. ``source`` and ``target`` are the texts.
    """

    log_prob: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    source_tokens: tuple[str, ...]
    source: str = ""
    target: str = ""

    def __repr__(self) -> str:
        numbers = f"log_prob={self.log_prob:.4g}, perplexity={self.perplexity:.4g}, {len(self.tokens)} tokens"
        return f"Score({shortened(self.target)!r}, {numbers})"

    @property
    def words(self) -> tuple[Word, ...]:
        """The words of ``target``, each with its probability, the end of the sentence included."""
        return words_of(self.target, self.tokens, self.token_scores)

    @property
    def mean(self) -> float:
        """``log_prob`` per token, end symbol counted."""
        return self.log_prob / len(self.token_scores)

    @property
    def perplexity(self) -> float:
        """``exp(-mean)``, infinite where a float cannot hold it."""
        return math.exp(-self.mean) if -self.mean < LARGEST_EXPONENT else math.inf

    def to_dict(self) -> dict[str, object]:
        """What JSON can hold of it, under the same names, with ``mean`` and ``perplexity``.

        Numbers are rounded to six decimals; an infinite one is None.
        """
        return {
            "source": self.source,
            "target": self.target,
            "log_prob": json_number(self.log_prob),
            "mean": json_number(self.mean),
            "perplexity": json_number(self.perplexity),
            "tokens": list(self.tokens),
            "token_scores": [json_number(score) for score in self.token_scores],
            "source_tokens": list(self.source_tokens),
        }


def as_score(
    texts: tuple[str, str],
    given: Sequence[int],
    wanted: Sequence[int],
    scores: Sequence[float],
    source: Subwords,
    target: Subwords,
) -> Score:
    """The score of a pair of texts from the ids of both sides and the log-probabilities of the target's."""
    pieces, source_pieces = tuple(target.pieces(wanted[:-1])), tuple(source.pieces(given[:-1]))
    return Score(sum(scores), pieces, tuple(scores), source_pieces, *texts)


def in_batches(
    scorer: Scorer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    batch_tokens: int,
    start: int | None = None,
) -> list[list[float]]:
    """Score pairs of like length together, at most ``batch_tokens`` of the longer side at a time.

    Raises:
        SettingsError: ``batch_tokens`` is no number of tokens.
    """
    check_whole("batch_tokens", batch_tokens, 1)
    results: list[list[float]] = [[] for _ in sources]
    lengths = [max(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    for indices in length_batches(lengths, 1, batch_tokens):
        scored = scorer([sources[index] for index in indices], [targets[index] for index in indices], start)
        for index, scores in zip(indices, scored, strict=True):
            results[index] = scores
    return results


def step_scorer(decoder: Decoder) -> Scorer:
    """Scoring with any decoder: each step is forced to take the target's next token."""

    def score(
        sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], start: int | None = None
    ) -> list[list[float]]:
        scores: list[list[float]] = [[] for _ in targets]
        for step in forced_steps(decoder, sources, targets, start):
            for index, log_prob in zip(step.indices.tolist(), step.log_probs.tolist(), strict=True):
                scores[index].append(log_prob)
        return scores

    return score

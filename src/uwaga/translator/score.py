"""Scores of given targets by forced decoding, step by step or for all positions at once."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Protocol

import numpy as np

from uwaga.decoder import Choice, Decoder, Ids, LogProbs
from uwaga.errors import SettingsError
from uwaga.results.attention import Floats
from uwaga.results.confidence import Word, words_from_tokens
from uwaga.results.translation import Hypothesis, JsonRecord, json_number, shorten
from uwaga.search.forcing import force_targets
from uwaga.search.length_batching import map_batches
from uwaga.settings.options import check_integer
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.text import TokenPair

if TYPE_CHECKING:
    from uwaga.models.base import Seq2Seq


@dataclass(frozen=True)
class ForcedStep:
    """One step of forced decoding: a position in all targets that are long enough.

    ``indices`` (running,) are the indices of these targets, longest first; ``tokens`` and ``log_probs``
    (running,) are their tokens and log-probabilities at this position. ``attention`` (running, source) is
    padded with zeros; None if not requested.
    """

    indices: Ids
    tokens: Ids
    log_probs: LogProbs
    attention: Floats | None


def forced_steps(
    decoder: Decoder, pairs: Sequence[TokenPair], start: int | None = None, attention: bool = False
) -> Iterator[ForcedStep]:
    """Yield the steps of force-decoding given targets together; a finished target is in no further step.

    Args:
        decoder: the model.
        pairs: one or more pairs of token ids, end symbols included.
        start: token that decoding starts from, None for the decoder's default.
        attention: whether each step includes its attention.

    Raises:
        SettingsError: attention is requested from a model that has none.
    """
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    start_token = decoder.symbols.start if start is None else start
    choice = Choice(count=1, attention=attention)
    for indices, tokens, step in force_targets(decoder, sources, targets, start_token, choice):
        if attention and step.attention is None:
            raise no_attention_error()
        yield ForcedStep(indices, tokens, step.log_probs[:, 0], step.attention)


def force(decoder: Decoder, pair: TokenPair, start: int | None = None) -> Hypothesis:
    """Force-decode a given target and record the attention of each step.

    Args:
        decoder: the model.
        pair: token ids of both sides, end symbols included.
        start: token that decoding starts from, None for the decoder's default.

    Returns:
        the target as a hypothesis whose ``attention`` is (target, source); its score is its log-probability.

    Raises:
        SettingsError: the model has no attention.
    """
    scores, rows = list[float](), list[Floats]()
    for step in forced_steps(decoder, [pair], start, attention=True):
        assert step.attention is not None
        scores.append(float(step.log_probs[0]))
        rows.append(step.attention[0, : len(pair.source)])
    total = sum(scores)
    return Hypothesis(tuple(pair.target[:-1]), total, total, tuple(scores), attention=np.stack(rows))


def no_attention_error() -> SettingsError:
    """Return the error for a request for attention from a model that has none."""
    return SettingsError(
        "the model has no attention to show: its decoder gets a single vector for the whole sentence, as in "
        "Cho 2014 and Sutskever 2014; choose one with attention, such as Bahdanau, Luong or a Transformer"
    )


MAX_EXPONENT = 709.0
"""Largest integer whose exponential is a finite float."""


class Scorer(Protocol):
    """A function that returns the log-probability of each target token of pairs that include end symbols.

    ``start`` is the token that decoding starts from, None for the model's default.
    """

    def __call__(self, pairs: Sequence[TokenPair], start: int | None = None) -> list[list[float]]: ...


@dataclass(frozen=True, repr=False)
class Score(JsonRecord):
    """The log-probability of a given target: ``log p(Y | X) = Σ_i log p(y_i | Y_<i, X)``.

    ``token_scores`` are the natural log-probabilities of ``tokens`` and of the end symbol, which is last;
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
        return f"Score({shorten(self.target)!r}, {numbers})"

    @property
    def words(self) -> tuple[Word, ...]:
        """The words of ``target`` and the end of the sentence, each with its probability."""
        return words_from_tokens(self.target, self.tokens, self.token_scores)

    @property
    def mean(self) -> float:
        """The log-probability per token, end symbol included."""
        return self.log_prob / len(self.token_scores)

    @property
    def perplexity(self) -> float:
        """The perplexity ``exp(-mean)``; infinite if it exceeds the range of floats."""
        return math.exp(-self.mean) if -self.mean < MAX_EXPONENT else math.inf

    def to_dict(self) -> dict[str, object]:
        """Return the fields as JSON values, with ``mean`` and ``perplexity``.

        Numbers are rounded to six decimals; an infinite number is None.
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
    texts: tuple[str, str], ids: TokenPair, scores: Sequence[float], source: Subwords, target: Subwords
) -> Score:
    """Return the score of a pair of texts, given its token ids and the target's log-probabilities."""
    pieces, source_pieces = tuple(target.pieces(ids.target[:-1])), tuple(source.pieces(ids.source[:-1]))
    return Score(sum(scores), pieces, tuple(scores), source_pieces, *texts)


def score_in_batches(
    scorer: Scorer, pairs: Sequence[TokenPair], batch_tokens: int, start: int | None = None
) -> list[list[float]]:
    """Return the log-probability of each target token, scoring pairs of similar length together.

    Args:
        scorer: the function that scores a batch.
        pairs: token ids of both sides, end symbols included.
        batch_tokens: maximum number of tokens in a batch, counted on the longer side of each pair.
        start: token that decoding starts from, None for the model's default.

    Raises:
        SettingsError: ``batch_tokens`` is not a valid number of tokens.
    """
    check_integer("batch_tokens", batch_tokens, 1)

    def score(indices: list[int]) -> list[list[float]]:
        return scorer([pairs[index] for index in indices], start)

    return map_batches(score, [max(map(len, pair)) for pair in pairs], batch_tokens)


def step_scorer(decoder: Decoder) -> Scorer:
    """Return a scorer for any decoder, which force-decodes targets step by step."""

    def score(pairs: Sequence[TokenPair], start: int | None = None) -> list[list[float]]:
        scores: list[list[float]] = [[] for _ in pairs]
        for step in forced_steps(decoder, pairs, start):
            for index, log_prob in zip(step.indices.tolist(), step.log_probs.tolist(), strict=True):
                scores[index].append(log_prob)
        return scores

    return score


MAX_ROWS = 256
"""Maximum number of target positions whose log-probabilities over the vocabulary are in memory at a time."""


def parallel_scorer(model: Seq2Seq) -> Scorer:
    """Return a scorer that reads all positions at once, as in training; see also :func:`step_scorer`."""
    import torch

    from uwaga.models.base import pad

    @torch.inference_mode()
    def score(pairs: Sequence[TokenPair], start: int | None = None) -> list[list[float]]:
        symbols = model.symbols
        start_token = symbols.start if start is None else start
        source = pad([pair.source for pair in pairs], symbols.pad, model.device)  # (sentences, source)
        targets = [pair.target for pair in pairs]
        decoder_inputs = [[start_token, *target[:-1]] for target in targets]
        features = model.features(source, pad(decoder_inputs, symbols.pad, model.device))
        lengths = torch.tensor([len(target) for target in targets], device=model.device)
        # (sentences, target)
        is_token = torch.arange(features.shape[1], device=model.device) < lengths[:, None]
        rows = features[is_token]  # (tokens, width)
        target_tokens = torch.tensor([token for target in targets for token in target], device=model.device)
        scores = []
        for row in range(0, len(rows), MAX_ROWS):
            log_probs = torch.log_softmax(model.logits(rows[row : row + MAX_ROWS]), dim=-1)
            scores.append(log_probs.gather(1, target_tokens[row : row + MAX_ROWS, None])[:, 0])  # (rows,)
        flat_scores = iter(torch.cat(scores).tolist())
        return [list(islice(flat_scores, len(target))) for target in targets]

    return score

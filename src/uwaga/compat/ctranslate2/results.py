"""Results with the attributes of CTranslate2's."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class TranslationResult:
    """The translations of a text, best first.

    Attributes:
        hypotheses: the tokens of each.
        scores: their scores; empty unless asked for.
        attention: their attention (target, source); empty unless asked for.
        logits: always empty.
    """

    hypotheses: list[list[str]]
    scores: list[float] = field(default_factory=list)
    attention: list[list[list[float]]] = field(default_factory=list)
    logits: list[Any] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.hypotheses)

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Return a translation as a dictionary, as the first versions of CTranslate2 did."""
        found: dict[str, Any] = {"tokens": self.hypotheses[number]}
        if self.scores:
            found["score"] = self.scores[number]
        if self.attention:
            found["attention"] = self.attention[number]
        return found


@dataclass(frozen=True)
class GenerationResult:
    """The continuations of a prompt, best first.

    Attributes:
        sequences: the tokens of each.
        sequences_ids: their ids.
        scores: their scores; empty unless asked for.
        logits: always empty.
    """

    sequences: list[list[str]]
    sequences_ids: list[list[int]]
    scores: list[float] = field(default_factory=list)
    logits: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class ScoringResult:
    """The log-probability of each token of a given target, or of a text after its first token."""

    tokens: list[str]
    log_probs: list[float]


@dataclass(frozen=True)
class GenerationStepResult:
    """A token that has been decided.

    Attributes:
        step: its position, from 0.
        batch_id: the number of its input.
        token_id: its id.
        hypothesis_id: the number of its sample.
        token: the token.
        log_prob: its log-probability, 0 for a token of a prefix; None unless asked for.
        logits: always None.
        is_last: True for the last token.
    """

    step: int
    batch_id: int
    token_id: int
    hypothesis_id: int
    token: str
    log_prob: float | None
    logits: None
    is_last: bool


@dataclass(frozen=True)
class ExecutionStats:
    """The target tokens and examples of a file, and the time that they took."""

    num_tokens: int
    num_examples: int
    total_time_in_ms: float


class AsyncResult(Generic[Result]):
    """The result of an input whose batch may not be finished."""

    def __init__(self, batch: Future[list[Result]], place: int) -> None:
        self._batch, self._place = batch, place

    def done(self) -> bool:
        """Return True if the result is there, or an error instead of it."""
        return self._batch.done()

    def result(self) -> Result:
        """Wait for the result and return it, or raise the error of its batch."""
        return self._batch.result()[self._place]


class AsyncTranslationResult(AsyncResult[TranslationResult]):
    """An asynchronous :class:`TranslationResult`."""


class AsyncGenerationResult(AsyncResult[GenerationResult]):
    """An asynchronous :class:`GenerationResult`."""


class AsyncScoringResult(AsyncResult[ScoringResult]):
    """An asynchronous :class:`ScoringResult`."""

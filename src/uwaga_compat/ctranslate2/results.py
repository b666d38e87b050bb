"""Classes of results, with the attributes of CTranslate2's classes."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class TranslationResult:
    """The translations of a text, best first.

    Attributes:
        hypotheses: the tokens of each translation.
        scores: the score of each translation; empty unless requested.
        attention: the attention weights (target, source) of each translation; empty unless requested.
        logits: always empty.
    """

    hypotheses: list[list[str]]
    scores: list[float] = field(default_factory=list)
    attention: list[list[list[float]]] = field(default_factory=list)
    logits: list[Any] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.hypotheses)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return a translation as a dictionary, as in early versions of CTranslate2."""
        translation: dict[str, Any] = {"tokens": self.hypotheses[index]}
        if self.scores:
            translation["score"] = self.scores[index]
        if self.attention:
            translation["attention"] = self.attention[index]
        return translation


@dataclass(frozen=True)
class GenerationResult:
    """The continuations of a prompt, best first.

    Attributes:
        sequences: the tokens of each continuation.
        sequences_ids: the token ids of each continuation.
        scores: the score of each continuation; empty unless requested.
        logits: always empty.
    """

    sequences: list[list[str]]
    sequences_ids: list[list[int]]
    scores: list[float] = field(default_factory=list)
    logits: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class ScoringResult:
    """The tokens of a target, or of a text without its first token, with their log-probabilities."""

    tokens: list[str]
    log_probs: list[float]


@dataclass(frozen=True)
class GenerationStepResult:
    """A decoded token.

    Attributes:
        step: position of the token, from 0.
        batch_id: index of the input.
        token_id: id of the token.
        hypothesis_id: index of the hypothesis among those of the input.
        token: text of the token.
        log_prob: log-probability of the token, 0 for a token of a prefix; None unless requested.
        logits: always None.
        is_last: True for the last token of the hypothesis.
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
    """Statistics of processing a file: number of target tokens, number of examples, and time taken."""

    num_tokens: int
    num_examples: int
    total_time_in_ms: float


class AsyncResult(Generic[Result]):
    """The result for an input whose batch may still be running."""

    def __init__(self, batch: Future[list[Result]], index: int) -> None:
        self._batch, self._index = batch, index

    def done(self) -> bool:
        """Return True if the batch has finished, successfully or with an error."""
        return self._batch.done()

    def result(self) -> Result:
        """Wait for the result and return it, or raise the error of its batch."""
        return self._batch.result()[self._index]


class AsyncTranslationResult(AsyncResult[TranslationResult]):
    """An asynchronous :class:`TranslationResult`."""


class AsyncGenerationResult(AsyncResult[GenerationResult]):
    """An asynchronous :class:`GenerationResult`."""


class AsyncScoringResult(AsyncResult[ScoringResult]):
    """An asynchronous :class:`ScoringResult`."""

"""Base classes of batches: sentences that are decoded together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from uwaga.decoder import Decoder, FinishedTarget, Ids, Memory, State, with_datastores
from uwaga.results.translation import Hypothesis
from uwaga.search.constraints import Constraints
from uwaga.search.inputs import SearchSentence
from uwaga.search.options import SearchOptions
from uwaga.search.rank import Ranking, StepOutcome, hypothesis


class Batch(ABC):
    """Sentences that are decoded together; each enters, is decoded step by step, and leaves the batch.

    A sentence is identified by its index.

    Args:
        decoder: the model.
        options: how to search.
        sentences: the sentences, in the order in which they enter.
    """

    def __init__(self, decoder: Decoder, options: SearchOptions, sentences: Sequence[SearchSentence]) -> None:
        self._decoder, self._options, self._sentences = decoder, options, sentences
        self._lengths: Ids = np.array([len(sentence.ids) for sentence in sentences], dtype=np.int64)
        self._entered = 0

    @property
    def running_lengths(self) -> Ids:
        """Number of source tokens of each sentence being decoded, (sentences,)."""
        return np.asarray(self._lengths[self._running])

    @property
    def waiting_lengths(self) -> Ids:
        """Number of source tokens of each sentence that has not entered yet, in order, (sentences,)."""
        return self._lengths[self._entered :]

    def admit(self, count: int) -> None:
        """Add the next ``count`` sentences.

        Sentences can be added to a batch in progress only if the decoder can join states.
        """
        sentences = self._sentences[self._entered : self._entered + count]
        memory = self._decoder.encode([sentence.ids for sentence in sentences])
        datastores = [sentence.datastore for sentence in sentences]
        if any(datastores):
            attach = with_datastores(self._decoder)
            assert attach is not None
            memory = attach(memory, datastores)
        self._enter(sentences, memory)
        self._entered += count

    @abstractmethod
    def step(self) -> StepOutcome | None:
        """Decode at least one more token of each sentence.

        Returns:
            the new tokens and finished sentences; None if the batch does not report single tokens.
        """

    @abstractmethod
    def finished(self, indices: Ids) -> list[list[FinishedTarget]]:
        """Return the n-best list of each sentence, as :meth:`uwaga.decoder.BeamSearch.finished` does."""

    def hypotheses(self, indices: Ids) -> list[list[Hypothesis]]:
        """Return the n-best list of each sentence."""
        end_tokens = self._decoder.symbols.end_symbols
        return [[hypothesis(target, end_tokens) for target in nbest] for nbest in self.finished(indices)]

    @property
    @abstractmethod
    def _running(self) -> Ids:
        """Indices of the sentences being decoded, (sentences,)."""

    @abstractmethod
    def _enter(self, sentences: Sequence[SearchSentence], memory: Memory) -> None:
        """Add the next encoded sentences, in order."""


class StepBatch(Batch):
    """A batch that calls the decoder for each step.

    Args:
        decoder: the model.
        options: how to search.
        sentences: the sentences, in the order in which they enter.
        ranking: length normalisation; None for the one that the options specify.
    """

    def __init__(
        self,
        decoder: Decoder,
        options: SearchOptions,
        sentences: Sequence[SearchSentence],
        ranking: Ranking | None = None,
    ) -> None:
        super().__init__(decoder, options, sentences)
        self._constraints = Constraints(decoder, options, sentences)
        self._ranking = ranking or Ranking.from_options(options)
        self._indices: Ids = np.zeros(0, dtype=np.int64)  # the sentences being decoded
        self._state: State | None = None

    @property
    def _running(self) -> Ids:
        return self._indices

    @abstractmethod
    def step(self) -> StepOutcome:
        """Decode at least one more token of each sentence."""

    def _enter(self, sentences: Sequence[SearchSentence], memory: Memory) -> None:
        state = self._decoder.start(memory, self._options.rows)
        if len(self._indices):
            assert self._decoder.join is not None
            assert self._state is not None
            state = self._decoder.join(self._state, state)
        self._state = state
        self._indices = np.concatenate(
            [self._indices, np.arange(self._entered, self._entered + len(sentences))]
        )

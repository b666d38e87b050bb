"""Dynamic batching for decoders without a running batch: waiting sentences are decoded together."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from uwaga.decoder import BeamRules, DecidedToken, Decoder, FinishedTarget, NewSentence
from uwaga.errors import CancelledRequestError, SettingsError
from uwaga.search.batch import StepBatch
from uwaga.search.beam_batch import BeamBatch
from uwaga.search.drafts import DraftBatch
from uwaga.search.inputs import SearchSentence
from uwaga.search.options import SearchOptions
from uwaga.search.phrases import Phrases
from uwaga.search.rank import TableRanking


@dataclass(frozen=True, eq=False)
class PendingSentence:
    """A sentence of a ticket, with its number in the ticket."""

    ticket: DynamicTicket
    number: int
    sentence: NewSentence


class DynamicBatch:
    """A :class:`uwaga.decoder.RunningBatch` that decodes waiting sentences with equal rules until all finish.

    Results equal those of separate searches, provided that the decoder's rows are independent. If a batch of
    several tickets fails, each ticket is searched separately, so that only the faulty ticket fails.

    Args:
        decoder: the model.
        max_tokens: maximum number of source tokens times beams in a batch.
    """

    def __init__(self, decoder: Decoder, max_tokens: int = 4096) -> None:
        self._decoder, self._max_tokens = decoder, max_tokens
        self._condition = threading.Condition()
        self._waiting: list[PendingSentence] = []
        self._closed = False
        self._counters = (0, 0, 0)

    @property
    def counters(self) -> tuple[int, int, int]:
        """See :attr:`uwaga.decoder.RunningBatch.counters`."""
        return self._counters

    def ticket(self, rules: BeamRules) -> DynamicTicket:
        """See :meth:`uwaga.decoder.RunningBatch.ticket`."""
        if rules.streams:
            raise SettingsError("this decoder has no running batch: stream without sharing the model")
        return DynamicTicket(self, rules, self._condition)

    def serve(self) -> None:
        """See :meth:`uwaga.decoder.RunningBatch.serve`."""
        while batch := self._collect():
            self._search(batch)

    def close(self) -> None:
        """See :meth:`uwaga.decoder.RunningBatch.close`."""
        with self._condition:
            self._closed = True
            tickets = {sentence.ticket for sentence in self._waiting}
            self._waiting.clear()
        for ticket in tickets:
            ticket.fail(CancelledRequestError("the batch was closed"))
        with self._condition:
            self._condition.notify_all()

    def add(self, sentences: Sequence[PendingSentence]) -> None:
        """Add waiting sentences of a ticket."""
        with self._condition:
            if self._closed:
                raise CancelledRequestError("the batch was closed")
            self._waiting.extend(sentences)
            self._condition.notify_all()

    def remove(self, ticket: DynamicTicket) -> None:
        """Remove the waiting sentences of a ticket."""
        with self._condition:
            self._waiting = [sentence for sentence in self._waiting if sentence.ticket is not ticket]
            self._condition.notify_all()

    def _collect(self) -> list[PendingSentence]:
        """Wait for sentences and return the next batch, which is empty after :meth:`close`."""
        with self._condition:
            self._condition.wait_for(lambda: self._waiting or self._closed)
            batch: list[PendingSentence] = []
            remaining_sentences, used_tokens = [], 0
            for pending_sentence in self._waiting:
                size = len(pending_sentence.sentence.source) * pending_sentence.ticket.rules.beams
                can_add = not batch or (
                    pending_sentence.ticket.key == batch[0].ticket.key
                    and used_tokens + size <= self._max_tokens
                )
                if can_add:
                    batch.append(pending_sentence)
                    used_tokens += size
                else:
                    remaining_sentences.append(pending_sentence)
            self._waiting = remaining_sentences
            # Decoders require the longest first.
            return sorted(batch, key=lambda pending_sentence: -len(pending_sentence.sentence.source))

    def _search(self, sentences: list[PendingSentence]) -> None:
        try:
            self._decode(sentences)
        except Exception as error:
            tickets = list(dict.fromkeys(sentence.ticket for sentence in sentences))
            if len(tickets) == 1:
                tickets[0].fail(error)
                return
            for ticket in tickets:
                self._search(
                    [
                        sentence
                        for sentence in sentences
                        if sentence.ticket is ticket and not ticket.is_finished(sentence)
                    ]
                )

    def _decode(self, sentences: list[PendingSentence]) -> None:
        if not sentences or all(sentence.ticket.closed for sentence in sentences):
            return
        batch = _batch(self._decoder, sentences)
        batch.admit(len(sentences))
        while (
            batch.running_lengths.size
            and not self._closed
            and not all(sentence.ticket.closed for sentence in sentences)
        ):
            steps, rows, finished_sentences = self._counters
            rows += len(batch.running_lengths) * sentences[0].ticket.rules.beams
            finished = batch.step().finished
            self._counters = steps + 1, rows, finished_sentences + len(finished)
            for index, targets in zip(finished.tolist(), batch.finished(finished), strict=True):
                sentences[index].ticket.add_result(sentences[index], targets)
        if self._closed:
            for sentence in sentences:
                sentence.ticket.fail(CancelledRequestError("the batch was closed"))


class DynamicTicket:
    """See :class:`uwaga.decoder.BatchTicket`."""

    def __init__(self, batch: DynamicBatch, rules: BeamRules, condition: threading.Condition) -> None:
        self._batch, self._condition = batch, condition
        self.rules, self.closed = rules, False
        self.key = rules.key
        self._submitted = 0
        self._results: list[tuple[int, list[FinishedTarget]]] = []
        self._finished: set[int] = set()
        self._error: Exception | None = None

    def submit(self, sentences: Sequence[NewSentence]) -> None:
        pending_sentences = [
            PendingSentence(self, number, sentence)
            for number, sentence in enumerate(sentences, start=self._submitted)
        ]
        self._submitted += len(pending_sentences)
        self._batch.add(pending_sentences)

    def collect(self, seconds: float) -> tuple[list[tuple[int, list[FinishedTarget]]], list[DecidedToken]]:
        with self._condition:
            self._condition.wait_for(lambda: self._results or self._error or self.closed, seconds)
            results, self._results = self._results, []
            error, self._error = self._error, None
        if error is not None:
            raise error
        return results, []

    def leave(self) -> None:
        self.closed = True
        self._batch.remove(self)

    def add_result(self, sentence: PendingSentence, targets: list[FinishedTarget]) -> None:
        """Add the results of a finished sentence."""
        with self._condition:
            self._results.append((sentence.number, targets))
            self._finished.add(sentence.number)
            self._condition.notify_all()

    def is_finished(self, sentence: PendingSentence) -> bool:
        """Return True if a sentence is finished."""
        return sentence.number in self._finished

    def fail(self, error: Exception) -> None:
        """Make the ticket fail with an error, unless all of its sentences are finished."""
        with self._condition:
            if not self.closed and len(self._finished) < self._submitted:
                self._error = error
        self.leave()


def _batch(decoder: Decoder, pending_sentences: Sequence[PendingSentence]) -> StepBatch:
    """Return a batch that searches in numpy for the targets of sentences with equal rules."""
    rules = pending_sentences[0].ticket.rules
    options = SearchOptions(
        beam=rules.beams,
        nbest=rules.nbest,
        score_forced=rules.score_forced,
        early_stopping=rules.early_stopping,
        min_length=rules.min_length,
        max_length=None,
        force_end=rules.force_end,
        start=rules.start,
        banned=tuple(rules.banned.tolist()),
        renormalise=rules.renormalise,
    )
    sentences = [_search_sentence(sentence) for sentence in pending_sentences]
    ranking = TableRanking(rules.divisors)
    has_phrases = any(sentence.phrases is not None for sentence in sentences)
    if not has_phrases and any(sentence.draft is not None for sentence in sentences):
        return DraftBatch(decoder, options, sentences, ranking)
    return BeamBatch(decoder, options, sentences, rules.pool_size, ranking)


def _search_sentence(pending_sentence: PendingSentence) -> SearchSentence:
    sentence, rules, phrases = pending_sentence.sentence, pending_sentence.ticket.rules, None
    if sentence.phrases is not None:
        phrases = Phrases.from_tables(sentence.phrases, rules.continues_word)
    return SearchSentence(
        sentence.source,
        sentence.forced,
        sentence.uncounted,
        sentence.limit,
        rules.beams,
        phrases,
        sentence.draft,
        rules.min_length,
        datastore=sentence.datastore,
    )

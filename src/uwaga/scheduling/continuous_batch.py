"""A running batch for a decoder that has none of its own: what waits is collected, and searched together."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uwaga.decoder import BeamRules, Decided, Decoder, Found, Ids, PhraseTables, rules_key
from uwaga.errors import CancelledRequestError, SettingsError
from uwaga.search.beam_batch import BeamBatch
from uwaga.search.options import SearchOptions
from uwaga.search.phrases import Phrases
from uwaga.search.rank import TableRanking


@dataclass(frozen=True, eq=False)
class CollectedSentence:
    """A sentence that waits; all else as ``BeamSearch.enter`` has it, for one."""

    ticket: CollectedTicket
    number: int
    source: Sequence[int]
    limit: int
    uncounted: int
    forced: Sequence[int]
    phrases: PhraseTables | None


class CollectedBatch:
    """Sentences of equal rules that wait when the model is free are decoded together, to their end.

    See :class:`uwaga.decoder.RunningBatch`. A sentence is found as if it were alone, as far as
    the decoder's rows do not depend on each other. Where a search of several requests fails, each is searched
    alone, so that only that fails whose own fault it is.

    Args:
        decoder: the model.
        most: source tokens, beams counted, of a search.
    """

    def __init__(self, decoder: Decoder, most: int = 4096) -> None:
        self._decoder, self._most = decoder, most
        self._changed = threading.Condition()
        self._waiting: list[CollectedSentence] = []
        self._closed = False
        self._counters = (0, 0, 0)

    @property
    def counters(self) -> tuple[int, int, int]:
        """See :attr:`uwaga.decoder.RunningBatch.counters`."""
        return self._counters

    def ticket(self, rules: BeamRules) -> CollectedTicket:
        """See :meth:`uwaga.decoder.RunningBatch.ticket`.

        Raises:
            SettingsError: the rules are to stream, and here nobody is told of each token.
        """
        if rules.streams:
            raise SettingsError("a decoder without a batch of its own streams by its own steps")
        return CollectedTicket(self, rules, self._changed)

    def serve(self) -> None:
        """See :meth:`uwaga.decoder.RunningBatch.serve`."""
        while together := self._collect():
            self._search(together)

    def close(self) -> None:
        """See :meth:`uwaga.decoder.RunningBatch.close`."""
        with self._changed:
            self._closed = True
            tickets = {one.ticket for one in self._waiting}
            self._waiting.clear()
        for ticket in tickets:
            ticket.fail(CancelledRequestError("the batch was closed"))
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, sentences: Sequence[CollectedSentence]) -> None:
        """Let sentences of a ticket wait.

        Raises:
            CancelledRequestError: the batch was closed.
        """
        with self._changed:
            if self._closed:
                raise CancelledRequestError("the batch was closed")
            self._waiting.extend(sentences)
            self._changed.notify_all()

    def forget(self, ticket: CollectedTicket) -> None:
        """Its sentences wait no more."""
        with self._changed:
            self._waiting = [one for one in self._waiting if one.ticket is not ticket]
            self._changed.notify_all()

    def _collect(self) -> list[CollectedSentence]:
        """Those that are searched next; none where the batch was closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            made: list[CollectedSentence] = []
            rest, used = [], 0
            for one in self._waiting:
                size = len(one.source) * one.ticket.rules.beams
                alike = not made or one.ticket.key == made[0].ticket.key
                if alike and (not made or used + size <= self._most):
                    made.append(one)
                    used += size
                else:
                    rest.append(one)
            self._waiting = rest
            return sorted(made, key=lambda one: -len(one.source))  # as decoders have them

    def _search(self, sentences: list[CollectedSentence]) -> None:
        try:
            self._decode(sentences)
        except Exception as error:
            tickets = list(dict.fromkeys(one.ticket for one in sentences))
            if len(tickets) == 1:
                tickets[0].fail(error)
                return
            for ticket in tickets:
                self._search([one for one in sentences if one.ticket is ticket and not ticket.has(one)])

    def _decode(self, sentences: list[CollectedSentence]) -> None:
        if not sentences or all(one.ticket.gone for one in sentences):
            return
        batch = _batch(self._decoder, sentences)
        batch.admit(len(sentences))
        while batch.running.size and not self._closed and not all(one.ticket.gone for one in sentences):
            steps, rows, ended = self._counters
            rows += len(batch.running) * sentences[0].ticket.rules.beams
            done = batch.step().done
            self._counters = steps + 1, rows, ended + len(done)
            for at, found in zip(done.tolist(), batch.found(done), strict=True):
                sentences[at].ticket.put(sentences[at], found)
        if self._closed:
            for one in sentences:
                one.ticket.fail(CancelledRequestError("the batch was closed"))


class CollectedTicket:
    """See :class:`uwaga.decoder.BatchTicket`."""

    def __init__(self, batch: CollectedBatch, rules: BeamRules, changed: threading.Condition) -> None:
        self._batch, self._changed = batch, changed
        self.rules, self.gone = rules, False
        self.key = rules_key(rules)
        self._handed = 0
        self._done: list[tuple[int, list[Found]]] = []
        self._ever: set[int] = set()
        self._error: Exception | None = None

    def hand(
        self,
        sources: Sequence[Sequence[int]],
        limits: Ids,
        uncounted: Ids,
        forced: Ids,
        phrases: Sequence[PhraseTables | None],
    ) -> None:
        each = zip(sources, limits.tolist(), uncounted.tolist(), forced.tolist(), phrases, strict=True)
        made = [CollectedSentence(self, self._handed + at, *one) for at, one in enumerate(each)]
        self._handed += len(made)
        self._batch.wait_for(made)

    def take(self, seconds: float) -> tuple[list[tuple[int, list[Found]]], list[Decided]]:
        with self._changed:
            self._changed.wait_for(lambda: self._done or self._error or self.gone, seconds)
            done, self._done = self._done, []
            error, self._error = self._error, None
        if error is not None:
            raise error
        return done, []

    def leave(self) -> None:
        self.gone = True
        self._batch.forget(self)

    def put(self, sentence: CollectedSentence, found: list[Found]) -> None:
        """A sentence is done."""
        with self._changed:
            self._done.append((sentence.number, found))
            self._ever.add(sentence.number)
            self._changed.notify_all()

    def has(self, sentence: CollectedSentence) -> bool:
        """Whether a sentence was done."""
        return sentence.number in self._ever

    def fail(self, error: Exception) -> None:
        """One of its sentences has failed."""
        with self._changed:
            if not self.gone and len(self._ever) < self._handed:
                self._error = error
        self.leave()


def _batch(decoder: Decoder, sentences: Sequence[CollectedSentence]) -> BeamBatch:
    """Sentences of equal rules, in a batch of the numpy search."""
    rules = sentences[0].ticket.rules
    options = SearchOptions(
        beam=rules.beams,
        nbest=rules.nbest,
        score_forced=rules.score_forced,
        early_stopping=rules.early_stopping,
        min_length=rules.min_length,
        max_length=None,
        force_end=rules.force_end,
        start=rules.start,
        banned=tuple(rules.never.tolist()),
        renormalise=rules.renormalise,
    )
    some = any(one.phrases is not None for one in sentences)
    inside = rules.inside
    return BeamBatch(
        decoder,
        options,
        [one.source for one in sentences],
        [[token for token in one.forced if token >= 0] for one in sentences],
        [one.limit for one in sentences],
        rules.enough,
        [None if one.phrases is None else Phrases.of_tables(one.phrases, inside) for one in sentences]
        if some
        else None,
        ranking=TableRanking(rules.divisors),
        uncounted=np.array([one.uncounted for one in sentences], dtype=np.int64),
    )

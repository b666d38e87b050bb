"""A model as one request sees it, whose searches run beside those of other requests."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from uwaga.decoder import (
    BeamRules,
    Choice,
    CrossAttention,
    CrossAttentions,
    Decided,
    Decoder,
    EveryAttention,
    Found,
    Ids,
    Memory,
    PhraseTables,
    State,
    Step,
)
from uwaga.errors import UwagaError
from uwaga.scheduling.request import Request
from uwaga.scheduling.shared_search import SharedSearch
from uwaga.scheduling.token_budget import Claimant

A_WHILE = 60.0
"""Seconds that a thread waits at a time; the main one looks for Ctrl-C now and then."""
A_MOMENT = 0.1


@dataclass(frozen=True)
class Unencoded:
    """Sentences that nobody has encoded yet: in the place of a :class:`uwaga.decoder.Memory`."""

    sources: Sequence[Sequence[int]]

    @property
    def sentences(self) -> int:
        """Their number."""
        return len(self.sources)

    @property
    def lengths(self) -> Ids:
        """(sentences,) their tokens."""
        return np.array([len(source) for source in self.sources], dtype=np.int64)


class HandedSentence(NamedTuple):
    """A sentence that waits: the arguments of ``BeamSearch.enter``, for one; ``forced`` is (width,)."""

    source: Sequence[int]
    limit: int
    uncounted: int
    forced: Ids
    phrases: PhraseTables | None


class SharedDecoder:
    """A decoder for one request: :class:`uwaga.decoder.Decoder` over a batch that others are in.

    Searches of its own take their sentences there. What looks at every step in Python (samples, attention of
    the steps, n-grams) is done by the model itself in the thread that calls.

    Args:
        shared: the model's batch.
        request: whose it is; it is looked at wherever this waits.
        decoder: the model, or its recording one; the batch's if None.

    Attributes:
        shared: as the argument.
    """

    def __init__(self, shared: SharedSearch, request: Request, decoder: Decoder | None = None) -> None:
        self.shared, self._request = shared, request
        self._decoder = shared.decoder if decoder is None else decoder
        self.symbols, self.vocabulary = self._decoder.symbols, self._decoder.vocabulary
        self.max_source, self.max_target = self._decoder.max_source, self._decoder.max_target

    @property
    def described(self) -> str:
        """What the model is, where it says."""
        return f"{getattr(self._decoder, 'described', type(self._decoder).__name__)}, shared"

    def beam_search(self, rules: BeamRules) -> SharedBeamSearch:
        """See :attr:`uwaga.decoder.Decoder.beam_search`."""
        self._request.check()
        return SharedBeamSearch(self.shared, self._request, rules)

    @property
    def join(self) -> Callable[[State, State], State] | None:
        """The model's."""
        return self._decoder.join

    @property
    def attentions(self) -> EveryAttention | None:
        """The model's."""
        return self._decoder.attentions

    @property
    def cross_attentions(self) -> CrossAttentions | None:
        """The model's."""
        return self._decoder.cross_attentions

    @property
    def cross_attention(self) -> CrossAttention | None:
        """The model's."""
        return self._decoder.cross_attention

    @property
    def recording(self) -> Callable[[bool], Decoder] | None:
        """The model's, whose searches still run in the batch: it encodes again what they have found."""
        record = self._decoder.recording
        if record is None:
            return None
        return lambda whole: SharedDecoder(self.shared, self._request, record(whole))

    def encode(self, sources: Sequence[Sequence[int]]) -> Memory:
        """The sentences as they are: whoever decodes them encodes them."""
        self._request.check()
        return Unencoded(sources)

    def start(self, memory: Memory, beams: int) -> State:
        """See :meth:`uwaga.decoder.Decoder.start`."""
        assert isinstance(memory, Unencoded)
        return self._decoder.start(self._decoder.encode(memory.sources), beams)

    def step(self, tokens: Ids, state: State, choice: Choice) -> Step:
        """See :meth:`uwaga.decoder.Decoder.step`.

        Raises:
            DeadlineError, CancelledRequestError: the request is given up.
        """
        self._request.check()
        return self._decoder.step(tokens, state, choice)


class SharedBeamSearch:
    """A search of one request in the batch: :class:`uwaga.decoder.BeamSearch`; one thread has it.

    Whatever ends it early, its sentences leave the batch: an error, Ctrl-C, a request that is given up, or
    nobody having this any more.
    """

    def __init__(self, shared: SharedSearch, request: Request, rules: BeamRules) -> None:
        self._ticket = shared.running_batch().ticket(rules)
        self._waiting = shared.waiting
        self._places, self._request, self._rules = shared.places, request, rules
        this = weakref.ref(self)  # a search that nobody reads on goes at once: nothing of it may hold it
        self._claimant = Claimant(
            request.client, lambda count: None if (own := this()) is None else own.let_in(count)
        )
        self._handed: deque[HandedSentence] = deque()
        self._sizes: list[int] = []  # source tokens of each sentence
        self._found: list[list[Found] | None] = []
        self._running = self._left = 0  # sentences that are not done, and their source tokens
        self._decided: list[Decided] = []
        self._told = False  # whether the last wait has brought anything
        self._error: UwagaError | None = None
        self._forget = request.when_cancelled(lambda: None if (own := this()) is None else own.close())

    @property
    def running(self) -> Ids:
        """(sentences,) those that are not done, waiting or not."""
        return np.array([at for at, one in enumerate(self._found) if one is None], dtype=np.int64)

    def enter(
        self,
        memory: Memory,
        limits: Ids,
        uncounted: Ids,
        forced: Ids,
        phrases: Sequence[PhraseTables | None] = (),
    ) -> None:
        """Let sentences wait for places in the batch."""
        assert isinstance(memory, Unencoded)
        sizes = [len(source) for source in memory.sources]
        given = phrases or [None] * len(sizes)
        self._handed.extend(
            HandedSentence(source, int(limit), int(free), row, wanted)
            for source, limit, free, row, wanted in zip(
                memory.sources, limits, uncounted, forced, given, strict=True
            )
        )
        self._sizes += sizes
        self._found += [None] * len(sizes)
        self._running += len(sizes)
        self._left += sum(sizes)
        self._places.claim(self._claimant, [size * self._rules.beams for size in sizes])

    def run(self, tokens: int) -> None:
        """Wait until sentences of no more than so many source tokens are left, or for a token that streams.

        Raises:
            DeadlineError, CancelledRequestError: the request is given up.
            UwagaError: a sentence has failed.
        """
        most = A_MOMENT if threading.current_thread() is threading.main_thread() else A_WHILE
        try:
            while self._running:
                self._check()
                left = self._request.left
                self._take(most if left is None else min(most, left))
                if self._left <= tokens and (not self._rules.streams or self._told):
                    break
        except BaseException:
            self.close()
            raise

    def found(self) -> list[list[Found]]:
        """See :meth:`uwaga.decoder.BeamSearch.found`."""
        return [one or [] for one in self._found]

    def decided(self) -> list[Decided]:
        """See :meth:`uwaga.decoder.BeamSearch.decided`."""
        decided, self._decided = self._decided, []
        return decided

    def close(self) -> None:
        """Leave the batch."""
        self._places.leave(self._claimant)
        self._ticket.leave()

    def __del__(self) -> None:
        self._forget()
        if self._running:
            self.close()

    def _check(self) -> None:
        self._request.check()
        if self._error is not None:
            raise self._error

    def _take(self, seconds: float) -> None:
        self._waiting.add(threading.get_ident())
        try:
            done, decided = self._ticket.take(seconds)
        finally:
            self._waiting.discard(threading.get_ident())
        self._told = bool(done or decided)
        self._decided += decided
        for number, found in done:
            self._found[number] = found
            self._left -= self._sizes[number]
        self._running -= len(done)
        if done:
            self._places.release(
                self._claimant, [self._sizes[number] * self._rules.beams for number, _ in done]
            )

    def let_in(self, count: int) -> None:
        """There are places: hand the next sentences to the batch, in whatever thread."""
        those = [self._handed.popleft() for _ in range(count)]
        width = max(len(one.forced) for one in those)
        forced = np.full((count, width), -1, dtype=np.int64)
        for row, one in zip(forced, those, strict=True):
            row[: len(one.forced)] = one.forced
        try:
            self._ticket.hand(
                [one.source for one in those],
                np.array([one.limit for one in those], dtype=np.int64),
                np.array([one.uncounted for one in those], dtype=np.int64),
                forced,
                [one.phrases for one in those],
            )
        except UwagaError as error:
            self._error = error
            self._ticket.leave()

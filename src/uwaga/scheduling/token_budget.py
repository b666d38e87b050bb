"""The places of a running batch, shared out among those who want some."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from uwaga.scheduling.fair_queue import FairQueue

PLACES = 4096
"""Source tokens, beams counted, that are decoded at once: as much as ``SearchOptions.batch_tokens``."""
RESERVED = 1024
"""Beyond them, for others than the one that has them all."""
FEW = 4
"""Sentences of a search that counts as a short one."""
SHARE = 0.25
"""What long searches may have together, of what short ones have, or have had lately where none is there."""
LATELY = 0.5
"""Seconds."""
PATIENCE = 0.02
"""Seconds from a sentence of long searches to the next, beside short ones that have too few for a share."""


class Claimant:
    """A search that wants places: whose it is, and the sizes of its sentences that wait.

    Args:
        client: who asks.
        let_in: called when so many further ones of its sentences, the next ones, may enter; raises nothing.
    """

    def __init__(self, client: str, let_in: Callable[[int], None]) -> None:
        self.client, self.let_in = client, let_in
        self.waiting: deque[int] = deque()
        self.places = self.sentences = 0  # of those that have entered
        self.ever = 0  # sentences that it has asked for
        self.queued = self.gone = False

    @property
    def long(self) -> bool:
        """Whether it has more sentences than a few."""
        return self.ever > FEW


class Places:
    """Who may enter a running batch, and when: places are source tokens times beams.

    They are given out sentence by sentence, one client after the other and within a client one search after
    the other. A search may have all but a reserve, so that the next that comes need not wait. Long searches
    get no more than a share of what short ones have, all of them together, so that a thousand sentences do
    not slow down the steps of a few. Where that is less than a sentence they wait until no short one is
    there, or for a short while. Then they get that share of what short ones have had lately, or a sentence;
    where there have been none they share everything.

    Threads may share it. Nothing here waits: who frees a place lets the next sentence in.

    Args:
        most: places for one search.
        reserved: further ones for others.
        share: of the places of short searches, for long ones beside them.
        clock: seconds.
    """

    def __init__(
        self,
        most: int = PLACES,
        reserved: int = RESERVED,
        share: float = SHARE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._reserved, self._share, self._clock = most, reserved, share, clock
        self._short = self._long = 0  # places of short searches, and of long ones
        self._lately = 0  # most places that short ones have had in this period or the last
        self._before, self._period = 0, clock()
        self._latest_long = -math.inf  # when a sentence of a long search entered
        self._lock = threading.Lock()
        self._again = False
        self._queue: FairQueue[Claimant] = FairQueue()
        self._leaving: deque[Claimant] = deque()
        self._used = self._waiting = self._running = 0

    @property
    def waiting(self) -> int:
        """Sentences that have not entered."""
        return self._waiting

    @property
    def running(self) -> int:
        """Sentences that have."""
        return self._running

    @property
    def used(self) -> int:
        """Places that are taken."""
        return self._used

    def claim(self, claimant: Claimant, sizes: Sequence[int]) -> None:
        """Let sentences wait for places; those that there are places for enter at once."""
        with self._lock:
            if claimant.gone:
                return
            if not claimant.long and claimant.ever + len(sizes) > FEW:  # no longer a short one
                self._short -= claimant.places
                self._long += claimant.places
            claimant.ever += len(sizes)
            claimant.waiting.extend(sizes)
            self._waiting += len(sizes)
            if not claimant.queued:
                claimant.queued = True
                self._queue.put(claimant.client, claimant)
        self._give()

    def release(self, claimant: Claimant, sizes: Sequence[int]) -> None:
        """Give the places of sentences back that are done."""
        with self._lock:
            if claimant.gone:
                return
            self._take(claimant, -sum(sizes), -len(sizes))
        self._give()

    def leave(self, claimant: Claimant) -> None:
        """Give back all that it has, and wait no more. It may be called anywhere, by a finaliser too."""
        self._leaving.append(claimant)
        self._give()

    def _take(self, claimant: Claimant, places: int, sentences: int) -> None:
        claimant.places += places
        claimant.sentences += sentences
        self._used += places
        self._running += sentences
        if claimant.long:
            self._long += places
            if places > 0:
                self._latest_long = self._clock()
        else:
            self._short += places
            self._lately = max(self._lately, self._short)

    def _give(self) -> None:
        """Let in whoever may enter. Where another thread is at it, that one does it again, for this one too:
        nobody waits for a lock that a finaliser may have been called under.
        """
        self._again = True
        while self._again and self._lock.acquire(blocking=False):
            try:
                self._again = False
                while self._leaving:
                    self._drop(self._leaving.popleft())
                for claimant, count in self._granted().items():
                    claimant.let_in(count)
            finally:
                self._lock.release()

    def _drop(self, claimant: Claimant) -> None:
        if claimant.gone:
            return
        claimant.gone = True
        self._take(claimant, -claimant.places, -claimant.sentences)
        self._waiting -= len(claimant.waiting)
        claimant.waiting.clear()
        if claimant.queued:
            self._queue.remove(claimant.client, claimant)

    def _granted(self) -> dict[Claimant, int]:
        """How many more sentences of each may enter now."""
        granted: dict[Claimant, int] = {}
        passed_over = []
        self._look_at_clock()
        while self._queue:
            claimant = self._queue.take()
            size = claimant.waiting[0]
            if self._used and self._used + size > self._most + self._reserved:
                self._queue.put_first(claimant.client, claimant)  # it may be a large one: nobody overtakes it
                break
            if not self._may_have(claimant, size):
                passed_over.append(claimant)
                continue
            claimant.waiting.popleft()
            self._waiting -= 1
            self._take(claimant, size, 1)
            granted[claimant] = granted.get(claimant, 0) + 1
            if claimant.waiting:
                self._queue.put(claimant.client, claimant)
            else:
                claimant.queued = False
        for claimant in passed_over:
            self._queue.put(claimant.client, claimant)
        return granted

    def _may_have(self, claimant: Claimant, size: int) -> bool:
        """Whether a sentence may be added to what a search has already."""
        if claimant.places and claimant.places + size > self._most:
            return False
        lately = max(self._lately, self._before)
        if not claimant.long or not lately:
            return True
        if self._long + size <= self._share * (self._short or lately):
            return True
        return not self._long and (not self._short or self._clock() - self._latest_long >= PATIENCE)

    def _look_at_clock(self) -> None:
        now = self._clock()
        if now - self._period < LATELY:
            return
        self._before = self._lately if now - self._period < 2 * LATELY else 0
        self._lately, self._period = self._short, now

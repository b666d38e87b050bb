"""The places of a running batch, shared out among those who want some."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from uwaga.decoding.fair_queue import FairQueue

PLACES = 4096
"""Source tokens, beams counted, that are decoded at once: as much as ``SearchOptions.batch_tokens``."""
RESERVED = 1024
"""Beyond them, for others than the one that has them all."""
SHARE = 512
"""What one search may have while another wants some or has some, unless it is a single sentence."""


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
        self.known = self.queued = self.gone = False


class Places:
    """Who may enter a running batch, and when: places are source tokens times beams.

    They are given out sentence by sentence, one client after the other and within a client one search after
    the other. A search that is alone may have all but a reserve; beside others it gets no more than a share,
    so that one with a thousand sentences neither holds up the next that comes nor slows its steps down.

    Threads may share it. Nothing here waits: who frees a place lets the next sentence in.

    Args:
        most: places for one search.
        reserved: further ones for others.
        share: places for one search beside others.
    """

    def __init__(self, most: int = PLACES, reserved: int = RESERVED, share: int = SHARE) -> None:
        self._most, self._reserved, self._share = most, reserved, share
        self._lock = threading.Lock()
        self._again = False
        self._queue: FairQueue[Claimant] = FairQueue()
        self._leaving: deque[Claimant] = deque()
        self._used = self._waiting = self._running = self._claimants = 0

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
            self._claimants += not claimant.known
            claimant.known = True
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
            self._free(claimant, sum(sizes), len(sizes))
            if not claimant.sentences and not claimant.waiting:
                self._claimants -= claimant.known
                claimant.known = False
        self._give()

    def leave(self, claimant: Claimant) -> None:
        """Give back all that it has, and wait no more. It may be called anywhere, by a finaliser too."""
        self._leaving.append(claimant)
        self._give()

    def _free(self, claimant: Claimant, places: int, sentences: int) -> None:
        claimant.places -= places
        claimant.sentences -= sentences
        self._used -= places
        self._running -= sentences

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
        self._free(claimant, claimant.places, claimant.sentences)
        self._waiting -= len(claimant.waiting)
        claimant.waiting.clear()
        self._claimants -= claimant.known
        if claimant.queued:
            self._queue.remove(claimant.client, claimant)

    def _granted(self) -> dict[Claimant, int]:
        """How many more sentences of each may enter now."""
        granted: dict[Claimant, int] = {}
        passed_over = []
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
            claimant.places += size
            claimant.sentences += 1
            self._used += size
            self._waiting -= 1
            self._running += 1
            granted[claimant] = granted.get(claimant, 0) + 1
            if claimant.waiting:
                self._queue.put(claimant.client, claimant)
            else:
                claimant.queued = False
        for claimant in passed_over:
            self._queue.put(claimant.client, claimant)
        return granted

    def _may_have(self, claimant: Claimant, size: int) -> bool:
        """Whether a sentence may be added to what a search has already; its first may always."""
        allowed = self._most if self._claimants == 1 else self._share
        return not claimant.places or claimant.places + size <= allowed

"""The token budget of a running batch, which decides when the sentences of searches may enter it."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from uwaga.scheduling.fair_queue import FairQueue

MAX_TOKENS = 4096
"""Maximum number of tokens of a search (source tokens times beams), like ``SearchOptions.batch_tokens``."""
RESERVED_TOKENS = 1024
"""Number of additional tokens that are reserved for other searches."""
SHORT_SENTENCES = 4
"""Maximum number of sentences of a short search."""
LONG_SHARE = 0.25
"""Limit for all long searches together, as a share of the tokens of current or recent short searches."""
RECENT_SECONDS = 0.5
"""Length, in seconds, of the periods in which recent short searches are measured."""
LONG_INTERVAL = 0.02
"""Seconds between two admissions of long searches if :data:`LONG_SHARE` allows less than a sentence."""


class SearchLease:
    """The tokens of a budget that a search uses, and the waiting sentences of the search.

    Args:
        client: name of the client.
        admit: function called with the number of waiting sentences that may enter; it must not raise.
    """

    def __init__(self, client: str, admit: Callable[[int], None]) -> None:
        self.client, self.admit = client, admit
        self.waiting: deque[int] = deque()  # tokens of each waiting sentence
        self.tokens = self.sentences = 0  # of the sentences that have entered
        self.total = 0  # sentences enqueued so far
        self.is_queued = self.is_closed = False

    @property
    def is_long(self) -> bool:
        """True for a search of more than :data:`SHORT_SENTENCES` sentences."""
        return self.total > SHORT_SENTENCES


class TokenBudget:
    """A budget of tokens (source tokens times beams) within which sentences enter a running batch.

    Sentences are admitted one at a time, in turn by client and, within a client, by search. A search may use
    all of the budget except a reserve, so that the next search need not wait. All long searches together use
    at most a share of the tokens of short searches, so that a thousand sentences do not slow down the steps
    of a few. If that share is less than a sentence, long searches enter one sentence at a time, at short
    intervals. When no short search is running, they use that share of the recent tokens of short searches, or
    one sentence; without recent short searches, they use the complete budget.

    Thread-safe and non-blocking: the thread that releases tokens admits the next sentences.

    Args:
        max_tokens: maximum tokens of a search.
        reserved_tokens: additional tokens for other searches.
        share: limit for long searches, as a share of the tokens of short searches.
        clock: function that returns the time in seconds.
    """

    def __init__(
        self,
        max_tokens: int = MAX_TOKENS,
        reserved_tokens: int = RESERVED_TOKENS,
        share: float = LONG_SHARE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_tokens, self._reserved, self._share, self._clock = max_tokens, reserved_tokens, share, clock
        self._short = self._long = 0  # tokens of short searches, and of long ones
        self._recent = 0  # maximum tokens of short searches in this period
        self._previous, self._period = 0, clock()  # the same for the previous period; start of this one
        self._latest_long = -math.inf  # time at which a sentence of a long search last entered
        self._lock = threading.Lock()
        self._repeat = False
        self._queue: FairQueue[SearchLease] = FairQueue()
        self._leaving_searches: deque[SearchLease] = deque()
        self.waiting = self.running = 0  # number of sentences that wait, and that are in the batch
        self.used = 0  # number of tokens in use

    def enqueue(self, lease: SearchLease, sizes: Sequence[int]) -> None:
        """Add sentences of a search, which enter the batch immediately if the budget allows it.

        Args:
            lease: the lease of the search.
            sizes: source tokens times beams of each sentence.
        """
        with self._lock:
            if lease.is_closed:
                return
            if not lease.is_long and lease.total + len(sizes) > SHORT_SENTENCES:  # no longer short
                self._short -= lease.tokens
                self._long += lease.tokens
            lease.total += len(sizes)
            lease.waiting.extend(sizes)
            self.waiting += len(sizes)
            if not lease.is_queued:
                lease.is_queued = True
                self._queue.put(lease.client, lease)
        self._admit()

    def release(self, lease: SearchLease, sizes: Sequence[int]) -> None:
        """Release the tokens of finished sentences."""
        with self._lock:
            if lease.is_closed:
                return
            self._add(lease, -sum(sizes), -len(sizes))
        self._admit()

    def leave(self, lease: SearchLease) -> None:
        """Release all tokens and waiting sentences of a search; a finaliser may call this method."""
        self._leaving_searches.append(lease)
        self._admit()

    def _add(self, lease: SearchLease, tokens: int, sentences: int) -> None:
        lease.tokens += tokens
        lease.sentences += sentences
        self.used += tokens
        self.running += sentences
        if lease.is_long:
            self._long += tokens
            if tokens > 0:
                self._latest_long = self._clock()
        else:
            self._short += tokens
            self._recent = max(self._recent, self._short)

    def _admit(self) -> None:
        """Admit all sentences that may enter.

        If the lock is held, its holder repeats the admission. This method does not wait for the lock, because
        a finaliser may call it in the very thread that holds the lock.
        """
        self._repeat = True
        while self._repeat and self._lock.acquire(blocking=False):
            try:
                self._repeat = False
                while self._leaving_searches:
                    self._remove(self._leaving_searches.popleft())
                for lease, count in self._grant().items():
                    lease.admit(count)
            finally:
                self._lock.release()

    def _remove(self, lease: SearchLease) -> None:
        if lease.is_closed:
            return
        lease.is_closed = True
        self._add(lease, -lease.tokens, -lease.sentences)
        self.waiting -= len(lease.waiting)
        lease.waiting.clear()
        if lease.is_queued:
            self._queue.remove(lease.client, lease)

    def _grant(self) -> dict[SearchLease, int]:
        """Admit waiting sentences, and return the number of admitted sentences of each search."""
        admitted_counts: dict[SearchLease, int] = {}
        deferred_leases = []
        self._update_recent()
        while self._queue:
            lease = self._queue.get()
            size = lease.waiting[0]
            if self.used and self.used + size > self._max_tokens + self._reserved:
                self._queue.put_first(lease.client, lease)  # retains its turn: it may be large
                break
            if not self._can_enter(lease, size):
                deferred_leases.append(lease)
                continue
            lease.waiting.popleft()
            self.waiting -= 1
            self._add(lease, size, 1)
            admitted_counts[lease] = admitted_counts.get(lease, 0) + 1
            if lease.waiting:
                self._queue.put(lease.client, lease)
            else:
                lease.is_queued = False
        for lease in deferred_leases:
            self._queue.put(lease.client, lease)
        return admitted_counts

    def _can_enter(self, lease: SearchLease, size: int) -> bool:
        """Return True if a search may use the tokens of another sentence."""
        if lease.tokens and lease.tokens + size > self._max_tokens:
            return False
        recent = max(self._recent, self._previous)
        if not lease.is_long or not recent:
            return True
        if self._long + size <= self._share * (self._short or recent):
            return True
        return not self._long and (not self._short or self._clock() - self._latest_long >= LONG_INTERVAL)

    def _update_recent(self) -> None:
        now = self._clock()
        if now - self._period < RECENT_SECONDS:
            return
        self._previous = self._recent if now - self._period < 2 * RECENT_SECONDS else 0
        self._recent, self._period = self._short, now

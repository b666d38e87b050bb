"""The context of a call: client, deadline and cancellation, shared by all searches of the call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from uwaga.errors import CancelledRequestError, DeadlineError

Item = TypeVar("Item")
Progress = Callable[[int, int], None]
"""A function that is called with a number of completed items and the total number."""


class CallContext:
    """Client, deadline and cancellation of a call; thread-safe.

    Args:
        client: any name; the time of a model is shared fairly between clients.
        seconds: time limit; None for no limit.
        is_long: whether the call has long texts, which only one call at a time may process in Python; see
            :meth:`active`.
        progress: function that is called, in the thread of the call, with the number of translated sentences
            and the number of sentences known so far, which may grow.

    Attributes:
        deadline: the time limit by the clock of :func:`time.monotonic`; None for no deadline.
    """

    def __init__(
        self,
        client: str = "",
        seconds: float | None = None,
        is_long: bool = False,
        progress: Progress | None = None,
    ) -> None:
        self.client, self.seconds = client, seconds
        self._progress, self._finished, self._expected = progress, 0, 0
        self.deadline = None if seconds is None else time.monotonic() + seconds
        self._long, self._holder = is_long, 0
        self._lock = threading.Lock()
        self._cancelled = ""
        self._callbacks: list[Callable[[], None]] = []

    def expect(self, sentences: Iterable[object], times: int) -> None:
        """Add to the number of sentences to translate; they are counted only if the progress is reported."""
        if self._progress is not None:
            self._expected += times * sum(1 for _ in sentences)

    def add_finished(self, count: int) -> None:
        """Add to the number of translated sentences, and report the progress."""
        self._finished += count
        if self._progress is not None:
            # sentences that are translated again were not expected
            self._progress(min(self._finished, self._expected), self._expected)

    @property
    def remaining(self) -> float | None:
        """The time until the deadline in seconds, at least 0; None without a deadline."""
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0.0)

    def deadline_error(self) -> DeadlineError:
        """Return the error for an expired deadline."""
        return DeadlineError(
            f"the request was not answered within {self.seconds:g} s: allow more time, or retry later"
        )

    def check(self) -> None:
        """Raise an error if the call is no longer active.

        Raises:
            DeadlineError: the deadline has passed.
            CancelledRequestError: the call was cancelled.
        """
        if self._cancelled:
            raise CancelledRequestError(self._cancelled)
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise self.deadline_error()

    def cancel(self, message: str = "the request was cancelled") -> None:
        """Cancel the call and run the registered callbacks in this thread.

        Args:
            message: message of the :class:`CancelledRequestError` raised in threads that wait for the call.
        """
        with self._lock:
            self._cancelled = self._cancelled or message
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Register a callback for cancellation; if the call is already cancelled, call it immediately.

        Returns:
            A function that removes the callback.
        """
        with self._lock:
            is_cancelled = bool(self._cancelled)
            if not is_cancelled:
                self._callbacks.append(callback)
        if is_cancelled:
            callback()

        def remove() -> None:
            with self._lock:
                if callback in self._callbacks:
                    self._callbacks.remove(callback)

        return remove

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make this the call that :func:`while_active` checks in this thread.

        Calls with long texts take turns, because several at once would block all other threads of the
        interpreter without finishing earlier. During :meth:`waiting`, another call may take its turn.

        Raises:
            DeadlineError, CancelledRequestError: as in :meth:`check`, before the call has its turn.
        """
        token = _CURRENT_CALL.set(self)
        try:
            self._acquire_turn()
            yield
        finally:
            self._release_turn()
            _CURRENT_CALL.reset(token)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let other calls take their turn while this call waits for the model.

        Raises:
            DeadlineError, CancelledRequestError: as in :meth:`active`.
        """
        had_turn = self._release_turn()
        try:
            yield
        finally:
            if had_turn:
                self._acquire_turn()

    def _acquire_turn(self) -> None:
        if not self._long:
            return
        while not _TURN_LOCK.acquire(timeout=TURN_SECONDS):
            self.check()
        self._holder = threading.get_ident()

    def _release_turn(self) -> bool:
        """End the turn of this call if this thread has the turn; return True if the turn was ended."""
        if self._holder != threading.get_ident():
            return False
        self._holder = 0
        _TURN_LOCK.release()
        return True


TURN_SECONDS = 0.5
"""Seconds between checks of the deadline of a call that waits for its turn."""
_TURN_LOCK = threading.Lock()
_CURRENT_CALL: ContextVar[CallContext | None] = ContextVar("call", default=None)


def expect_sentences(sentences: Iterable[object], times: int) -> None:
    """Add to the number of sentences that the call of this thread, if there is one, is to translate.

    Args:
        sentences: the sentences.
        times: the number of models that translate each of them.
    """
    call = _CURRENT_CALL.get()
    if call is not None:
        call.expect(sentences, times)


def while_active(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items while the call of this thread is active.

    Raises:
        DeadlineError, CancelledRequestError: as in :meth:`CallContext.check`, before an item is yielded.
    """
    call = _CURRENT_CALL.get()
    if call is None:
        yield from items
        return
    for item in items:
        call.check()
        yield item

"""One request among many that share a model: whose it is, how long it has, whether it is still wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from uwaga.errors import CancelledRequestError, DeadlineError, UwagaError


class Request:
    """What the searches of one call have in common; threads may share it.

    Args:
        client: who asks: the model's time is shared out fairly between clients. Any text.
        seconds: in how many seconds from now it must be answered; None for any time.

    Attributes:
        deadline: on the clock of :func:`time.monotonic`; None for none.
    """

    def __init__(self, client: str = "", seconds: float | None = None) -> None:
        self.client, self.seconds = client, seconds
        self.deadline = None if seconds is None else time.monotonic() + seconds
        self._lock = threading.Lock()
        self._ended: UwagaError | None = None
        self._told: list[Callable[[], None]] = []

    @property
    def left(self) -> float | None:
        """Seconds until the deadline, 0 where it has passed; None for none."""
        return None if self.deadline is None else max(self.deadline - time.monotonic(), 0.0)

    @property
    def error(self) -> UwagaError | None:
        """Why it is to be given up; None while it is wanted."""
        if self._ended is None and self.left == 0.0:
            self._ended = self.late()
        return self._ended

    def late(self) -> DeadlineError:
        """What to say to a client whose deadline has passed."""
        return DeadlineError(
            f"not answered within {self.seconds:g} s: give it more time, or ask when there is less to do"
        )

    def check(self) -> None:
        """Go on, if that is still wanted.

        Raises:
            DeadlineError: its time is over.
            CancelledRequestError: it was cancelled.
        """
        if (error := self.error) is not None:
            raise error

    def cancel(self, error: UwagaError | None = None) -> None:
        """Give it up; whoever works on it is told, once, in this thread.

        Args:
            error: what who waits for it gets; that it was cancelled, if None.
        """
        with self._lock:
            if self._ended is None:
                self._ended = error or CancelledRequestError("the request was cancelled")
            told, self._told = self._told, []
        for tell in told:
            tell()

    def when_cancelled(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Have ``tell`` called when it is cancelled, at once where it was; returns what ends that."""
        with self._lock:
            gone = self._ended is not None
            if not gone:
                self._told.append(tell)
        if gone:
            tell()

        def forget() -> None:
            with self._lock:
                if tell in self._told:
                    self._told.remove(tell)

        return forget

"""Ctrl-C that lets the running update finish."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interrupt:
    """Within its ``with`` block SIGINT and SIGTERM only set ``requested``; a second SIGINT stops at once.

    ``patient``: it does not, as of several processes, to which `torchrun` sends what the terminal has sent.
    """

    def __init__(self, patient: bool = False) -> None:
        self.requested, self.patient = False, patient
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT and not self.patient:
            raise KeyboardInterrupt
        self.requested = True

"""Supervisor that replaces worker processes that have ended or do not respond."""

from __future__ import annotations

import time

from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process


class WorkerCheck:
    """Callable that checks without waiting whether a worker is alive; it replaces :meth:`Process.is_alive`.

    The method of uvicorn waits for the response of each worker in turn. If a worker were killed before its
    response, the supervisor would notice this, and check the other workers, only after the timeout.

    Args:
        process: the worker process.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._ping_time: float | None = None  # time of the ping without a response

    def __call__(self, timeout: float = 5) -> bool:
        """Return False if the worker has ended or has not responded for ``timeout`` seconds."""
        pipe, now = self._process.parent_conn, time.monotonic()
        if not self._process.process.is_alive():
            return False
        try:
            if pipe.poll():
                pipe.recv()
                self._ping_time = None
            if self._ping_time is None:
                pipe.send(b"ping")
                self._ping_time = now
        except (OSError, EOFError):
            return False
        return now - self._ping_time < timeout


class Supervisor(Multiprocess):
    """A variant of uvicorn's supervisor that replaces a killed worker immediately."""

    def keep_subprocess_alive(self) -> None:
        for process in self.processes:
            if not isinstance(process.is_alive, WorkerCheck):
                process.is_alive = WorkerCheck(process)  # type: ignore[method-assign]
        super().keep_subprocess_alive()

"""Replace worker processes that have ended or do not respond."""

from __future__ import annotations

import time

from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process


class WorkerCheck:
    """Checks whether a worker runs and responds, without waiting; replaces :meth:`Process.is_alive`.

    uvicorn's method waits for the response of one worker after another. If a worker is killed before it
    responds, that and the state of the other workers would be noticed only after the timeout.

    Args:
        process: the worker process.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._ping_sent: float | None = None  # time of the ping without a response

    def __call__(self, timeout: float = 5) -> bool:
        """Return False if the worker has ended or has not responded for ``timeout`` seconds."""
        pipe, now = self._process.parent_conn, time.monotonic()
        if not self._process.process.is_alive():
            return False
        try:
            if pipe.poll():
                pipe.recv()
                self._ping_sent = None
            if self._ping_sent is None:
                pipe.send(b"ping")
                self._ping_sent = now
        except (OSError, EOFError):
            return False
        return now - self._ping_sent < timeout


class Supervisor(Multiprocess):
    """uvicorn's supervisor, which replaces a killed worker immediately."""

    def keep_subprocess_alive(self) -> None:
        for process in self.processes:
            if not isinstance(process.is_alive, WorkerCheck):
                process.is_alive = WorkerCheck(process)  # type: ignore[method-assign]
        super().keep_subprocess_alive()

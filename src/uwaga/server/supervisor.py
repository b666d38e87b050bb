"""Replace worker processes that have ended or do not answer."""

from __future__ import annotations

import time

from uvicorn.supervisors import Multiprocess
from uvicorn.supervisors.multiprocess import Process


class WorkerCheck:
    """Checks that a worker runs and answers; called in place of :meth:`Process.is_alive`, it never waits.

    uvicorn's waits for the answer of one worker after the other: a worker that is killed before it answers
    would be noticed only when the time for its answer is over, and the others with it.

    Args:
        process: the worker.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._asked: float | None = None  # when the question was sent that has no answer yet

    def __call__(self, timeout: float = 5) -> bool:
        """Return False if the worker has ended, or has not answered for ``timeout`` seconds."""
        pipe, now = self._process.parent_conn, time.monotonic()
        if not self._process.process.is_alive():
            return False
        try:
            if pipe.poll():
                pipe.recv()
                self._asked = None
            if self._asked is None:
                pipe.send(b"ping")
                self._asked = now
        except (OSError, EOFError):
            return False
        return now - self._asked < timeout


class Supervisor(Multiprocess):
    """uvicorn's supervisor, which replaces a killed worker at once."""

    def keep_subprocess_alive(self) -> None:
        for process in self.processes:
            if not isinstance(process.is_alive, WorkerCheck):
                process.is_alive = WorkerCheck(process)  # type: ignore[method-assign]
        super().keep_subprocess_alive()

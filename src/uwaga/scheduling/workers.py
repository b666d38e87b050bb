"""Threads that take requests from a fair queue."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from uwaga.errors import BusyError
from uwaga.scheduling.fair_queue import FairQueue

Job = Callable[[], None]


class FairWorkers:
    """So many threads that do what clients ask for, one of each client in turn.

    Threads begin when they are needed, end with :meth:`close` or the interpreter, and a child process that
    was forked gets its own.

    Args:
        threads: most jobs at once.
        most_waiting: most jobs that wait for a thread.
    """

    def __init__(self, threads: int, most_waiting: int) -> None:
        self._threads, self._most_waiting = threads, most_waiting
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._queue: FairQueue[Job] = FairQueue()
        self._busy = 0
        self._executor: ThreadPoolExecutor | None = None

    @property
    def waiting(self) -> int:
        """Jobs that no thread has begun."""
        return len(self._queue)

    @property
    def busy(self) -> int:
        """Jobs that are being done."""
        return self._busy

    def put(self, client: str, job: Job) -> None:
        """Have a job done; what it raises is its own matter.

        Raises:
            BusyError: too many wait already.
        """
        with self._lock:
            if self._process != os.getpid():
                self._begin()
            if self._busy >= self._threads:
                if len(self._queue) >= self._most_waiting:
                    raise BusyError(
                        f"{len(self._queue)} requests wait already, as many as may: try again in a second"
                    )
                self._queue.put(client, job)
                return
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="uwaga-request")
            self._busy += 1
            self._executor.submit(self._work, job)

    def remove(self, client: str, job: Job) -> bool:
        """Take back a job; False where it has been begun."""
        with self._lock:
            return self._queue.remove(client, job)

    def wait(self) -> None:
        """Until nothing waits and nothing is done."""
        with self._lock:
            self._idle.wait_for(lambda: not self._busy and not self._queue)

    def close(self) -> None:
        """End the threads, once they are done with what they have begun."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True)

    def _work(self, job: Job | None) -> None:
        while job is not None:
            try:
                job()
            finally:
                with self._lock:
                    job = self._queue.take() if self._queue else None
                    if job is None:
                        self._busy -= 1
                        self._idle.notify_all()

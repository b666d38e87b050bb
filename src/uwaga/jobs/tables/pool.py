"""A pool of workers: blocks go in, what became of them comes out; a lost worker's blocks are done again."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol

from uwaga.errors import DataError, ModelError
from uwaga.jobs.tables.rows import TranslatedCell
from uwaga.jobs.tables.work import Identity, Task

MOST_ATTEMPTS = 5
"""Workers that may be lost over one block, before the block is held to be the cause."""
MOST_STARTS = 3
"""Workers in a row that may be lost before they are ready."""
LONGEST_WAIT = 1800.0  # seconds without a single worker


class WorkerLostError(Exception):
    """A worker has ended in the middle: its process was killed, or its node is gone.

    ``working`` says that it had been ready.
    """

    def __init__(self, message: str, working: bool = False) -> None:
        super().__init__(message)
        self.working = working


class BatchWorker(Protocol):
    """One that translates, wherever it runs. Both calls raise :class:`WorkerLostError` where it is gone."""

    def begin(self) -> Identity:
        """Load the models.

        Raises:
            UwagaError: it cannot.
        """
        ...

    def translate(self, task: Task) -> list[TranslatedCell]:
        """Translate the texts of a block.

        Raises:
            UwagaError: none of them can be translated.
        """
        ...

    def close(self) -> None:
        """End it, whatever it does."""
        ...


class Done(NamedTuple):
    """The number of a block, and what became of its texts."""

    number: int
    cells: list[TranslatedCell]


class WorkerPool:
    """Workers that take blocks as they are free, each with a thread that waits for it.

    Args:
        make: a worker, not yet loaded; called again where one was lost.
        count: of workers.
        expected: what each must have in common with the process that reads and writes.
    """

    def __init__(self, make: Callable[[], BatchWorker], count: int, expected: Identity) -> None:
        self.count = count
        self.lost = 0
        self._make, self._expected = make, expected
        self._tasks: queue.Queue[tuple[Task, int] | None] = queue.Queue()
        self._results: queue.Queue[Done | BaseException] = queue.Queue()
        self._workers: dict[int, BatchWorker] = {}
        self._ready = 0
        self._lock = threading.Lock()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._serve, args=(place,), daemon=True, name=f"uwaga-batch-{place}")
            for place in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, task: Task) -> None:
        """Have a block worked on."""
        self._tasks.put((task, 1))

    def take(self) -> Done:
        """The next block that is done, in whatever order.

        Raises:
            UwagaError: no worker can do the work; a block has lost several workers.
        """
        waited = 0.0
        while True:
            try:
                result = self._results.get(timeout=1.0)
            except queue.Empty:
                waited = 0.0 if self._ready else waited + 1.0
                if waited >= LONGEST_WAIT:
                    raise ModelError(
                        f"no worker has been ready for {LONGEST_WAIT / 60:.0f} minutes: is there a node with "
                        "room for one? The same command goes on"
                    ) from None
                continue
            if isinstance(result, BaseException):
                raise result
            return result

    def close(self) -> None:
        """End all workers."""
        with self._lock:
            self._closed = True
            workers = list(self._workers.values())
        for _ in self._threads:
            self._tasks.put(None)
        for worker in workers:
            worker.close()
        for thread in self._threads:
            thread.join(timeout=5.0)

    def _serve(self, place: int) -> None:
        starts = 0
        try:
            while not self._closed:
                try:
                    self._run(place)
                    return
                except WorkerLostError as error:
                    if self._closed:
                        return
                    self.lost += 1
                    starts = 0 if error.working else starts + 1
                    if starts >= MOST_STARTS:
                        raise ModelError(
                            f"{starts} workers in a row were lost before they were ready: {error}"
                        ) from None
        except BaseException as error:  # told by take
            self._results.put(error)

    def _run(self, place: int) -> None:
        """One worker, from its start to the end of the work or its own."""
        worker = self._make()
        with self._lock:
            self._workers[place] = worker
        try:
            self._expected.check(worker.begin())
            with self._lock:
                self._ready += 1
            try:
                self._work(worker)
            finally:
                with self._lock:
                    self._ready -= 1
        finally:
            with self._lock:
                self._workers.pop(place, None)
            worker.close()

    def _work(self, worker: BatchWorker) -> None:
        while (item := self._tasks.get()) is not None:
            task, attempt = item
            try:
                self._results.put(Done(task.number, worker.translate(task)))
            except WorkerLostError as error:
                if attempt >= MOST_ATTEMPTS:
                    raise DataError(
                        f"{attempt} workers were lost over the rows {task.rows[0]} to {task.rows[-1]} of "
                        f"part {task.number}: has each worker the memory that it needs?"
                    ) from None
                self._tasks.put((task, attempt + 1))
                raise WorkerLostError(str(error), working=True) from None

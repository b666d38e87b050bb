"""Fair queueing: a queue and a thread pool that serve clients in turn."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from uwaga.errors import BusyError

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """A round-robin queue, which returns one item of each client in turn, and a client's items in order.

    A thousand items of one client delay the only item of another client by one item. Clients without items
    use no memory. The queue is not thread-safe.
    """

    def __init__(self) -> None:
        self._clients: OrderedDict[str, deque[Item]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, client: str, item: Item) -> None:
        """Append an item to the queue of a client."""
        self._clients.setdefault(client, deque()).append(item)
        self._size += 1

    def put_first(self, client: str, item: Item) -> None:
        """Insert an item of a client at the front of the queue."""
        self._clients.setdefault(client, deque()).appendleft(item)
        self._clients.move_to_end(client, last=False)
        self._size += 1

    def get(self) -> Item:
        """Remove and return the next item."""
        if not self._clients:
            raise IndexError("the queue is empty")
        client, items = self._clients.popitem(last=False)
        item = items.popleft()
        if items:
            self._clients[client] = items
        self._size -= 1
        return item

    def remove(self, client: str, item: Item) -> bool:
        """Remove an item of a client; return False if the item is not in the queue."""
        items = self._clients.get(client)
        if items is None or item not in items:
            return False
        items.remove(item)
        if not items:
            del self._clients[client]
        self._size -= 1
        return True


Job = Callable[[], None]


class FairWorkers:
    """A thread pool that runs the jobs of its clients in turn.

    Threads start on demand and end with :meth:`close` or with the interpreter; a forked child process starts
    new threads.

    Args:
        threads: maximum number of concurrent jobs.
        max_waiting: maximum number of jobs in the queue.
    """

    def __init__(self, threads: int, max_waiting: int) -> None:
        self._threads, self._max_waiting = threads, max_waiting
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._queue: FairQueue[Job] = FairQueue()
        self.busy = 0  # number of running jobs
        self._executor: ThreadPoolExecutor | None = None

    @property
    def waiting(self) -> int:
        """Number of jobs in the queue."""
        return len(self._queue)

    def put(self, client: str, job: Job) -> None:
        """Run a job in a thread, or queue it if all threads are busy; the job handles its own exceptions."""
        with self._lock:
            if self._process != os.getpid():
                self._reset()
            if self.busy >= self._threads:
                if len(self._queue) >= self._max_waiting:
                    raise BusyError(f"the queue is full ({len(self._queue)} requests): try again in a second")
                self._queue.put(client, job)
                return
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._threads, thread_name_prefix="uwaga-request")
            self.busy += 1
            self._executor.submit(self._work, job)

    def remove(self, client: str, job: Job) -> bool:
        """Remove a job from the queue; return False if it has started."""
        with self._lock:
            return self._queue.remove(client, job)

    def wait(self) -> None:
        """Wait until no job is queued or running."""
        with self._lock:
            self._idle.wait_for(lambda: not self.busy and not self._queue)

    def close(self) -> None:
        """End the threads after their current jobs."""
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
                    job = self._queue.get() if self._queue else None
                    if job is None:
                        self.busy -= 1
                        self._idle.notify_all()

"""A running batch per model for the searches of any number of threads.

A searching thread submits its sentences to the batch and waits for the results. The results are bit-identical
to those of a separate search with the model, independently of other sentences in the batch.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress

from uwaga.decoder import Batching, Decoder, RunningBatch
from uwaga.errors import CancelledRequestError
from uwaga.scheduling.dynamic_batch import DynamicBatch
from uwaga.scheduling.token_budget import TokenBudget

CLOSE_SECONDS = 2.0
"""Maximum time in seconds to wait, after a batch is closed, for the threads that wait in it to return."""
_exiting: list[bool] = []
"""A list that is not empty once the interpreter has begun to exit; no batch is started then."""
_abandoned: list[object] = []
"""Objects that a forked child inherits from its parent and keeps, because freeing them is unsafe."""


class ModelBatch:
    """The running batch of a model, with its thread and its token budget.

    The thread starts with the first search, also in a forked child. It ends with :meth:`close`, when this
    object is freed, or at interpreter exit.

    Args:
        decoder: the model.
        budget: function that creates the token budget.
        nice: niceness added to the threads of a native batch, on Linux. Threads that hold the GIL while they
            work keep their niceness.

    Attributes:
        budget: the token budget.
        waiting: ids of the threads that wait for the batch.
    """

    def __init__(
        self, decoder: Decoder, budget: Callable[[], TokenBudget] = TokenBudget, nice: int = 0
    ) -> None:
        self.decoder = decoder
        self._make_budget, self._nice = budget, nice
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._batch: RunningBatch | None = None
        self._finalizer: weakref.finalize[..., ModelBatch] | None = None
        self.budget = budget()
        self.waiting: set[int] = set()

    def running_batch(self) -> RunningBatch:
        """Return the running batch, which is started if necessary."""
        if self._process != os.getpid():
            self._reset_after_fork()
        with self._lock:
            if _exiting:
                raise CancelledRequestError("the interpreter is exiting")
            if self._batch is None:
                decoder: object = self.decoder
                nice = 0
                if isinstance(decoder, Batching):
                    self._batch, nice = decoder.running_batch(), self._nice
                else:
                    self._batch = DynamicBatch(self.decoder)
                thread = threading.Thread(
                    target=_serve, args=(self._batch, nice), name="uwaga-batch", daemon=True
                )
                thread.start()
                self._finalizer = weakref.finalize(
                    self, _close, self._batch, thread, os.getpid(), self.waiting
                )
                atexit.register(_exiting.append, True)  # runs before the finalisers
            return self._batch

    def _reset_after_fork(self) -> None:
        """Reset the state in a forked child, which has no serving thread and whose locks may be held."""
        _abandoned.append((self._batch, self._finalizer, self._lock, self.budget))
        if self._finalizer is not None:
            self._finalizer.detach()
        self._lock, self._batch, self._finalizer = threading.Lock(), None, None
        self.budget, self.waiting, self._process = self._make_budget(), set(), os.getpid()

    @property
    def counters(self) -> tuple[int, int, int]:
        """The numbers of steps, of rows in all steps, and of finished sentences."""
        return (0, 0, 0) if self._batch is None else self._batch.counters

    def close(self) -> None:
        """Stop the thread until the next search; waiting searches raise :class:`CancelledRequestError`."""
        with self._lock:
            finalizer, self._finalizer, self._batch = self._finalizer, None, None
        if finalizer is not None:
            finalizer()


def _serve(batch: RunningBatch, nice: int) -> None:
    """Serve a batch in this thread; threads that the batch starts inherit the niceness of this thread."""
    if nice and sys.platform == "linux":
        thread_id = threading.get_native_id()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread_id, os.getpriority(os.PRIO_PROCESS, thread_id) + nice)
    batch.serve()


def _close(batch: RunningBatch, thread: threading.Thread, process: int, waiting_threads: set[int]) -> None:
    """Close a batch, and wait until the threads that were waiting in the batch have returned."""
    if process != os.getpid():
        _abandoned.append(batch)
        return
    batch.close()
    if thread is not threading.current_thread():
        thread.join()
    deadline = time.monotonic() + CLOSE_SECONDS
    while waiting_threads - {threading.get_ident()} and time.monotonic() < deadline:
        time.sleep(0.001)

"""Searches of any number of threads in one running batch of a model.

A thread that searches takes its sentences to the batch and waits. What is found is what the model's own
search finds, to the bit, whatever else is in the batch.
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
from uwaga.scheduling.continuous_batch import CollectedBatch
from uwaga.scheduling.token_budget import Places

A_MOMENT = 2.0
"""Seconds that threads have to be told that a batch was closed."""
_over: list[bool] = []
"""Holds something once the interpreter ends: nothing begins any more."""
_abandoned: list[object] = []
"""What a forked child has of its parent's threads, and must not even free."""


class SharedSearch:
    """The running batch of a model, its thread, and its places.

    Nothing begins before the first search; a child process that was forked begins anew. The thread ends with
    :meth:`close`, when nobody has this any more, or with the interpreter.

    Args:
        decoder: the model.
        places: who may enter, and when.
        nice: by how much the threads of an engine's batch step back where cores are busy, as nice(1) has it;
            on Linux. Those that hold Python's lock at their work do not.

    Attributes:
        places: what it has made.
        waiting: threads that wait for the batch.
    """

    def __init__(self, decoder: Decoder, places: Callable[[], Places] = Places, nice: int = 0) -> None:
        self.decoder = decoder
        self._made, self._nice = places, nice
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._batch: RunningBatch | None = None
        self._end: weakref.finalize[..., SharedSearch] | None = None
        self.places = places()
        self.waiting: set[int] = set()

    def running_batch(self) -> RunningBatch:
        """The batch, which is being served."""
        if self._process != os.getpid():
            self._begin_again()
        with self._lock:
            if _over:
                raise CancelledRequestError("the interpreter ends")
            if self._batch is None:
                decoder: object = self.decoder
                nice = 0
                if isinstance(decoder, Batching):
                    self._batch, nice = decoder.running_batch(), self._nice
                else:
                    self._batch = CollectedBatch(self.decoder)
                given = self._batch, nice
                thread = threading.Thread(target=_serve, args=given, name="uwaga-batch", daemon=True)
                thread.start()
                self._end = weakref.finalize(self, _close, self._batch, thread, os.getpid(), self.waiting)
                atexit.register(_over.append, True)  # it is called before finalisers are
            return self._batch

    def _begin_again(self) -> None:
        """In a forked child: no thread serves here, and locks are as they were in the parent."""
        _abandoned.append((self._batch, self._end, self._lock, self.places))
        if self._end is not None:
            self._end.detach()
        self._lock, self._batch, self._end = threading.Lock(), None, None
        self.places, self.waiting, self._process = self._made(), set(), os.getpid()

    @property
    def counters(self) -> tuple[int, int, int]:
        """Steps made, their rows added up, and sentences done."""
        return (0, 0, 0) if self._batch is None else self._batch.counters

    def close(self) -> None:
        """End the thread; searches that wait are told that it was closed. The next one begins anew."""
        with self._lock:
            end, self._end, self._batch = self._end, None, None
        if end is not None:
            end()


def _serve(batch: RunningBatch, nice: int) -> None:
    """Serve a batch in this thread, which steps back, and with it those that it begins."""
    if nice and sys.platform == "linux":
        this = threading.get_native_id()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, this, os.getpriority(os.PRIO_PROCESS, this) + nice)
    batch.serve()


def _close(batch: RunningBatch, thread: threading.Thread, process: int, waiting: set[int]) -> None:
    """End a batch; whoever waits has come back from it before the interpreter goes on to its end."""
    if process != os.getpid():
        _abandoned.append(batch)
        return
    batch.close()
    if thread is not threading.current_thread():
        thread.join()
    end = time.monotonic() + A_MOMENT
    while waiting - {threading.get_ident()} and time.monotonic() < end:
        time.sleep(0.001)

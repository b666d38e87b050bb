"""Messages between the processes of a run, besides tensors, through the key-value store of `torchrun`.

Receivers wait without a time limit, since preparing a corpus or validating may take hours; meanwhile a thread
of each process sends heartbeats.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta

from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from uwaga.errors import FailedElsewhereError, RankLostError, reason

BEAT = 0.5
"""Seconds between two heartbeats."""
SILENT = 1.5
"""Seconds without a heartbeat, after a connection broke, that identify the process which has ended."""
ARRIVAL = 600.0
"""Seconds within which all processes must join."""
_PAUSES = (0.001, 0.05)  # seconds between two polls, at first and at most


def meet(store: Store, rank: int, world: int, seconds: float = ARRIVAL) -> str:
    """Agree on a random name that only the current processes share.

    A store may outlive its processes: that of `torchrun` still holds the messages of processes that it has
    restarted. Rank 0 publishes a new name, the others answer with random names of their own, and a process
    whose answer is echoed knows that it came from a living rank 0.
    """
    name, end = secrets.token_hex(8), time.monotonic() + seconds

    def wait(key: str, who: str, call: str = "") -> bool:
        """Wait for a key; return False if rank 0 publishes another name meanwhile."""
        while not store.check([key]):
            if call and store.get("uwaga/call").decode() != call:
                return False
            if time.monotonic() > end:
                raise RankLostError(f"rank {rank}: {who} has not joined within {seconds:.0f} s")
            time.sleep(_PAUSES[1])
        return True

    if rank == 0:
        store.set("uwaga/call", name)
        for other in range(1, world):
            wait(f"uwaga/{name}/{other}", f"rank {other}")
            store.set(f"uwaga/{store.get(f'uwaga/{name}/{other}').decode()}", name)
        return name
    wait("uwaga/call", "rank 0")
    while True:
        call = store.get("uwaga/call").decode()
        store.set(f"uwaga/{call}/{rank}", name)
        if wait(f"uwaga/{name}", "rank 0", call):
            return call


class RankMessages:
    """Messages from each of ``world`` processes to all, in the same order in each.

    ``timeout``: seconds without a heartbeat after which a process counts as lost; :data:`SILENT` if
    ``hurried`` returns True, because this process has been asked to stop.
    """

    def __init__(self, store: Store, rank: int, world: int, timeout: float = 600.0) -> None:
        self.rank, self.world, self.timeout = rank, world, timeout
        self.hurried: Callable[[], bool] = lambda: False
        self.store = store
        self._mine = PrefixStore("uwaga", store)
        self._count = 0
        self._seen: dict[int, tuple[int, float]] = {}  # by process: its last heartbeat and when it was seen
        self._stop = threading.Event()
        self._mine.set(f"who/{rank}", f"process {os.getpid()} on host {socket.gethostname()}")
        self._thread = threading.Thread(target=self._live, name="uwaga-life", daemon=True)
        self._thread.start()

    @classmethod
    def join(cls, rank: int, world: int) -> RankMessages:
        """Connect to the store that `torchrun` has named in the environment."""
        try:
            store, _, _ = next(rendezvous("env://", timeout=timedelta(seconds=ARRIVAL)))
            return cls(PrefixStore(meet(store, rank, world), store), rank, world)
        except (RuntimeError, ValueError) as error:
            place = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
            raise RankLostError(
                f"rank {rank}: the store at {place} cannot be reached: {reason(error)}; start all "
                "processes with torchrun"
            ) from None

    def gather(self, text: str) -> list[str]:
        """Send a message and return those of all processes, by rank."""
        self._count += 1
        with self._reached():
            self._mine.set(f"{self._count}/{self.rank}", text)
            return [self._read(f"{self._count}/{rank}", rank) for rank in range(self.world)]

    def send(self, text: str) -> None:
        """Send a message from rank 0, which the others :meth:`receive`."""
        self._count += 1
        with self._reached():
            self._mine.set(f"{self._count}/0", text)

    def receive(self) -> str:
        """Return the next message of rank 0."""
        self._count += 1
        with self._reached():
            return self._read(f"{self._count}/0", 0)

    def fail(self) -> None:
        """Announce that this process ends with an error that it has reported."""
        with contextlib.suppress(RuntimeError):
            self._mine.set("failed", str(self.rank))

    def lost(self, late: bool) -> FailedElsewhereError | RankLostError:
        """Return the error to raise when a connection broke, naming the process that has ended.

        Only one of the remaining processes reports it. ``late``: the wait for an answer has timed out.
        """
        try:
            before = [self._sign(rank) for rank in range(self.world)]
            end = time.monotonic() + SILENT
            while time.monotonic() < end:
                if self._mine.check(["failed"]):
                    return FailedElsewhereError(f"rank {self._mine.get('failed').decode()} has failed")
                time.sleep(_PAUSES[1])
            gone = [rank for rank in range(self.world) if self._sign(rank) == before[rank]]
            lost = " and ".join(self.describe(rank) for rank in gone) or "another process of the run"
            how = f"has not answered for {self.timeout:.0f} s (training.timeout)" if late else "was lost"
            if self._mine.add("told", 1) > 1:
                return FailedElsewhereError(f"{lost} {how}")
        except RuntimeError:
            return self._unreachable()
        return RankLostError(
            f"{lost} {how}; torchrun restarts all processes if --max-restarts allows it; otherwise rerun "
            "the same command to resume from the newest checkpoint"
        )

    def describe(self, rank: int) -> str:
        """``rank 1 (process 123 on host a)``."""
        if not self._mine.check([f"who/{rank}"]):
            return f"rank {rank}, which never joined,"
        return f"rank {rank} ({self._mine.get(f'who/{rank}').decode()})"

    def close(self) -> None:
        """Stop the heartbeats."""
        self._stop.set()
        self._thread.join()

    def depart(self) -> None:
        """Leave after all have finished; rank 0, which may host the store, leaves last."""
        with contextlib.suppress(RuntimeError):
            self._mine.add("left", 1)
            end = time.monotonic() + 10.0
            while not self.rank and self._mine.add("left", 0) < self.world and time.monotonic() < end:
                time.sleep(_PAUSES[0])

    def _read(self, key: str, rank: int) -> str:
        pause, looked = _PAUSES[0], time.monotonic()
        while not self._mine.check([key]):
            time.sleep(pause)
            pause = min(2 * pause, _PAUSES[1])
            if time.monotonic() - looked >= BEAT:
                looked = time.monotonic()
                self._check_alive(rank)
        return self._mine.get(key).decode()

    def _check_alive(self, rank: int) -> None:
        if self._mine.check(["failed"]):
            raise FailedElsewhereError(f"rank {self._mine.get('failed').decode()} has failed")
        now, sign = time.monotonic(), self._sign(rank)
        last = self._seen.get(rank)
        if last is None or last[0] != sign:
            self._seen[rank] = (sign, now)
        elif now - last[1] > (SILENT if self.hurried() else self.timeout):
            raise RankLostError(
                f"{self.describe(rank)} has not been heard of for {now - last[1]:.0f} s (training.timeout: "
                f"{self.timeout:.0f}); rerun the same command to resume from the newest checkpoint"
            )

    def _sign(self, rank: int) -> int:
        return self._mine.add(f"alive/{rank}", 0)

    def _live(self) -> None:
        with contextlib.suppress(RuntimeError):
            while not self._stop.wait(BEAT):
                self._mine.add(f"alive/{self.rank}", 1)

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError:
            raise self._unreachable() from None

    def _unreachable(self) -> RankLostError:
        return RankLostError(
            f"rank {self.rank}: lost the connection to the store of the run's processes: its machine or "
            "torchrun has ended; rerun the same command to resume from the newest checkpoint"
        )

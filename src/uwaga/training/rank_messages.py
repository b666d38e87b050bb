"""What the processes of one run tell each other beside the training: notices in the store of `torchrun`.

They are waited for as long as it takes, since preparing a corpus or validating may take hours; meanwhile a
thread of each process shows that it lives.
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
"""Seconds between two signs of life."""
SILENT = 1.5
"""Seconds without one, after a connection broke, that tell the process which has ended."""
ARRIVAL = 600.0
"""Seconds in which all processes must have come."""
_PAUSES = (0.001, 0.05)  # seconds between two looks, at first and at most


def meet(store: Store, rank: int, world: int, seconds: float = ARRIVAL) -> str:
    """A name that the processes which are here now share, and no others before or after them.

    A store may outlive its processes: that of `torchrun` still holds what those said which it has started
    again. Rank 0 calls under a new name, the others answer with one of their own, and who finds that taken up
    has been heard by somebody who lives.

    Raises:
        RankLostError: somebody has not come in time.
    """
    name, end = secrets.token_hex(8), time.monotonic() + seconds

    def wait(key: str, who: str, call: str = "") -> bool:
        """Whether the key came; not where rank 0 calls anew meanwhile."""
        while not store.check([key]):
            if call and store.get("uwaga/call").decode() != call:
                return False
            if time.monotonic() > end:
                raise RankLostError(f"rank {rank}: {who} has not come within {seconds:.0f} s")
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
    """Notices from each of ``world`` processes to all, in an order that is the same in each.

    ``timeout``: seconds without a sign of life after which a process counts as lost; :data:`SILENT` where
    ``hurried`` says that this process is asked to end.
    """

    def __init__(self, store: Store, rank: int, world: int, timeout: float = 600.0) -> None:
        self.rank, self.world, self.timeout = rank, world, timeout
        self.hurried: Callable[[], bool] = lambda: False
        self.store = store
        self._mine = PrefixStore("uwaga", store)
        self._count = 0
        self._seen: dict[int, tuple[int, float]] = {}  # of each process its sign and when it was new
        self._stop = threading.Event()
        self._mine.set(f"who/{rank}", f"process {os.getpid()} on host {socket.gethostname()}")
        self._thread = threading.Thread(target=self._live, name="uwaga-life", daemon=True)
        self._thread.start()

    @classmethod
    def join(cls, rank: int, world: int) -> RankMessages:
        """Through the store that the environment names, as `torchrun` sets it.

        Raises:
            RankLostError: it cannot be reached.
        """
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
        """What each process says here, by rank."""
        self._count += 1
        with self._reached():
            self._mine.set(f"{self._count}/{self.rank}", text)
            return [self._read(f"{self._count}/{rank}", rank) for rank in range(self.world)]

    def post(self, text: str) -> None:
        """Say something as rank 0 that the others :meth:`hear`."""
        self._count += 1
        with self._reached():
            self._mine.set(f"{self._count}/0", text)

    def hear(self) -> str:
        """What rank 0 says here."""
        self._count += 1
        with self._reached():
            return self._read(f"{self._count}/0", 0)

    def fail(self) -> None:
        """Say that this process ends, and has told its user why."""
        with contextlib.suppress(RuntimeError):
            self._mine.set("failed", str(self.rank))

    def lost(self, late: bool) -> FailedElsewhereError | RankLostError:
        """What to raise when a connection between the processes broke: which of them has ended.

        One of those that are left tells it. ``late``: nothing came for as long as it was waited for.
        """
        try:
            before = [self._sign(rank) for rank in range(self.world)]
            end = time.monotonic() + SILENT
            while time.monotonic() < end:
                if self._mine.check(["failed"]):
                    return FailedElsewhereError(f"rank {self._mine.get('failed').decode()} has failed")
                time.sleep(_PAUSES[1])
            gone = [rank for rank in range(self.world) if self._sign(rank) == before[rank]]
            named = " and ".join(self.named(rank) for rank in gone) or "another process of the run"
            how = f"has not answered for {self.timeout:.0f} s (training.timeout)" if late else "was lost"
            if self._mine.add("told", 1) > 1:
                return FailedElsewhereError(f"{named} {how}")
        except RuntimeError:
            return self._unreachable()
        return RankLostError(
            f"{named} {how}; torchrun starts all again where --max-restarts lets it, and the same command "
            "goes on from the newest checkpoint"
        )

    def named(self, rank: int) -> str:
        """``rank 1 (process 123 on host a)``."""
        if not self._mine.check([f"who/{rank}"]):
            return f"rank {rank}, which never came,"
        return f"rank {rank} ({self._mine.get(f'who/{rank}').decode()})"

    def close(self) -> None:
        """Show no more signs of life."""
        self._stop.set()
        self._thread.join()

    def depart(self) -> None:
        """Leave when all are done; rank 0, in which the store may live, when the others have left."""
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
                f"{self.named(rank)} has not been heard of for {now - last[1]:.0f} s (training.timeout: "
                f"{self.timeout:.0f}); the same command goes on from the newest checkpoint"
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
            f"rank {self.rank}: the store of the run's processes is gone, and with it the machine or the "
            "torchrun that held it; the same command goes on from the newest checkpoint"
        )

"""Messages other than tensors between the processes of a run, sent through torchrun's key-value store.

Receivers wait without a time limit, because preparing a corpus or validating may take hours. Meanwhile, a
thread of each process sends heartbeats.
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

HEARTBEAT_SECONDS = 0.5
"""Seconds between heartbeats."""
SILENCE_SECONDS = 1.5
"""Seconds without a heartbeat after which a process is taken to have ended, once a connection is lost."""
JOIN_SECONDS = 600.0
"""Seconds within which all processes must join the run."""
_POLL_SECONDS = (0.001, 0.05)  # first and longest interval between two polls


def agree_on_name(store: Store, rank: int, world: int, seconds: float = JOIN_SECONDS) -> str:
    """Return a random name on which only the current processes agree.

    A store may outlive the processes: torchrun's store still contains messages from before a restart. Rank 0
    publishes a new name, and every other rank answers with a random name. When rank 0 repeats this answer,
    the other rank knows that rank 0 is running.
    """
    name, deadline = secrets.token_hex(8), time.monotonic() + seconds

    def wait(key: str, sender: str, call: str = "") -> bool:
        """Return True when a key exists, or False when rank 0 has published another name."""
        while not store.check([key]):
            if call and store.get("uwaga/call").decode() != call:
                return False
            if time.monotonic() > deadline:
                raise RankLostError(f"rank {rank}: {sender} has not joined within {seconds:.0f} s")
            time.sleep(_POLL_SECONDS[1])
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
    """Sends messages between ``world`` processes, which all receive them in the same order.

    ``timeout`` is the number of seconds without a heartbeat after which a process is considered lost;
    :data:`SILENCE_SECONDS` applies instead once ``is_stopping`` returns True because this process was asked
    to stop.
    """

    def __init__(self, store: Store, rank: int, world: int, timeout: float = 600.0) -> None:
        self.rank, self.world, self.timeout = rank, world, timeout
        self.is_stopping: Callable[[], bool] = lambda: False
        self.store = store
        self._store = PrefixStore("uwaga", store)
        self._message_count = 0
        self._heartbeats: dict[
            int, tuple[int, float]
        ] = {}  # by rank: last heartbeat count, and when it was read
        self._stop = threading.Event()
        self._store.set(f"who/{rank}", f"process {os.getpid()} on host {socket.gethostname()}")
        self._heartbeat_thread = threading.Thread(
            target=self._send_heartbeats, name="uwaga-life", daemon=True
        )
        self._heartbeat_thread.start()

    @classmethod
    def join(cls, rank: int, world: int) -> RankMessages:
        """Connect to the key-value store given by torchrun's environment variables."""
        try:
            store, _, _ = next(rendezvous("env://", timeout=timedelta(seconds=JOIN_SECONDS)))
            return cls(PrefixStore(agree_on_name(store, rank, world), store), rank, world)
        except (RuntimeError, ValueError) as error:
            address = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
            raise RankLostError(
                f"rank {rank}: the store at {address} cannot be reached: {reason(error)}; start all "
                "processes with torchrun"
            ) from None

    def gather(self, text: str) -> list[str]:
        """Send a message, and return the messages of all processes by rank."""
        self._message_count += 1
        with self._store_errors():
            self._store.set(f"{self._message_count}/{self.rank}", text)
            return [self._read(f"{self._message_count}/{rank}", rank) for rank in range(self.world)]

    def send(self, text: str) -> None:
        """Send a message from rank 0, which all other ranks must :meth:`receive`."""
        self._message_count += 1
        with self._store_errors():
            self._store.set(f"{self._message_count}/0", text)

    def receive(self) -> str:
        """Return the next message that rank 0 sends."""
        self._message_count += 1
        with self._store_errors():
            return self._read(f"{self._message_count}/0", 0)

    def fail(self) -> None:
        """Announce that this process has failed and has reported its error."""
        with contextlib.suppress(RuntimeError):
            self._store.set("failed", str(self.rank))

    def connection_error(self, timed_out: bool) -> FailedElsewhereError | RankLostError:
        """Return the error to raise when a connection is lost; it names the processes that have ended.

        Only one of the remaining processes receives a RankLostError, so that the loss is reported once.
        ``timed_out`` tells whether the wait for an answer has timed out.
        """
        try:
            heartbeats = [self._heartbeat_count(rank) for rank in range(self.world)]
            deadline = time.monotonic() + SILENCE_SECONDS
            while time.monotonic() < deadline:
                if self._store.check(["failed"]):
                    return FailedElsewhereError(f"rank {self._store.get('failed').decode()} has failed")
                time.sleep(_POLL_SECONDS[1])
            silent_ranks = [
                rank for rank in range(self.world) if self._heartbeat_count(rank) == heartbeats[rank]
            ]
            lost_ranks = (
                " and ".join(self.describe(rank) for rank in silent_ranks) or "another process of the run"
            )
            event = (
                f"has not answered for {self.timeout:.0f} s (training.timeout)" if timed_out else "was lost"
            )
            if self._store.add("told", 1) > 1:
                return FailedElsewhereError(f"{lost_ranks} {event}")
        except RuntimeError:
            return self._store_lost_error()
        return RankLostError(
            f"{lost_ranks} {event}; torchrun restarts all processes if --max-restarts allows it; otherwise "
            "rerun the same command to resume from the newest checkpoint"
        )

    def describe(self, rank: int) -> str:
        """Return a text with a rank, its process and its host: ``rank 1 (process 123 on host a)``."""
        if not self._store.check([f"who/{rank}"]):
            return f"rank {rank}, which never joined,"
        return f"rank {rank} ({self._store.get(f'who/{rank}').decode()})"

    def close(self) -> None:
        """Stop the heartbeats."""
        self._stop.set()
        self._heartbeat_thread.join()

    def disconnect(self) -> None:
        """Disconnect from the store; rank 0, which may host it, waits until the other ranks have left."""
        with contextlib.suppress(RuntimeError):
            self._store.add("left", 1)
            deadline = time.monotonic() + 10.0
            while not self.rank and self._store.add("left", 0) < self.world and time.monotonic() < deadline:
                time.sleep(_POLL_SECONDS[0])

    def _read(self, key: str, rank: int) -> str:
        pause, last_check = _POLL_SECONDS[0], time.monotonic()
        while not self._store.check([key]):
            time.sleep(pause)
            pause = min(2 * pause, _POLL_SECONDS[1])
            if time.monotonic() - last_check >= HEARTBEAT_SECONDS:
                last_check = time.monotonic()
                self._check_alive(rank)
        return self._store.get(key).decode()

    def _check_alive(self, rank: int) -> None:
        if self._store.check(["failed"]):
            raise FailedElsewhereError(f"rank {self._store.get('failed').decode()} has failed")
        current_time, heartbeat = time.monotonic(), self._heartbeat_count(rank)
        last_heartbeat = self._heartbeats.get(rank)
        if last_heartbeat is None or last_heartbeat[0] != heartbeat:
            self._heartbeats[rank] = (heartbeat, current_time)
        elif current_time - last_heartbeat[1] > (SILENCE_SECONDS if self.is_stopping() else self.timeout):
            raise RankLostError(
                f"{self.describe(rank)} has not responded for {current_time - last_heartbeat[1]:.0f} s "
                f"(training.timeout: {self.timeout:.0f}); rerun the same command to resume from the newest "
                "checkpoint"
            )

    def _heartbeat_count(self, rank: int) -> int:
        return self._store.add(f"alive/{rank}", 0)

    def _send_heartbeats(self) -> None:
        with contextlib.suppress(RuntimeError):
            while not self._stop.wait(HEARTBEAT_SECONDS):
                self._store.add(f"alive/{self.rank}", 1)

    @contextlib.contextmanager
    def _store_errors(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError:
            raise self._store_lost_error() from None

    def _store_lost_error(self) -> RankLostError:
        return RankLostError(
            f"rank {self.rank}: lost the connection to the store of the run's processes: its machine or "
            "torchrun has ended; rerun the same command to resume from the newest checkpoint"
        )

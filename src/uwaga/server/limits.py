"""How much a client may ask for in a minute: a bucket of tokens each, filled all the time."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import math
import mmap
import os
import struct
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from uwaga.server.api_errors import ApiError
from uwaga.server.auth import Client

MOST_CLIENTS = 100_000
"""Buckets that a process keeps; who has not been seen for longest begins with a full one again."""
MINUTE = 60.0
SLOT = struct.Struct("=16sdd")
"""A bucket in a file: the digest of whose it is, what is left, and when that was."""
SLOTS = 16
"""Buckets whose lock is one, among which a client's is looked for."""
GROUPS = 1 << 13


class TokenBucket(NamedTuple):
    """What is left in a bucket, and when that was."""

    left: float
    then: float


class Held:
    """A bucket while nobody else changes it; ``bucket`` is None of a client that is not known."""

    def __init__(self, bucket: TokenBucket | None) -> None:
        self.bucket = bucket


class Buckets(Protocol):
    """Where buckets are kept."""

    def hold(self, client: str, what: str) -> AbstractContextManager[Held]:
        """A client's bucket, to be looked at and changed; it is kept at the end of the block."""
        ...


class OwnBuckets:
    """Buckets of this process alone."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[tuple[str, str], TokenBucket | None] = OrderedDict()

    @contextlib.contextmanager
    def hold(self, client: str, what: str) -> Iterator[Held]:
        """See :class:`Buckets`."""
        held = Held(self._buckets.pop((client, what), None))
        yield held
        self._buckets[client, what] = held.bucket
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)


class SharedBuckets:
    """Buckets in a file, of all processes that have it; one thread of each.

    It takes memory for those that are used. Who has not been seen for longest makes room in a full group. A
    lock goes with the process that dies.

    Args:
        path: the file; made if there is none.
        groups: of :data:`SLOTS` buckets, equal in all processes.
    """

    def __init__(self, path: Path, groups: int = GROUPS) -> None:
        self._groups, size = groups, SLOT.size * SLOTS * groups
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._file, size)
        self._table = mmap.mmap(self._file, size)

    @contextlib.contextmanager
    def hold(self, client: str, what: str) -> Iterator[Held]:
        """See :class:`Buckets`."""
        whose = hashlib.blake2b(f"{what}\0{client}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
        length = SLOT.size * SLOTS
        start = int.from_bytes(whose[:4], "little") % self._groups * length
        fcntl.lockf(self._file, fcntl.LOCK_EX, length, start)
        try:
            group = [
                (SLOT.unpack_from(self._table, at), at) for at in range(start, start + length, SLOT.size)
            ]
            found = next((at for (owner, _, _), at in group if owner == whose), None)
            held = Held(None)
            if found is None:
                found = min(group, key=lambda one: one[0][2])[1]
            else:
                held.bucket = TokenBucket(*SLOT.unpack_from(self._table, found)[1:])
            yield held
            if held.bucket is not None:
                SLOT.pack_into(self._table, found, whose, *held.bucket)
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, length, start)


class RateLimiter:
    """Requests and characters of each client in a minute.

    Args:
        buckets: this process's own if None.
        clock: seconds that never go back, the same in all processes that share buckets.
    """

    def __init__(self, buckets: Buckets | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._buckets, self._clock = buckets or OwnBuckets(), clock

    def take(self, client: Client, characters: int = 0) -> None:
        """Count a request, or characters of one that was counted.

        Args:
            client: whose.
            characters: how many, 0 for the request itself.

        Raises:
            ApiError: it is too many; says when to come again.
        """
        if characters:
            self._draw(client, "characters", characters, client.characters_per_minute)
        else:
            self._draw(client, "requests", 1, client.requests_per_minute)

    def _draw(self, client: Client, what: str, amount: int, most: int) -> None:
        if not most:
            return
        with self._buckets.hold(client.name, what) as held:
            now = self._clock()
            left, then = held.bucket or (float(most), now)
            left = min(most, left + max(0.0, now - then) * most / MINUTE)
            if math.isnan(left):  # its writer was killed in the middle
                left = most
            # A request of more than a minute's characters is let in by a full bucket, left in debt.
            enough = left >= min(amount, most)
            held.bucket = TokenBucket(left - amount if enough else left, now)
        if not enough:
            wait = (min(amount, most) - left) * MINUTE / most
            message = f"more than {most} {what} in a minute; come again in {wait:.0f} s"
            raise ApiError(429, "too_many_requests", message, retry_after=wait)

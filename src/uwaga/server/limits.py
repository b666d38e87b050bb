"""Requests and characters per minute of each client: token buckets, shared by all workers.

The buckets lie in a memory-mapped file: 40,000 changes a second, where SQLite makes 1,000 and stalls for
seconds between processes.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import mmap
import os
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from uwaga.files.handles import BINARY, range_lock
from uwaga.server.api_errors import ApiError
from uwaga.server.auth import Client

MINUTE = 60.0
SLOT = struct.Struct("=16sdd")
"""A bucket: digest of its client, tokens left, and when they were counted."""
SLOTS = 16
"""Buckets of a group, which has one lock and among which a client's bucket is looked for."""
GROUPS = 1 << 13


class RateLimiter:
    """Token buckets that fill all the time, one per client and kind.

    Memory is taken for buckets in use. In a full group, the least recently used bucket makes room. A lock
    ends with the process that holds it.

    Args:
        path: file of the buckets, created if missing, to share them among processes with one thread each;
            None keeps them in this process.
        groups: groups of :data:`SLOTS` buckets; the same in all processes.
        clock: seconds that never go back, the same in all processes.
    """

    def __init__(
        self, path: Path | None = None, groups: int = GROUPS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._groups, self._clock, self._file = groups, clock, -1
        size = SLOT.size * SLOTS * groups
        if path is not None:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
            os.ftruncate(self._file, size)
        self._table = mmap.mmap(self._file, size)

    def take(self, client: Client, characters: int = 0) -> None:
        """Count a request, or characters of a request that was counted.

        Args:
            client: whose.
            characters: how many; 0 for the request itself.
        """
        if characters:
            self._take(client, "characters", characters, client.characters_per_minute)
        else:
            self._take(client, "requests", 1, client.requests_per_minute)

    def _take(self, client: Client, kind: str, amount: int, limit: int) -> None:
        if not limit:
            return
        name = f"{kind}\0{client.name}".encode("utf-8", "surrogatepass")
        owner = hashlib.blake2b(name, digest_size=16).digest()
        with self._slot(owner) as (start, known):
            now = self._clock()
            left, then = SLOT.unpack_from(self._table, start)[1:] if known else (float(limit), now)
            left = min(limit, left + max(0.0, now - then) * limit / MINUTE)
            if math.isnan(left):  # a process was killed while it wrote
                left = limit
            # A request for more than a minute's characters is served by a full bucket, which is then in debt.
            enough = left >= min(amount, limit)
            SLOT.pack_into(self._table, start, owner, left - amount if enough else left, now)
        if not enough:
            wait = (min(amount, limit) - left) * MINUTE / limit
            message = f"more than {limit} {kind} per minute; try again in {wait:.0f} s"
            raise ApiError(429, "too_many_requests", message, retry_after=wait)

    @contextlib.contextmanager
    def _slot(self, owner: bytes) -> Iterator[tuple[int, bool]]:
        """A bucket's place in the table, locked, and whether it is the owner's already."""
        length = SLOT.size * SLOTS
        start = int.from_bytes(owner[:4], "little") % self._groups * length
        with contextlib.nullcontext() if self._file < 0 else range_lock(self._file, start, length):
            places = range(start, start + length, SLOT.size)
            slots = [(SLOT.unpack_from(self._table, place), place) for place in places]
            place = next((place for (name, _, _), place in slots if name == owner), None)
            oldest = min(slots, key=lambda slot: slot[0][2])[1]
            yield (oldest, False) if place is None else (place, True)

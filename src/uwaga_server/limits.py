"""Limits of requests and characters per minute: token buckets of each client, shared by all workers.

The buckets are in a memory-mapped file, which can be updated 40,000 times a second. SQLite manages 1,000
updates and stalls for seconds between processes.
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
from uwaga_server.api_errors import ApiError
from uwaga_server.auth import Client

MINUTE = 60.0
BUCKET = struct.Struct("=16sdd")
"""A bucket: digest of its client, remaining tokens, and time of the last update."""
GROUP_SIZE = 16
"""Buckets of a group, which has one lock; a client's bucket is in the group that its digest selects."""
GROUPS = 1 << 13


class RateLimiter:
    """Token buckets, one per client and kind of limit.

    Memory is allocated for buckets in use only. In a full group, the least recently used bucket is replaced.
    A lock is released when the process that holds it ends.

    Args:
        path: file of the buckets, created if missing, to share them among processes with one thread each;
            None keeps them in this process.
        groups: number of groups of :data:`GROUP_SIZE` buckets; the same in all processes.
        clock: monotonic clock in seconds, the same in all processes.
    """

    def __init__(
        self, path: Path | None = None, groups: int = GROUPS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._groups, self._clock, self._file = groups, clock, -1
        size = BUCKET.size * GROUP_SIZE * groups
        if path is not None:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
            os.ftruncate(self._file, size)
        self._table = mmap.mmap(self._file, size)

    def consume(self, client: Client, characters: int = 0) -> None:
        """Count a request, or the characters of a request that has been counted.

        Args:
            client: the client of the request.
            characters: the number of characters; 0 to count the request itself.
        """
        if characters:
            self._consume(client, "characters", characters, client.characters_per_minute)
        else:
            self._consume(client, "requests", 1, client.requests_per_minute)

    def _consume(self, client: Client, kind: str, amount: int, limit: int) -> None:
        if not limit:
            return
        name = f"{kind}\0{client.name}".encode("utf-8", "surrogatepass")
        owner = hashlib.blake2b(name, digest_size=16).digest()
        with self._bucket(owner) as (offset, exists):
            now = self._clock()
            tokens, updated = BUCKET.unpack_from(self._table, offset)[1:] if exists else (float(limit), now)
            tokens = min(limit, tokens + max(0.0, now - updated) * limit / MINUTE)
            if math.isnan(tokens):  # a process was killed while writing
                tokens = limit
            # A request for more than a minute's characters needs a full bucket, whose tokens become negative.
            allowed = tokens >= min(amount, limit)
            BUCKET.pack_into(self._table, offset, owner, tokens - amount if allowed else tokens, now)
        if not allowed:
            wait = (min(amount, limit) - tokens) * MINUTE / limit
            message = f"more than {limit} {kind} per minute; try again in {wait:.0f} s"
            raise ApiError(429, "too_many_requests", message, retry_after=wait)

    @contextlib.contextmanager
    def _bucket(self, owner: bytes) -> Iterator[tuple[int, bool]]:
        """Lock a bucket and return its offset in the table, and whether it already belongs to the owner."""
        length = BUCKET.size * GROUP_SIZE
        start = int.from_bytes(owner[:4], "little") % self._groups * length
        with contextlib.nullcontext() if self._file < 0 else range_lock(self._file, start, length):
            offsets = range(start, start + length, BUCKET.size)
            buckets = [(BUCKET.unpack_from(self._table, offset), offset) for offset in offsets]
            offset = next((offset for (name, _, _), offset in buckets if name == owner), None)
            oldest = min(buckets, key=lambda bucket: bucket[0][2])[1]
            yield (oldest, False) if offset is None else (offset, True)

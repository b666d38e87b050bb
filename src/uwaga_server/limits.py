"""Rate limits on requests and characters per minute, with token buckets that all workers share.

The buckets are stored in a memory-mapped file, which allows 40,000 updates per second. SQLite allows about
1,000 updates per second, and can stall for seconds if several processes write.
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
BUCKET_FORMAT = struct.Struct("=16sdd")
"""Binary format of a bucket: digest of client and kind of limit, remaining tokens, time of last update."""
GROUP_SIZE = 16
"""Number of buckets in a group. The buckets of a group share a lock; a bucket's digest selects its group."""
DEFAULT_GROUPS = 1 << 13
"""Default number of groups."""


class RateLimiter:
    """Rate limiter with a token bucket for each client and kind of limit.

    Memory is used only for buckets in use. In a full group, the least recently used bucket is replaced. A
    lock is released when the process that holds it ends.

    Args:
        path: file in which single-threaded processes share the buckets, created if missing; None to store the
            buckets in this process.
        groups: number of groups of :data:`GROUP_SIZE` buckets; it must be the same in all processes.
        clock: returns the time in seconds of a monotonic clock that all processes share.
    """

    def __init__(
        self,
        path: Path | None = None,
        groups: int = DEFAULT_GROUPS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._groups, self._clock, self._file = groups, clock, -1
        size = BUCKET_FORMAT.size * GROUP_SIZE * groups
        if path is not None:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | BINARY, 0o600)
            os.ftruncate(self._file, size)
        self._buckets = mmap.mmap(self._file, size)

    def consume(self, client: Client, characters: int = 0) -> None:
        """Count a request, or the characters of a request, against the limits of a client.

        Args:
            client: the client of the request.
            characters: the number of characters; 0 to count a request.

        Raises:
            ApiError: the limit is exceeded.
        """
        if characters:
            self._take_tokens(client, "characters", characters, client.characters_per_minute)
        else:
            self._take_tokens(client, "requests", 1, client.requests_per_minute)

    def _take_tokens(self, client: Client, kind: str, amount: int, limit: int) -> None:
        if not limit:
            return
        name = f"{kind}\0{client.name}".encode("utf-8", "surrogatepass")
        bucket_id = hashlib.blake2b(name, digest_size=16).digest()
        with self._bucket(bucket_id) as (offset, exists):
            now = self._clock()
            tokens, update_time = (
                BUCKET_FORMAT.unpack_from(self._buckets, offset)[1:] if exists else (float(limit), now)
            )
            tokens = min(limit, tokens + max(0.0, now - update_time) * limit / MINUTE)
            if math.isnan(tokens):  # a process was killed while it wrote the bucket
                tokens = limit
            # A request that exceeds a whole minute's limit requires a full bucket, and makes it negative.
            is_allowed = tokens >= min(amount, limit)
            BUCKET_FORMAT.pack_into(
                self._buckets, offset, bucket_id, tokens - amount if is_allowed else tokens, now
            )
        if not is_allowed:
            wait = (min(amount, limit) - tokens) * MINUTE / limit
            message = f"more than {limit} {kind} per minute; try again in {wait:.0f} s"
            raise ApiError(429, "too_many_requests", message, retry_after=wait)

    @contextlib.contextmanager
    def _bucket(self, bucket_id: bytes) -> Iterator[tuple[int, bool]]:
        """Lock the group of a bucket, and yield the bucket's offset and whether the bucket exists.

        For a bucket that does not exist, the offset is that of the least recently used bucket in its group.
        """
        length = BUCKET_FORMAT.size * GROUP_SIZE
        start = int.from_bytes(bucket_id[:4], "little") % self._groups * length
        with contextlib.nullcontext() if self._file < 0 else range_lock(self._file, start, length):
            offsets = range(start, start + length, BUCKET_FORMAT.size)
            buckets = [(BUCKET_FORMAT.unpack_from(self._buckets, offset), offset) for offset in offsets]
            offset = next((offset for (name, _, _), offset in buckets if name == bucket_id), None)
            oldest_bucket = min(buckets, key=lambda bucket: bucket[0][2])[1]
            yield (oldest_bucket, False) if offset is None else (offset, True)

"""Storage of the decoder states of a memory's pairs, in a file that can be deleted at any time."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

MAX_BYTES = 256 << 20
"""Maximum size of the stored states in bytes; the oldest states are removed first."""
DIGEST_BYTES = 8
"""Number of bytes of the digest that precedes each value, to detect damage."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS states (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    model TEXT NOT NULL,
    key BLOB NOT NULL,
    value BLOB NOT NULL,
    UNIQUE (model, key)
);
"""


class StateFile:
    """A :class:`uwaga.translator.memories.StateStore` in an SQLite file.

    States that cannot be written are discarded.

    Args:
        path: the file; it is created when states are first saved.
        sample: returns at most the given number of pairs of the memory.
        max_bytes: maximum size of the stored states in bytes.
    """

    def __init__(
        self,
        path: Path,
        sample: Callable[[int], Sequence[tuple[str, str]]],
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self._path, self._sample, self._max_bytes = path, sample, max_bytes
        self._threads = threading.local()

    def sample(self, count: int) -> Sequence[tuple[str, str]]:
        """See :meth:`uwaga.translator.memories.StateStore.sample`."""
        return self._sample(count)

    def load(self, model: str, keys: Iterable[bytes]) -> Mapping[bytes, bytes]:
        """See :meth:`uwaga.translator.memories.StateStore.load`."""
        if not self._path.exists():
            return {}
        values = dict[bytes, bytes]()
        with suppress(sqlite3.Error):
            for key in keys:
                query = "SELECT value FROM states WHERE model = ? AND key = ?"
                row = self._database.execute(query, (model, key)).fetchone()
                if row and row[0][:DIGEST_BYTES] == _digest(row[0][DIGEST_BYTES:]):
                    values[key] = row[0][DIGEST_BYTES:]
        return values

    def save(self, model: str, values: Mapping[bytes, bytes]) -> None:
        """See :meth:`uwaga.translator.memories.StateStore.save`."""
        rows = [(model, key, _digest(value) + value) for key, value in values.items()]
        with suppress(sqlite3.Error), self._database:
            insert_query = "INSERT OR REPLACE INTO states (model, key, value) VALUES (?, ?, ?)"
            self._database.executemany(insert_query, rows)
            self._remove_oldest()

    def _remove_oldest(self) -> None:
        [(size,)] = self._database.execute("SELECT coalesce(sum(length(value)), 0) FROM states")
        rows = self._database.execute("SELECT number, length(value) FROM states ORDER BY number")
        for number, length in rows:
            if size <= self._max_bytes:
                break
            self._database.execute("DELETE FROM states WHERE number = ?", (number,))
            size -= length

    @property
    def _database(self) -> sqlite3.Connection:
        """The connection of this thread."""
        database: sqlite3.Connection | None = getattr(self._threads, "database", None)
        if database is None:
            database = sqlite3.connect(self._path, timeout=5)
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.executescript(SCHEMA)
            self._threads.database = database
        return database


def _digest(value: bytes) -> bytes:
    return hashlib.blake2b(value, digest_size=DIGEST_BYTES).digest()

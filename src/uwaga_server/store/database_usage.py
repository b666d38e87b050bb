"""Usage counts of each owner in the database, shared by all workers."""

from __future__ import annotations

import contextlib
from dataclasses import asdict

import sqlalchemy as sql
from sqlalchemy import exc

from uwaga_server.api_errors import StorageError
from uwaga_server.store.database import MAX_ATTEMPTS, USAGE, owner_key, storage_errors
from uwaga_server.store.usage import Usage, UsageStore

UNLIMITED = 1 << 62
_ADD_USAGE = (  # built once, since building it takes as long as executing it
    USAGE.update()
    .where(USAGE.c.owner == sql.bindparam("key"))
    .where(USAGE.c.characters + sql.bindparam("characters_") <= sql.bindparam("limit_"))
    .values(
        characters=USAGE.c.characters + sql.bindparam("characters_"),
        documents=USAGE.c.documents + sql.bindparam("documents_"),
    )
)


class DatabaseUsage(UsageStore):
    """Store of usage counts in the database.

    The usage of a client with a limit is written to the database at each request. The usage of other clients
    is counted in memory, and :meth:`flush` writes it once a second, so that their requests do not wait for
    the database: SQLite writes about 7,000 counts per second, and can stall for half a second if four
    processes write.

    Args:
        engine: the database.
    """

    def __init__(self, engine: sql.Engine) -> None:
        super().__init__()
        self._engine = engine

    def read(self, owner: str) -> Usage:
        """See :class:`UsageStore`; counts by other workers may be up to a second old."""
        self.flush()
        return self._read(owner)

    def add(self, owner: str, characters: int, documents: int = 0, limit: int = 0) -> None:
        """See :class:`UsageStore`."""
        if limit:
            self._write(owner, characters, documents, limit)
        else:
            super().add(owner, characters, documents)

    def add_blocks(self, limit: int) -> bool:
        """See :class:`UsageStore`."""
        return limit > 0

    def flush(self) -> None:
        """See :class:`UsageStore`."""
        with self._lock:
            counts, self._counts = self._counts, {}
        try:
            while counts:
                owner, usage = next(iter(counts.items()))
                self._write(owner, usage.characters, usage.documents)
                del counts[owner]
        finally:
            for owner, usage in counts.items():
                super().add(owner, usage.characters, usage.documents)

    def _read(self, owner: str) -> Usage:
        query = sql.select(USAGE).where(USAGE.c.owner == owner_key(owner))
        with storage_errors(), self._engine.connect() as connection:
            row = connection.execute(query).first()
        return Usage() if row is None else Usage(row.characters, row.documents, row.since)

    def _write(self, owner: str, characters: int, documents: int, limit: int = 0) -> None:
        maximum = limit if limit and characters > 0 else UNLIMITED
        counts = {
            "key": owner_key(owner),
            "characters_": characters,
            "documents_": documents,
            "limit_": maximum,
        }
        for _ in range(MAX_ATTEMPTS):
            with storage_errors(), self._engine.begin() as connection:
                if connection.execute(_ADD_USAGE, counts).rowcount:
                    return
            usage = self._read(owner)
            new_usage = usage.plus(characters, documents, limit)  # raises an error if the limit is exceeded
            if usage.since:
                continue  # another process has created the row or undone a count
            insert = USAGE.insert().values(owner=owner_key(owner), **asdict(new_usage))
            with (
                storage_errors(),
                contextlib.suppress(exc.IntegrityError),
                self._engine.begin() as transaction,
            ):
                transaction.execute(insert)
                return
        raise StorageError("usage cannot be recorded now: too many concurrent requests")

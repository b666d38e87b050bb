"""Stored glossaries in the database, and a cache of those in use.

A glossary belongs to an owner; requests of others do not reach it.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import sqlalchemy as sql

from uwaga.engine import trim_heap
from uwaga.errors import BusyError
from uwaga.server.api_errors import ApiError, NotStoredError, QuotaError, StorageError
from uwaga.server.store.database import ATTEMPTS, GLOSSARIES, owner_key, storage_errors
from uwaga.server.store.glossary import (
    DAMAGED,
    DictionarySummary,
    GlossarySummary,
    StoredGlossary,
    together,
)
from uwaga.terms import Glossary

NO_GLOSSARY = "no such glossary"
READY_MEMORY = 128 << 20
"""Maximum bytes of memory of the glossaries that a process has ready for translation, as of each alone."""
MOST_LOADING = 32
"""Maximum requests that wait until glossaries are read: half of the server's threads."""

Result = TypeVar("Result")
Change = Callable[[StoredGlossary], StoredGlossary]


@dataclass(frozen=True)
class GlossaryLimits:
    """Limits of stored glossaries.

    Attributes:
        total: maximum glossaries of an owner.
        size: maximum bytes of one as stored.
        per_owner: maximum bytes of an owner's as stored.
    """

    total: int = 1000
    size: int = 10 << 20
    per_owner: int = 1 << 30


NO_LIMITS = GlossaryLimits()


class GlossaryStore:
    """Glossaries of all owners.

    Args:
        engine: the database.
        limits: limits on the stored data.
    """

    def __init__(self, engine: sql.Engine, limits: GlossaryLimits = NO_LIMITS) -> None:
        self._engine, self._limits = engine, limits
        self._loader = ThreadPoolExecutor(1, "glossaries")
        self._places = threading.BoundedSemaphore(MOST_LOADING)

    def load(self, work: Callable[[], Result]) -> Result:
        """Run what needs the entries of a glossary, and return its result.

        It runs in one thread, so that one glossary at a time is in memory, and one heap of the C library,
        which retains tens of MB of each thread, grows.
        """

        def run() -> Result:
            try:
                return work()
            finally:
                trim_heap()

        if not self._places.acquire(blocking=False):
            raise BusyError("too many glossaries are being read; try again in a second")
        try:
            return self._loader.submit(run).result()
        finally:
            self._places.release()

    def add(self, owner: str, glossary: StoredGlossary) -> None:
        """Store a new glossary."""
        row = {"id": _checked_id(glossary.id), "owner": owner_key(owner), **self._columns(glossary)}
        with self._writing() as connection:
            connection.execute(GLOSSARIES.insert(), row)
            self._check_owner(connection, owner)

    def get(self, owner: str, glossary_id: str) -> StoredGlossary:
        """Return one of an owner's glossaries."""
        query = sql.select(GLOSSARIES.c.content).where(_is(owner, glossary_id))
        with storage_errors(), self._engine.connect() as connection:
            content = connection.execute(query).scalar()
        if content is None:
            raise NotStoredError(NO_GLOSSARY)
        return StoredGlossary.from_json(content)

    def summary(self, owner: str, glossary_id: str) -> GlossarySummary:
        """Return one of an owner's glossaries without its entries, which are not read."""
        with storage_errors(), self._engine.connect() as connection:
            row = connection.execute(sql.select(*_SUMMARY).where(_is(owner, glossary_id))).first()
        if row is None:
            raise NotStoredError(NO_GLOSSARY)
        return _summary(row)

    def memory(self, owner: str, glossary_id: str) -> tuple[str, int]:
        """Return a glossary's version and an upper bound of its size in bytes when ready for translation."""
        query = sql.select(GLOSSARIES.c.version, GLOSSARIES.c.memory).where(_is(owner, glossary_id))
        with storage_errors(), self._engine.connect() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise NotStoredError(NO_GLOSSARY)
        return row.version, row.memory

    def all(self, owner: str) -> list[GlossarySummary]:
        """Return an owner's glossaries without their entries, which are not read, the oldest first."""
        query = sql.select(*_SUMMARY).where(GLOSSARIES.c.owner == owner_key(owner))
        with storage_errors(), self._engine.connect() as connection:
            glossaries = [_summary(row) for row in connection.execute(query)]
        return sorted(glossaries, key=lambda glossary: (glossary.created, glossary.id))

    def change(self, owner: str, glossary_id: str, change: Change) -> GlossarySummary:
        """Change a glossary atomically, and return it without its entries.

        Args:
            owner: whose it is.
            glossary_id: the id of the glossary.
            change: returns the glossary as it should be; called again if another change came first.
        """

        def changed() -> GlossarySummary | None:
            old = self.get(owner, glossary_id)
            new = change(old)
            same = sql.and_(_is(owner, glossary_id), GLOSSARIES.c.version == old.version)
            with self._writing() as connection:
                if not connection.execute(GLOSSARIES.update().where(same), self._columns(new)).rowcount:
                    return None
                self._check_owner(connection, owner)
            return new.summary

        for _ in range(ATTEMPTS):
            if (summary := self.load(changed)) is not None:
                return summary
        raise StorageError("too many others change this glossary at the same time; try again")

    def remove(self, owner: str, glossary_id: str) -> None:
        """Delete a glossary."""
        with storage_errors(), self._engine.begin() as connection:
            if not connection.execute(GLOSSARIES.delete().where(_is(owner, glossary_id))).rowcount:
                raise NotStoredError(NO_GLOSSARY)

    @contextmanager
    def _writing(self) -> Iterator[sql.Connection]:
        """Begin a transaction that writes a glossary.

        The glossary must be a parameter: SQLAlchemy keeps the values of statements. The connection is closed
        afterwards: the statements that a connection to SQLite keeps have their parameters.
        """
        with storage_errors(), self._engine.begin() as connection:
            connection.detach()
            yield connection

    def _columns(self, glossary: StoredGlossary) -> dict[str, object]:
        """Return the columns of a glossary that a change changes."""
        content, summary, memory = glossary.as_json(), glossary.summary, glossary.memory
        size = len(content.encode())
        if size > self._limits.size:
            raise QuotaError(f"the glossary is larger than {self._limits.size} bytes; split it")
        if memory > READY_MEMORY:
            raise QuotaError(f"the glossary takes more than {READY_MEMORY >> 20} MiB of memory; split it")
        return {
            "version": summary.version,
            "name": summary.name,
            "created": summary.created.isoformat(),
            "dictionaries": json.dumps([astuple(counted) for counted in summary.dictionaries]),
            "size": size,
            "memory": memory,
            "content": content,
        }

    def _check_owner(self, connection: sql.Connection, owner: str) -> None:
        """Check what an owner has, within the transaction of a change."""
        totals = sql.select(sql.func.count(), sql.func.sum(GLOSSARIES.c.size))
        count, size = connection.execute(totals.where(GLOSSARIES.c.owner == owner_key(owner))).one()
        if count > self._limits.total:
            raise QuotaError(f"you have {self._limits.total} glossaries; delete one first")
        if (size or 0) > self._limits.per_owner:
            message = f"your glossaries would have more than {self._limits.per_owner} bytes together"
            raise QuotaError(f"{message}; delete one first")


@dataclass(frozen=True)
class _Key:
    """Glossaries for one pair of languages, and the bytes of memory that they take at most."""

    versions: tuple[tuple[str, str], ...]
    languages: tuple[str, str]
    memory: int


class GlossaryCache:
    """Glossaries ready for translation; those used recently are not built again.

    Those in use and those kept have :data:`READY_MEMORY` together.

    Args:
        store: the store of glossaries.
    """

    def __init__(self, store: GlossaryStore) -> None:
        self.store = store
        self._kept: OrderedDict[_Key, Glossary] = OrderedDict()
        self._ready: WeakValueDictionary[_Key, Glossary] = WeakValueDictionary()
        self._lock = threading.Lock()

    def terms(self, owner: str, glossary_ids: tuple[str, ...], source: str, target: str) -> Glossary:
        """Return the terms of an owner's glossaries for one pair of languages."""
        versions, memory = [], 0
        for glossary_id in glossary_ids:
            version, size = self.store.memory(owner, glossary_id)
            versions.append((_checked_id(glossary_id), version))
            memory += size
        key = _Key(tuple(versions), (source.lower(), target.lower()), memory)
        if memory > READY_MEMORY:
            message = f"glossaries of {memory >> 20} MiB of memory in one request; use at most"
            raise ApiError(413, "glossaries_too_large", f"{message} {READY_MEMORY >> 20} MiB", "glossary_id")

        def built() -> Glossary:
            terms = self._known(key)  # another request may have built it meanwhile
            if terms is None:
                self._make_room(memory)
                terms = together((self.store.get(owner, id_) for id_ in glossary_ids), source, target)
                self._keep(key, terms)
            return terms

        terms = self._known(key)
        return self.store.load(built) if terms is None else terms

    def _known(self, key: _Key) -> Glossary | None:
        with self._lock:
            terms = self._ready.get(key)
            if key in self._kept:
                self._kept.move_to_end(key)
        return terms

    def _keep(self, key: _Key, terms: Glossary) -> None:
        with self._lock:
            self._ready[key] = self._kept[key] = terms

    def _make_room(self, memory: int) -> None:
        """Forget the glossaries used longest ago, as many as are needed."""
        with self._lock:
            while self._memory() + memory > READY_MEMORY and self._kept:
                self._kept.popitem(last=False)
            if self._memory() + memory > READY_MEMORY:
                raise BusyError("the glossaries in use take all memory for glossaries; try again in a second")

    def _memory(self) -> int:
        return sum(key.memory for key in list(self._ready.keys()))


_SUMMARY = [GLOSSARIES.c[name] for name in ("id", "name", "created", "version", "dictionaries")]


def _summary(row: sql.Row[Any]) -> GlossarySummary:
    """Return a glossary without its entries."""
    try:
        dictionaries = tuple(DictionarySummary(*counts) for counts in json.loads(row.dictionaries))
        created = datetime.fromisoformat(row.created)
        return GlossarySummary(row.id, row.name, created, row.version, dictionaries)
    except (ValueError, TypeError):
        raise StorageError(DAMAGED) from None


def _is(owner: str, glossary_id: str) -> sql.ColumnElement[bool]:
    return sql.and_(GLOSSARIES.c.id == _checked_id(glossary_id), GLOSSARIES.c.owner == owner_key(owner))


def _checked_id(glossary_id: str) -> str:
    """Return an id as it is stored, however it is written."""
    try:
        return str(uuid.UUID(glossary_id))
    except ValueError:
        raise NotStoredError(NO_GLOSSARY) from None

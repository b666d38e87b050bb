"""Stored glossaries in the database, and a cache of those in use.

A glossary belongs to an owner; other owners have no access to it.
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
from uwaga.terms import Glossary
from uwaga_server.api_errors import ApiError, NotStoredError, QuotaError, StorageError
from uwaga_server.store.database import GLOSSARIES, MAX_ATTEMPTS, owner_key, storage_errors
from uwaga_server.store.glossary import (
    DAMAGED_MESSAGE,
    DictionarySummary,
    GlossarySummary,
    StoredGlossary,
    combine_glossaries,
)

NO_GLOSSARY = "no such glossary"
MAX_READY_BYTES = 128 << 20
"""Maximum bytes of memory of all glossaries that a process has ready for translation, and of each one."""
MAX_LOADING = 32
"""Maximum requests that wait for glossaries: half of the server's threads."""

Result = TypeVar("Result")
Change = Callable[[StoredGlossary], StoredGlossary]


@dataclass(frozen=True)
class GlossaryLimits:
    """Limits of stored glossaries.

    Attributes:
        total: maximum number of an owner's glossaries.
        size: maximum stored bytes of a glossary.
        per_owner: maximum stored bytes of an owner's glossaries together.
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
        self._load_slots = threading.BoundedSemaphore(MAX_LOADING)

    def load(self, work: Callable[[], Result]) -> Result:
        """Call a function that reads the entries of a glossary and return its result.

        All calls run in the same thread, so that only one glossary at a time is in memory, and only one heap
        of the C library grows, which retains tens of MB for each thread.
        """

        def run() -> Result:
            try:
                return work()
            finally:
                trim_heap()

        if not self._load_slots.acquire(blocking=False):
            raise BusyError("too many glossaries are being read; try again in a second")
        try:
            return self._loader.submit(run).result()
        finally:
            self._load_slots.release()

    def add(self, owner: str, glossary: StoredGlossary) -> None:
        """Store a new glossary."""
        row = {"id": _normalise_id(glossary.id), "owner": owner_key(owner), **self._columns(glossary)}
        with self._write_transaction() as connection:
            connection.execute(GLOSSARIES.insert(), row)
            self._check_owner(connection, owner)

    def get(self, owner: str, glossary_id: str) -> StoredGlossary:
        """Return one of an owner's glossaries."""
        query = sql.select(GLOSSARIES.c.content).where(_matches(owner, glossary_id))
        with storage_errors(), self._engine.connect() as connection:
            content = connection.execute(query).scalar()
        if content is None:
            raise NotStoredError(NO_GLOSSARY)
        return StoredGlossary.from_json(content)

    def summary(self, owner: str, glossary_id: str) -> GlossarySummary:
        """Return one of an owner's glossaries without reading its entries."""
        with storage_errors(), self._engine.connect() as connection:
            row = connection.execute(sql.select(*_SUMMARY).where(_matches(owner, glossary_id))).first()
        if row is None:
            raise NotStoredError(NO_GLOSSARY)
        return _summary(row)

    def memory(self, owner: str, glossary_id: str) -> tuple[str, int]:
        """Return a glossary's version and an upper bound of its bytes of memory in :class:`GlossaryCache`."""
        query = sql.select(GLOSSARIES.c.version, GLOSSARIES.c.memory).where(_matches(owner, glossary_id))
        with storage_errors(), self._engine.connect() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise NotStoredError(NO_GLOSSARY)
        return row.version, row.memory

    def all(self, owner: str) -> list[GlossarySummary]:
        """Return an owner's glossaries, oldest first, without reading their entries."""
        query = sql.select(*_SUMMARY).where(GLOSSARIES.c.owner == owner_key(owner))
        with storage_errors(), self._engine.connect() as connection:
            glossaries = [_summary(row) for row in connection.execute(query)]
        return sorted(glossaries, key=lambda glossary: (glossary.created, glossary.id))

    def change(self, owner: str, glossary_id: str, change: Change) -> GlossarySummary:
        """Change a glossary atomically and return it without its entries.

        Args:
            owner: the owner of the glossary.
            glossary_id: the id of the glossary.
            change: returns the changed glossary; called again after a conflict with another change.
        """

        def attempt() -> GlossarySummary | None:
            old = self.get(owner, glossary_id)
            new = change(old)
            unchanged = sql.and_(_matches(owner, glossary_id), GLOSSARIES.c.version == old.version)
            with self._write_transaction() as connection:
                if not connection.execute(GLOSSARIES.update().where(unchanged), self._columns(new)).rowcount:
                    return None
                self._check_owner(connection, owner)
            return new.summary

        for _ in range(MAX_ATTEMPTS):
            if (summary := self.load(attempt)) is not None:
                return summary
        raise StorageError("too many concurrent changes of this glossary; try again")

    def remove(self, owner: str, glossary_id: str) -> None:
        """Delete a glossary."""
        with storage_errors(), self._engine.begin() as connection:
            if not connection.execute(GLOSSARIES.delete().where(_matches(owner, glossary_id))).rowcount:
                raise NotStoredError(NO_GLOSSARY)

    @contextmanager
    def _write_transaction(self) -> Iterator[sql.Connection]:
        """Begin a transaction that writes a glossary.

        The glossary must be a parameter, since SQLAlchemy caches statements with their values. The connection
        is closed afterwards, since a connection to SQLite caches statements with their parameters.
        """
        with storage_errors(), self._engine.begin() as connection:
            connection.detach()
            yield connection

    def _columns(self, glossary: StoredGlossary) -> dict[str, object]:
        """Return the columns of a glossary that a change updates."""
        content, summary, memory = glossary.to_json(), glossary.summary, glossary.memory
        size = len(content.encode())
        if size > self._limits.size:
            raise QuotaError(f"the glossary is larger than {self._limits.size} bytes; split it")
        if memory > MAX_READY_BYTES:
            raise QuotaError(f"the glossary takes more than {MAX_READY_BYTES >> 20} MiB of memory; split it")
        return {
            "version": summary.version,
            "name": summary.name,
            "created": summary.created.isoformat(),
            "dictionaries": json.dumps([astuple(dictionary) for dictionary in summary.dictionaries]),
            "size": size,
            "memory": memory,
            "content": content,
        }

    def _check_owner(self, connection: sql.Connection, owner: str) -> None:
        """Check an owner's limits within the transaction of a change."""
        totals = sql.select(sql.func.count(), sql.func.sum(GLOSSARIES.c.size))
        count, size = connection.execute(totals.where(GLOSSARIES.c.owner == owner_key(owner))).one()
        if count > self._limits.total:
            raise QuotaError(f"you have {self._limits.total} glossaries; delete one first")
        if (size or 0) > self._limits.per_owner:
            message = f"your glossaries would have more than {self._limits.per_owner} bytes together"
            raise QuotaError(f"{message}; delete one first")


@dataclass(frozen=True)
class _CacheKey:
    """Glossaries for a language pair, and an upper bound of their bytes of memory."""

    versions: tuple[tuple[str, str], ...]
    languages: tuple[str, str]
    memory: int


class GlossaryCache:
    """Glossaries ready for translation; recently used ones are not built again.

    The cached glossaries and those in use share :data:`MAX_READY_BYTES`.

    Args:
        store: the store of glossaries.
    """

    def __init__(self, store: GlossaryStore) -> None:
        self.store = store
        self._recent: OrderedDict[_CacheKey, Glossary] = OrderedDict()
        self._ready: WeakValueDictionary[_CacheKey, Glossary] = WeakValueDictionary()
        self._lock = threading.Lock()

    def terms(self, owner: str, glossary_ids: tuple[str, ...], source: str, target: str) -> Glossary:
        """Return the terms of an owner's glossaries for a language pair."""
        versions, memory = [], 0
        for glossary_id in glossary_ids:
            version, size = self.store.memory(owner, glossary_id)
            versions.append((_normalise_id(glossary_id), version))
            memory += size
        key = _CacheKey(tuple(versions), (source.lower(), target.lower()), memory)
        if memory > MAX_READY_BYTES:
            message = f"glossaries of {memory >> 20} MiB of memory in one request; use at most"
            raise ApiError(
                413, "glossaries_too_large", f"{message} {MAX_READY_BYTES >> 20} MiB", "glossary_id"
            )

        def build() -> Glossary:
            terms = self._find(key)  # another request may have built it in the meantime
            if terms is None:
                self._make_room(memory)
                terms = combine_glossaries(
                    (self.store.get(owner, id_) for id_ in glossary_ids), source, target
                )
                self._remember(key, terms)
            return terms

        terms = self._find(key)
        return self.store.load(build) if terms is None else terms

    def _find(self, key: _CacheKey) -> Glossary | None:
        with self._lock:
            terms = self._ready.get(key)
            if key in self._recent:
                self._recent.move_to_end(key)
        return terms

    def _remember(self, key: _CacheKey, terms: Glossary) -> None:
        with self._lock:
            self._ready[key] = self._recent[key] = terms

    def _make_room(self, memory: int) -> None:
        """Drop the least recently used glossaries until there is enough memory."""
        with self._lock:
            while self._memory() + memory > MAX_READY_BYTES and self._recent:
                self._recent.popitem(last=False)
            if self._memory() + memory > MAX_READY_BYTES:
                raise BusyError("the glossaries in use need all memory for glossaries; try again in a second")

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
        raise StorageError(DAMAGED_MESSAGE) from None


def _matches(owner: str, glossary_id: str) -> sql.ColumnElement[bool]:
    return sql.and_(GLOSSARIES.c.id == _normalise_id(glossary_id), GLOSSARIES.c.owner == owner_key(owner))


def _normalise_id(glossary_id: str) -> str:
    """Return an id in the form in which it is stored."""
    try:
        return str(uuid.UUID(glossary_id))
    except ValueError:
        raise NotStoredError(NO_GLOSSARY) from None

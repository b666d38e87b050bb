"""Store of glossaries in the database, and cache of the glossaries in use.

A glossary belongs to an owner, and other owners have no access to it.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import sqlalchemy as sql

from uwaga.engine import trim_heap
from uwaga.errors import BusyError
from uwaga.languages.codes import same_language
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
"""Maximum total memory in bytes of the glossaries that are ready for translation in a process."""
MAX_LOAD_REQUESTS = 32
"""Maximum number of requests that wait for glossaries, which is half of the number of threads."""

Result = TypeVar("Result")
Change = Callable[[StoredGlossary], StoredGlossary]


@dataclass(frozen=True)
class GlossaryLimits:
    """Limits on stored glossaries.

    Attributes:
        total: maximum number of glossaries of an owner.
        size: maximum stored size of a glossary in bytes.
        max_bytes: maximum total stored size in bytes of an owner's glossaries.
    """

    total: int = 1000
    size: int = 10 << 20
    max_bytes: int = 1 << 30


NO_LIMITS = GlossaryLimits()


class GlossaryStore:
    """Store of the glossaries of all owners.

    Args:
        engine: the database.
        limits: limits on stored glossaries.
    """

    def __init__(self, engine: sql.Engine, limits: GlossaryLimits = NO_LIMITS) -> None:
        self._engine, self._limits = engine, limits
        self._load_executor = ThreadPoolExecutor(1, "glossaries")
        self._load_slots = threading.BoundedSemaphore(MAX_LOAD_REQUESTS)

    def load(self, load: Callable[[], Result]) -> Result:
        """Call a function that reads the entries of a glossary, and return its result.

        All calls run in the same thread, so that only one glossary is read at a time, and only this thread's
        heap in the C library grows; each heap can retain tens of MB.
        """

        def run() -> Result:
            try:
                return load()
            finally:
                trim_heap()

        if not self._load_slots.acquire(blocking=False):
            raise BusyError("too many glossaries are being read; try again in a second")
        try:
            return self._load_executor.submit(run).result()
        finally:
            self._load_slots.release()

    def add(self, owner: str, glossary: StoredGlossary) -> None:
        """Store a new glossary."""
        row = {"id": _normalise_id(glossary.id), "owner": owner_key(owner), **self._columns(glossary)}
        with self._write_transaction() as connection:
            connection.execute(GLOSSARIES.insert(), row)
            self._check_owner(connection, owner)

    def get(self, owner: str, glossary_id: str) -> StoredGlossary:
        """Return a glossary of an owner, with its entries."""
        query = sql.select(GLOSSARIES.c.content).where(_id_condition(owner, glossary_id))
        with storage_errors(), self._engine.connect() as connection:
            content = connection.execute(query).scalar()
        if content is None:
            raise NotStoredError(NO_GLOSSARY)
        return StoredGlossary.from_json(content)

    def summary(self, owner: str, glossary_id: str) -> GlossarySummary:
        """Return the summary of an owner's glossary, without reading the entries."""
        with storage_errors(), self._engine.connect() as connection:
            row = connection.execute(
                sql.select(*SUMMARY_COLUMNS).where(_id_condition(owner, glossary_id))
            ).first()
        if row is None:
            raise NotStoredError(NO_GLOSSARY)
        return _row_summary(row)

    def have_terms(self, owner: str, glossary_ids: Iterable[str], source: str, target: str) -> bool:
        """Return whether one of an owner's glossaries has a dictionary for a language pair."""
        return any(
            same_language(dictionary.source, source) and same_language(dictionary.target, target)
            for glossary_id in glossary_ids
            for dictionary in self.summary(owner, glossary_id).dictionaries
        )

    def memory(self, owner: str, glossary_id: str) -> tuple[str, int]:
        """Return the version of a glossary, and an upper bound on its memory use in the cache in bytes."""
        query = sql.select(GLOSSARIES.c.version, GLOSSARIES.c.memory).where(_id_condition(owner, glossary_id))
        with storage_errors(), self._engine.connect() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise NotStoredError(NO_GLOSSARY)
        return row.version, row.memory

    def all(self, owner: str) -> list[GlossarySummary]:
        """Return the summaries of an owner's glossaries, oldest first, without reading the entries."""
        query = sql.select(*SUMMARY_COLUMNS).where(GLOSSARIES.c.owner == owner_key(owner))
        with storage_errors(), self._engine.connect() as connection:
            glossaries = [_row_summary(row) for row in connection.execute(query)]
        return sorted(glossaries, key=lambda glossary: (glossary.created, glossary.id))

    def change(self, owner: str, glossary_id: str, change: Change) -> GlossarySummary:
        """Change a glossary atomically, and return the summary of the changed glossary.

        Args:
            owner: the owner of the glossary.
            glossary_id: the id of the glossary.
            change: takes the current glossary and returns the changed one; called again after a conflict with
                another change.
        """

        def attempt() -> GlossarySummary | None:
            old_glossary = self.get(owner, glossary_id)
            new_glossary = change(old_glossary)
            is_unchanged = sql.and_(
                _id_condition(owner, glossary_id), GLOSSARIES.c.version == old_glossary.version
            )
            with self._write_transaction() as connection:
                if not connection.execute(
                    GLOSSARIES.update().where(is_unchanged), self._columns(new_glossary)
                ).rowcount:
                    return None
                self._check_owner(connection, owner)
            return new_glossary.summary

        for _ in range(MAX_ATTEMPTS):
            if (summary := self.load(attempt)) is not None:
                return summary
        raise StorageError("too many concurrent changes to this glossary; try again")

    def remove(self, owner: str, glossary_id: str) -> None:
        """Delete a glossary."""
        with storage_errors(), self._engine.begin() as connection:
            if not connection.execute(GLOSSARIES.delete().where(_id_condition(owner, glossary_id))).rowcount:
                raise NotStoredError(NO_GLOSSARY)

    @contextmanager
    def _write_transaction(self) -> Iterator[sql.Connection]:
        """Begin a transaction that writes a glossary, and yield its connection.

        The glossary must be passed as a parameter of the statement, since SQLAlchemy caches statements with
        their values. The connection is closed afterwards, since SQLite connections cache statements with
        their parameters.
        """
        with storage_errors(), self._engine.begin() as connection:
            connection.detach()
            yield connection

    def _columns(self, glossary: StoredGlossary) -> dict[str, object]:
        """Return the values of the columns that are written when a glossary is added or changed."""
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
        """Raise a QuotaError if an owner's glossaries exceed the limits; called within a transaction."""
        totals = sql.select(sql.func.count(), sql.func.sum(GLOSSARIES.c.size))
        count, size = connection.execute(totals.where(GLOSSARIES.c.owner == owner_key(owner))).one()
        if count > self._limits.total:
            raise QuotaError(f"you already have {self._limits.total} glossaries; delete one first")
        if (size or 0) > self._limits.max_bytes:
            message = f"your glossaries would have more than {self._limits.max_bytes} bytes together"
            raise QuotaError(f"{message}; delete one first")


@dataclass(frozen=True)
class _CacheKey:
    """Key of a cache entry: ids and versions of glossaries, languages, and maximum memory in bytes."""

    versions: tuple[tuple[str, str], ...]
    languages: tuple[str, str]
    memory: int


class GlossaryCache:
    """Cache of glossaries that are ready for translation.

    The cached glossaries and those in use take at most :data:`MAX_READY_BYTES` together.

    Args:
        store: the store of glossaries.
    """

    def __init__(self, store: GlossaryStore) -> None:
        self.store = store
        self._recently_used: OrderedDict[_CacheKey, Glossary] = OrderedDict()
        self._ready_glossaries: WeakValueDictionary[_CacheKey, Glossary] = WeakValueDictionary()
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
            message = f"the glossaries of this request take {memory >> 20} MiB of memory; use at most"
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
            terms = self._ready_glossaries.get(key)
            if key in self._recently_used:
                self._recently_used.move_to_end(key)
        return terms

    def _remember(self, key: _CacheKey, terms: Glossary) -> None:
        with self._lock:
            self._ready_glossaries[key] = self._recently_used[key] = terms

    def _make_room(self, memory: int) -> None:
        """Remove the least recently used glossaries from the cache until there is enough memory.

        Raises:
            BusyError: the glossaries in use take too much memory.
        """
        with self._lock:
            while self._used_memory() + memory > MAX_READY_BYTES and self._recently_used:
                self._recently_used.popitem(last=False)
            if self._used_memory() + memory > MAX_READY_BYTES:
                raise BusyError("the memory for glossaries is full; try again in a second")

    def _used_memory(self) -> int:
        return sum(key.memory for key in list(self._ready_glossaries.keys()))


SUMMARY_COLUMNS = [GLOSSARIES.c[name] for name in ("id", "name", "created", "version", "dictionaries")]


def _row_summary(row: sql.Row[Any]) -> GlossarySummary:
    """Return the summary of a glossary from a row of the table."""
    try:
        dictionaries = tuple(DictionarySummary(*counts) for counts in json.loads(row.dictionaries))
        creation_time = datetime.fromisoformat(row.created)
        return GlossarySummary(row.id, row.name, creation_time, row.version, dictionaries)
    except (ValueError, TypeError):
        raise StorageError(DAMAGED_MESSAGE) from None


def _id_condition(owner: str, glossary_id: str) -> sql.ColumnElement[bool]:
    return sql.and_(GLOSSARIES.c.id == _normalise_id(glossary_id), GLOSSARIES.c.owner == owner_key(owner))


def _normalise_id(glossary_id: str) -> str:
    """Return the id of a glossary in the form in which it is stored."""
    try:
        return str(uuid.UUID(glossary_id))
    except ValueError:
        raise NotStoredError(NO_GLOSSARY) from None

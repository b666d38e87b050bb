"""Stored glossaries in the database, and a cache of those in use.

A glossary belongs to an owner; requests of others do not reach it.
"""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sql

from uwaga.server.api_errors import NotStoredError, QuotaError, StorageError
from uwaga.server.store.database import ATTEMPTS, GLOSSARIES, owner_key, storage_errors
from uwaga.server.store.glossary import StoredGlossary, together
from uwaga.terms import Glossary

NO_GLOSSARY = "no such glossary"
CACHED = 64
"""Glossaries ready for translation that a process keeps."""

Change = Callable[[StoredGlossary], StoredGlossary]


@dataclass(frozen=True)
class GlossaryLimits:
    """``total``: maximum glossaries of an owner; ``size``: maximum bytes of one as stored."""

    total: int = 1000
    size: int = 10 << 20


NO_LIMITS = GlossaryLimits()


class GlossaryStore:
    """Glossaries of all owners.

    Args:
        engine: the database.
        limits: limits on the stored data.
    """

    def __init__(self, engine: sql.Engine, limits: GlossaryLimits = NO_LIMITS) -> None:
        self._engine, self._limits = engine, limits

    def add(self, owner: str, glossary: StoredGlossary) -> None:
        """Store a new glossary.

        Raises:
            QuotaError: the owner has too many, or it is too large; nothing has changed.
            StorageError: the database is unavailable; nothing has changed.
        """
        key = owner_key(owner)
        row = {"id": _checked_id(glossary.id), "owner": key, "version": glossary.version}
        insert = GLOSSARIES.insert().values(content=self._content(glossary), **row)
        count = sql.select(sql.func.count()).select_from(GLOSSARIES).where(GLOSSARIES.c.owner == key)
        with storage_errors(), self._engine.begin() as connection:
            connection.execute(insert)
            if (connection.execute(count).scalar() or 0) > self._limits.total:
                raise QuotaError(f"you have {self._limits.total} glossaries; delete one first")

    def get(self, owner: str, glossary_id: str) -> StoredGlossary:
        """Return one of an owner's glossaries.

        Raises:
            NotStoredError: the owner has no such glossary.
            StorageError: it is damaged, or the database is unavailable.
        """
        query = sql.select(GLOSSARIES.c.content).where(_is(owner, glossary_id))
        with storage_errors(), self._engine.connect() as connection:
            content = connection.execute(query).scalar()
        if content is None:
            raise NotStoredError(NO_GLOSSARY)
        return StoredGlossary.from_json(content)

    def version(self, owner: str, glossary_id: str) -> str:
        """Return the version of a glossary, which differs after each change.

        Raises:
            NotStoredError, StorageError: as :meth:`get`.
        """
        query = sql.select(GLOSSARIES.c.version).where(_is(owner, glossary_id))
        with storage_errors(), self._engine.connect() as connection:
            version = connection.execute(query).scalar()
        if version is None:
            raise NotStoredError(NO_GLOSSARY)
        return str(version)

    def all(self, owner: str) -> list[StoredGlossary]:
        """Return an owner's glossaries, the oldest first.

        Raises:
            StorageError: one is damaged, or the database is unavailable.
        """
        query = sql.select(GLOSSARIES.c.content).where(GLOSSARIES.c.owner == owner_key(owner))
        with storage_errors(), self._engine.connect() as connection:
            glossaries = [StoredGlossary.from_json(row.content) for row in connection.execute(query)]
        return sorted(glossaries, key=lambda glossary: (glossary.created, glossary.id))

    def change(self, owner: str, glossary_id: str, change: Change) -> StoredGlossary:
        """Change a glossary atomically, and return it.

        Args:
            owner: whose it is.
            glossary_id: the id of the glossary.
            change: returns the glossary as it should be; called again if another change came first.

        Raises:
            NotStoredError, QuotaError, StorageError: as :meth:`get` and :meth:`add`; nothing has changed.
        """
        for _ in range(ATTEMPTS):
            old = self.get(owner, glossary_id)
            new = change(old)
            same = sql.and_(_is(owner, glossary_id), GLOSSARIES.c.version == old.version)
            update = GLOSSARIES.update().where(same).values(version=new.version, content=self._content(new))
            with storage_errors(), self._engine.begin() as connection:
                changed = connection.execute(update).rowcount
            if changed:
                return new
        raise StorageError("too many others change this glossary at the same time; try again")

    def remove(self, owner: str, glossary_id: str) -> None:
        """Delete a glossary.

        Raises:
            NotStoredError, StorageError: as :meth:`get`.
        """
        with storage_errors(), self._engine.begin() as connection:
            if not connection.execute(GLOSSARIES.delete().where(_is(owner, glossary_id))).rowcount:
                raise NotStoredError(NO_GLOSSARY)

    def _content(self, glossary: StoredGlossary) -> str:
        content = glossary.as_json()
        if len(content.encode()) > self._limits.size:
            raise QuotaError(f"the glossary is larger than {self._limits.size} bytes; split it")
        return content


class GlossaryCache:
    """Glossaries ready for translation; those used recently are not built again.

    Args:
        store: the store of glossaries.
    """

    def __init__(self, store: GlossaryStore) -> None:
        self.store = store
        self._ready: OrderedDict[tuple[tuple[str, str], ...], Glossary] = OrderedDict()
        self._lock = threading.Lock()

    def terms(self, owner: str, glossary_ids: tuple[str, ...], source: str, target: str) -> Glossary:
        """Return the terms of an owner's glossaries for one pair of languages.

        Raises:
            NotStoredError: there is no such glossary, or it has no dictionary for these languages.
            DataError: their terms contradict each other.
            StorageError: one is damaged, or the database is unavailable.
        """
        versions = [(_checked_id(id_), self.store.version(owner, id_)) for id_ in glossary_ids]
        key = (*versions, (source.lower(), target.lower()))
        with self._lock:
            if key in self._ready:
                self._ready.move_to_end(key)
                return self._ready[key]
        terms = together([self.store.get(owner, id_) for id_ in glossary_ids], source, target)
        with self._lock:
            self._ready[key] = terms
            while len(self._ready) > CACHED:
                self._ready.popitem(last=False)
        return terms


def _is(owner: str, glossary_id: str) -> sql.ColumnElement[bool]:
    return sql.and_(GLOSSARIES.c.id == _checked_id(glossary_id), GLOSSARIES.c.owner == owner_key(owner))


def _checked_id(glossary_id: str) -> str:
    """Return an id as it is stored, however it is written.

    Raises:
        NotStoredError: it is not a UUID.
    """
    try:
        return str(uuid.UUID(glossary_id))
    except ValueError:
        raise NotStoredError(NO_GLOSSARY) from None

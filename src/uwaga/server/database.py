"""Glossaries and counts of usage in a database, by SQLAlchemy's core: what several machines share."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from uwaga.errors import MissingExtraError, SettingsError
from uwaga.server.api_errors import NotStoredError, QuotaError, StorageError
from uwaga.server.glossary_store import (
    NO_GLOSSARY,
    NO_LIMITS,
    Change,
    GlossaryLimits,
    Remembered,
    checked_id,
    owner_name,
    stored_text,
)
from uwaga.server.stored_glossary import StoredGlossary
from uwaga.server.usage import Usage

try:
    import sqlalchemy as sql
    from sqlalchemy import exc
except ImportError as error:
    raise MissingExtraError(
        "glossaries behind an SQL URL need SQLAlchemy: pip install 'uwaga[serve]'"
    ) from error

ATTEMPTS = 50
"""How often a change is tried anew that another came before."""
LONGEST = 16 << 20
"""Characters of a stored glossary, of databases that have text of several sizes."""

METADATA = sql.MetaData()
TABLE = sql.Table(
    "uwaga_glossaries",
    METADATA,
    sql.Column("id", sql.String(36), primary_key=True),
    sql.Column("owner", sql.String(64), nullable=False, index=True),
    sql.Column("version", sql.String(32), nullable=False),
    sql.Column("content", sql.Text(LONGEST), nullable=False),
)

USED = sql.Table(
    "uwaga_usage",
    METADATA,
    sql.Column("owner", sql.String(64), primary_key=True),
    sql.Column("characters", sql.BigInteger, nullable=False),
    sql.Column("documents", sql.BigInteger, nullable=False),
    sql.Column("since", sql.BigInteger, nullable=False),
)


class DatabaseGlossaries:
    """A table with a row of each glossary, made if there is none."""

    def __init__(self, url: str, limits: GlossaryLimits = NO_LIMITS) -> None:
        self._limits = limits
        self._remembered = Remembered()
        self._engine = _engine(url)
        _make_tables(self._engine)

    def add(self, owner: str, glossary: StoredGlossary) -> None:
        """As :class:`uwaga.server.glossary_store.GlossaryStore` has it."""
        content = stored_text(glossary, self._limits).decode()
        counted = sql.select(sql.func.count()).where(TABLE.c.owner == owner_name(owner))
        row = {
            "id": checked_id(glossary.id),
            "owner": owner_name(owner),
            "version": glossary.version,
            "content": content,
        }
        with _told(), self._engine.begin() as connection:
            if (connection.execute(counted.select_from(TABLE)).scalar() or 0) >= self._limits.most:
                raise QuotaError(f"there are {self._limits.most} glossaries; delete one first")
            connection.execute(TABLE.insert().values(**row))

    def get(self, owner: str, glossary_id: str) -> StoredGlossary:
        """As :class:`uwaga.server.glossary_store.GlossaryStore` has it."""
        glossary_id = checked_id(glossary_id)
        asked = _of(owner, glossary_id)
        with _told(), self._engine.connect() as connection:
            version = connection.execute(sql.select(TABLE.c.version).where(asked)).scalar()
            if version is None:
                raise NotStoredError(NO_GLOSSARY)
            known = self._remembered.get((owner, glossary_id), version)
            if known is not None:
                return known
            row = connection.execute(sql.select(TABLE.c.content).where(asked)).first()
        if row is None:
            raise NotStoredError(NO_GLOSSARY)
        found = StoredGlossary.from_json(row.content)
        self._remembered.put((owner, glossary_id), found.version, found)
        return found

    def all(self, owner: str) -> list[StoredGlossary]:
        """As :class:`uwaga.server.glossary_store.GlossaryStore` has it."""
        asked = sql.select(TABLE.c.content).where(TABLE.c.owner == owner_name(owner))
        with _told(), self._engine.connect() as connection:
            rows = connection.execute(asked).all()
        found = [StoredGlossary.from_json(row.content) for row in rows]
        return sorted(found, key=lambda one: (one.created, one.id))

    def change(self, owner: str, glossary_id: str, change: Change) -> StoredGlossary:
        """As :class:`uwaga.server.glossary_store.GlossaryStore` has it."""
        glossary_id = checked_id(glossary_id)
        for _ in range(ATTEMPTS):
            old = self.get(owner, glossary_id)
            made = change(old)
            content = stored_text(made, self._limits).decode()
            same = sql.and_(_of(owner, glossary_id), TABLE.c.version == old.version)
            with _told(), self._engine.begin() as connection:
                done = connection.execute(
                    TABLE.update().where(same).values(version=made.version, content=content)
                )
            if done.rowcount:
                return made
        raise StorageError("the glossary is changed by too many others; try again")

    def remove(self, owner: str, glossary_id: str) -> None:
        """As :class:`uwaga.server.glossary_store.GlossaryStore` has it."""
        asked = _of(owner, checked_id(glossary_id))
        with _told(), self._engine.begin() as connection:
            if not connection.execute(TABLE.delete().where(asked)).rowcount:
                raise NotStoredError(NO_GLOSSARY)


class DatabaseUsage:
    """A table with a row of each owner, made if there is none."""

    waits = True

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)
        _make_tables(self._engine)

    def read(self, owner: str) -> Usage:
        """As :class:`uwaga.server.usage.UsageStore` has it."""
        asked = sql.select(USED).where(USED.c.owner == owner_name(owner))
        with _told(), self._engine.connect() as connection:
            row = connection.execute(asked).first()
        return Usage() if row is None else Usage(row.characters, row.documents, row.since)

    def take(self, owner: str, characters: int, documents: int = 0, limit: int = 0) -> Usage:
        """As :class:`uwaga.server.usage.UsageStore` has it."""
        name = owner_name(owner)
        for _ in range(ATTEMPTS):
            old = self.read(owner)
            made = old.more(characters, documents, limit)
            counts = {"characters": made.characters, "documents": made.documents, "since": made.since}
            same = sql.and_(
                USED.c.owner == name,
                USED.c.characters == old.characters,
                USED.c.documents == old.documents,
            )
            with _told(), contextlib.suppress(exc.IntegrityError), self._engine.begin() as connection:
                if old.since:
                    done = connection.execute(USED.update().where(same).values(**counts)).rowcount
                else:
                    done = connection.execute(USED.insert().values(owner=name, **counts)).rowcount
                if done:
                    return made
        raise StorageError("usage cannot be counted now: too many others count at the same time")


def _make_tables(engine: sql.Engine) -> None:
    with _told():
        try:
            METADATA.create_all(engine)
        except exc.SQLAlchemyError:  # another process has made one between the look and the making
            METADATA.create_all(engine)


def _of(owner: str, glossary_id: str) -> sql.ColumnElement[bool]:
    return sql.and_(TABLE.c.id == glossary_id, TABLE.c.owner == owner_name(owner))


def _engine(url: str) -> sql.Engine:
    try:
        parsed = sql.make_url(url)
        more: dict[str, Any] = {"connect_args": {"timeout": 30}} if parsed.drivername == "sqlite" else {}
        return sql.create_engine(parsed, pool_pre_ping=True, hide_parameters=True, **more)
    except exc.ArgumentError:
        raise SettingsError(
            "the place of glossaries is no SQL URL; one is DIALECT://USER:PASSWORD@HOST/NAME"
        ) from None
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"the database needs a driver that is not installed: {error.name}") from None


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Say what the database does not do, without its address and without anybody's terms."""
    try:
        yield
    except exc.SQLAlchemyError as error:
        raise StorageError(f"the server's database does not answer: {type(error).__name__}") from None

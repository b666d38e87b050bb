"""Opens what a server keeps: in a folder that its workers share, or behind the URL of an SQL database."""

from __future__ import annotations

from pathlib import Path

from uwaga.server.glossary_store import NO_LIMITS, FolderGlossaries, GlossaryLimits, GlossaryStore
from uwaga.server.usage import FolderUsage, ProcessUsage, UsageStore


def open_glossary_store(where: str | Path, limits: GlossaryLimits = NO_LIMITS) -> GlossaryStore:
    """The glossaries in a folder, made if there is none, or behind a URL such as ``postgresql://host/name``.

    Raises:
        StorageError: the folder cannot be made, or the database does not answer.
        SettingsError: it is no URL that SQLAlchemy knows.
        MissingExtraError: SQLAlchemy or the database's driver is not installed.
    """
    if is_url(where):
        from uwaga.server.database import DatabaseGlossaries

        return DatabaseGlossaries(str(where), limits)
    return FolderGlossaries(Path(where), limits)


def open_usage(where: str | Path | None) -> UsageStore:
    """The counts of usage beside the glossaries; None: in this process alone.

    Raises:
        StorageError, SettingsError, MissingExtraError: as :func:`open_glossary_store`.
    """
    if where is None:
        return ProcessUsage()
    if is_url(where):
        from uwaga.server.database import DatabaseUsage

        return DatabaseUsage(str(where))
    return FolderUsage(Path(where) / "usage")


def is_url(where: str | Path) -> bool:
    """Whether a place is a database and no folder."""
    return "://" in str(where)

"""Storage for the server's clients: glossaries, usage, documents."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from uwaga_server.api_errors import ApiError
from uwaga_server.settings import ServerSettings
from uwaga_server.store.usage import UsageStore

if TYPE_CHECKING:
    from uwaga_server.store.documents import DocumentStore
    from uwaga_server.store.glossaries import GlossaryCache, GlossaryStore
    from uwaga_server.store.memories import MemoryStore


@dataclass(frozen=True)
class Stores:
    """The stores of a server.

    Attributes:
        usage: the usage of clients; without a database, in the memory of the process.
        glossary_cache: the stored glossaries; None without a database.
        document_store: the stored documents; None without a ``state`` folder.
        memory_store: the translation memories; None without a folder for them.
    """

    usage: UsageStore = field(default_factory=UsageStore)
    glossary_cache: GlossaryCache | None = None
    document_store: DocumentStore | None = None
    memory_store: MemoryStore | None = None

    @property
    def memories(self) -> MemoryStore:
        """Translation memories."""
        if self.memory_store is None:
            raise ApiError(
                501, "not_available", "this server has no translation memories: `memories` is not set"
            )
        return self.memory_store

    @property
    def cache(self) -> GlossaryCache:
        """Glossaries ready for translation."""
        if self.glossary_cache is None:
            raise ApiError(
                501,
                "not_available",
                "this server stores no glossaries: `state` is not set (uwaga serve --state FOLDER)",
            )
        return self.glossary_cache

    @property
    def glossaries(self) -> GlossaryStore:
        """Stored glossaries."""
        return self.cache.store

    @property
    def documents(self) -> DocumentStore:
        """Stored documents."""
        if self.document_store is None:
            raise ApiError(
                501,
                "not_available",
                "this server translates no documents: `state` is not set (uwaga serve --state FOLDER)",
            )
        return self.document_store


def open_stores(settings: ServerSettings) -> Stores:
    """Open the stores that the settings name."""
    memories = None
    if settings.memories is not None:
        from uwaga_server.store.memories import MemoryStore

        memories = MemoryStore(settings.memories)
    if settings.state is None and settings.database is None:
        return Stores(memory_store=memories)
    from uwaga_server.store.database import open_database  # SQLAlchemy: 0.2 s and 10 MiB
    from uwaga_server.store.database_usage import DatabaseUsage
    from uwaga_server.store.documents import DocumentLimits, DocumentStore
    from uwaga_server.store.glossaries import GlossaryCache, GlossaryLimits, GlossaryStore

    engine, limits, documents = open_database(settings.state, settings.database), settings.limits, None
    if settings.state is not None:
        age = limits.document_hours * 3600.0
        stored = DocumentLimits(limits.documents, limits.documents_per_client, age)
        documents = DocumentStore(engine, settings.state / "documents", stored)
    glossaries = GlossaryStore(engine, GlossaryLimits(per_owner=limits.glossary_bytes_per_client))
    return Stores(DatabaseUsage(engine), GlossaryCache(glossaries), documents, memories)

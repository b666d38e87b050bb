"""Storage for the server's clients: glossaries, documents, translation memories and usage."""

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
        usage: the store of clients' usage, which is in memory if there is no database.
        glossary_cache: the cache of stored glossaries; None if there is no database.
        document_store: the store of documents; None if no ``state`` folder is set.
        memory_store: the store of translation memories; None if no ``memories`` folder is set.
    """

    usage: UsageStore = field(default_factory=UsageStore)
    glossary_cache: GlossaryCache | None = None
    document_store: DocumentStore | None = None
    memory_store: MemoryStore | None = None

    @property
    def memories(self) -> MemoryStore:
        """The store of translation memories; an ApiError is raised if there is none."""
        if self.memory_store is None:
            raise ApiError(
                501, "not_available", "this server has no translation memories, since `memories` is not set"
            )
        return self.memory_store

    @property
    def cache(self) -> GlossaryCache:
        """The cache of stored glossaries; an ApiError is raised if there is none."""
        if self.glossary_cache is None:
            raise ApiError(
                501,
                "not_available",
                "this server stores no glossaries, since `state` is not set (uwaga serve --state FOLDER)",
            )
        return self.glossary_cache

    @property
    def glossaries(self) -> GlossaryStore:
        """The store of glossaries; an ApiError is raised if there is none."""
        return self.cache.store

    @property
    def documents(self) -> DocumentStore:
        """The store of documents; an ApiError is raised if there is none."""
        if self.document_store is None:
            raise ApiError(
                501,
                "not_available",
                "this server translates no documents, since `state` is not set (uwaga serve --state FOLDER)",
            )
        return self.document_store


def open_stores(settings: ServerSettings) -> Stores:
    """Open the stores that the settings require."""
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
        document_limits = DocumentLimits(limits.documents, limits.documents_per_client, age)
        documents = DocumentStore(engine, settings.state / "documents", document_limits)
    glossaries = GlossaryStore(engine, GlossaryLimits(max_bytes=limits.glossary_bytes_per_client))
    return Stores(DatabaseUsage(engine), GlossaryCache(glossaries), documents, memories)

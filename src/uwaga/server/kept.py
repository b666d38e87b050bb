"""What a server keeps for its clients: glossaries, counts of usage, documents that are being translated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from uwaga.server.api_errors import ApiError, api_error
from uwaga.server.document_jobs import ClaimedJob, DocumentJobs
from uwaga.server.document_order import DocumentOrder
from uwaga.server.document_worker import Charge, DocumentWorker, Run, document_sample
from uwaga.server.glossary_store import GlossaryCache, GlossaryStore
from uwaga.server.service import Service
from uwaga.server.settings import ServerSettings
from uwaga.server.stores import open_glossary_store, open_usage
from uwaga.server.usage import ProcessUsage, UsageStore

Made = TypeVar("Made")


@dataclass(frozen=True)
class Stores:
    """``glossaries`` and ``documents`` are None where the settings name no place for them."""

    glossaries: GlossaryCache | None = None
    usage: UsageStore = field(default_factory=ProcessUsage)
    documents: DocumentWorker | None = None

    def shelf(self) -> GlossaryCache:
        """The glossaries.

        Raises:
            ApiError: the server keeps none.
        """
        if self.glossaries is None:
            raise ApiError(
                501, "not_available", "this server keeps no glossaries: its settings name no `glossaries`"
            )
        return self.glossaries

    def store(self) -> GlossaryStore:
        """Where glossaries lie.

        Raises:
            ApiError: the server keeps none.
        """
        return self.shelf().store

    def worker(self) -> DocumentWorker:
        """What translates documents.

        Raises:
            ApiError: the server translates none.
        """
        if self.documents is None:
            raise ApiError(
                501, "not_available", "this server translates no documents: its settings name no `documents`"
            )
        return self.documents


def open_stores(settings: ServerSettings, service: Service) -> Stores:
    """Open what the settings name.

    Raises:
        StorageError, SettingsError, MissingExtraError: a place cannot be used.
    """
    usage = open_usage(settings.glossaries)
    shelf = None if settings.glossaries is None else GlossaryCache(open_glossary_store(settings.glossaries))
    worker = None
    if settings.documents is not None:
        jobs = DocumentJobs(settings.documents)
        worker = DocumentWorker(jobs, _run(service, shelf), _charge(usage))
    return Stores(shelf, usage, worker)


async def in_thread(work: Callable[..., Made], *args: object) -> Made:
    """What a function of a store returns, which may wait for a disk or a database.

    Raises:
        ApiError: it fails.
    """
    try:
        return await asyncio.to_thread(work, *args)
    except Exception as error:
        raise api_error(error) from error


def _run(service: Service, shelf: GlossaryCache | None) -> Run:
    async def run(claimed: ClaimedJob) -> None:
        """Translate the document of a job."""
        order = claimed.order
        source = order.source or await _language_of(service, claimed)
        terms = None
        if order.glossaries and shelf is not None:
            terms = await in_thread(shelf.terms, order.owner, order.glossaries, source, order.target)
        await service.run_document(
            claimed.document,
            claimed.output,
            source=source,
            target=order.target,
            format=order.format,
            glossary=terms,
            client=order.owner,
            progress=claimed.progress,
        )

    return run


async def _language_of(service: Service, claimed: ClaimedJob) -> str:
    found = await service.detect(await in_thread(document_sample, claimed))
    if not found:
        raise ApiError(
            400, "unknown_language", "the language of the document cannot be told; name it", "source"
        )
    return found[0].code


def _charge(usage: UsageStore) -> Charge:
    async def charge(order: DocumentOrder, characters: int) -> None:
        """Count a document and its characters."""
        await in_thread(usage.take, order.owner, characters, 1, order.characters)

    return charge

"""Background translation of stored documents, while the process also serves requests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TypeVar

from uwaga.engine import trim_heap
from uwaga.errors import UwagaError
from uwaga.terms import Glossary
from uwaga.translator.request import Request
from uwaga_documents import DocumentOptions, DocumentReport, document_job, job_texts
from uwaga_server.api_errors import ApiError, StorageError, api_error, run_in_thread
from uwaga_server.service import Service
from uwaga_server.store import Stores
from uwaga_server.store.documents import ClaimedDocument, DocumentSpec, DocumentStopped

LOG = logging.getLogger("uwaga_server")
POLL_INTERVAL = 1.0
"""Seconds between two checks for documents that other processes have stored or released."""
RETRYABLE_CODES = frozenset({"busy", "stopping"})
"""Error codes after which the translation of a document is retried."""
MAX_MEMBER_BYTES = 1 << 24
"""Maximum uncompressed size of an archive member in bytes; parsing takes about ten times as much memory."""
SAMPLE_LENGTH = 4000
"""Number of characters at the beginning of a document from which its language is detected."""
Result = TypeVar("Result")


class DocumentWorker:
    """Background worker that claims stored documents and translates them.

    Args:
        stores: the stores of the server, including a store of documents.
        service: the translation service.
        tasks: number of documents that are translated concurrently.
    """

    def __init__(self, stores: Stores, service: Service, tasks: int = 1) -> None:
        self._stores, self._service, self._task_count = stores, service, tasks
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._current: set[ClaimedDocument] = set()
        self._stopped = False

    def start(self) -> None:
        """Start the worker's tasks in the running event loop."""
        self._tasks = [asyncio.create_task(self._work()) for _ in range(self._task_count)]

    def wake(self) -> None:
        """Make the worker check for documents immediately."""
        self._wake.set()

    async def stop(self) -> None:
        """Stop after the current segments are translated, and release the documents to other processes."""
        self._stopped = True
        for document in self._current:
            document.stopping = True
        self._wake.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _work(self) -> None:
        while not self._stopped:
            try:
                document = await run_in_thread(self._stores.documents.claim_next)
            except ApiError as error:
                LOG.error("documents", extra={"reason": error.message}, exc_info=_unexpected_cause(error))
                document = None
            if document is not None:
                self._current.add(document)
                await self._process_or_fail(document)
                self._current.discard(document)
                await asyncio.to_thread(trim_heap)  # a long document leaves a large amount of unused memory
                continue
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), POLL_INTERVAL)

    async def _process_or_fail(self, document: ClaimedDocument) -> None:
        """Process a document, and mark it as failed if an exception is raised."""
        try:
            await self._process(document)
        except Exception as error:
            problem = api_error(error)
            LOG.error("document failed", extra={"document": document.id}, exc_info=error)
            with contextlib.suppress(ApiError):
                await run_in_thread(document.fail, problem.message, problem.code)

    async def _process(self, document: ClaimedDocument) -> None:
        """Translate a document and record the result, or release the document for a later retry."""
        document.stopping = self._stopped
        log_fields: dict[str, object] = {"document": document.id, "format": document.spec.format}
        try:
            if document.characters is None:
                await self._charge(document)
            report = await self._translate_or_restart(document)
        except asyncio.CancelledError:
            await run_in_thread(document.release)
            raise
        except Exception as error:
            if _is_caused_by_stop(error):
                await run_in_thread(document.release)
                return
            problem = api_error(_disk_error(error) or error)
            if problem.code in RETRYABLE_CODES:
                await run_in_thread(document.release)
                await asyncio.sleep(POLL_INTERVAL)
                return
            message = problem.message.replace(str(document.document), document.spec.name)
            message = message.replace(str(document.output), document.spec.name)
            await run_in_thread(document.fail, message, problem.code)
            if problem.status == 500:
                LOG.error("document failed", extra=log_fields, exc_info=error)
            else:
                LOG.info("document refused", extra={**log_fields, "code": problem.code})
        else:
            await run_in_thread(document.finish, report.untranslated)
            LOG.info("document done", extra=log_fields)

    async def _charge(self, document: ClaimedDocument) -> None:
        """Charge the owner of a document for the document and its characters."""
        characters, spec = await run_in_thread(lambda: sum(map(len, _claimed_texts(document)))), document.spec
        await run_in_thread(document.count, characters)
        await run_in_thread(self._stores.usage.add, spec.owner, characters, 1, spec.characters)

    async def _translate_or_restart(self, document: ClaimedDocument) -> DocumentReport:
        """Translate a document, resuming the translation of an earlier worker if it left a journal.

        If a resumed translation fails, for example because the journal does not match, it starts again.
        """
        is_resumed = document.is_resumed
        try:
            return await self._translate(document)
        except Exception as error:
            if not is_resumed or _is_caused_by_stop(error) or api_error(error).status >= 500:
                raise
            await run_in_thread(document.restart)
            return await self._translate(document)

    async def _translate(self, document: ClaimedDocument) -> DocumentReport:
        spec = document.spec
        source = spec.source or await self._detect(document)
        request = Request("", glossary=await run_in_thread(self._terms, spec, source))
        if spec.memory_id:
            memories = self._stores.memories
            languages = spec.owner, spec.memory_id, spec.target, source
            memory = await run_in_thread(memories.for_languages, *languages)
            request = replace(request, memory=memory, threshold=spec.memory_threshold)
        return await self._service.run_document(
            document.document,
            document.output,
            _document_options(replace(spec, source=source)),
            request=request,
            client=spec.owner,
            progress=document.progress,
        )

    def _terms(self, spec: DocumentSpec, source: str) -> Glossary | None:
        """Return the terms of a document's glossaries; None if they have none for a detected language."""
        languages = spec.owner, spec.glossaries, source, spec.target
        if not spec.glossaries or not (spec.source or self._stores.glossaries.have_terms(*languages)):
            return None
        return self._stores.cache.terms(*languages)

    async def _detect(self, document: ClaimedDocument) -> str:
        detected_language = await self._service.detect(
            await run_in_thread(lambda: detection_sample(_claimed_texts(document)))
        )
        if not detected_language:
            message = "the language of the document cannot be detected; state the source language"
            raise ApiError(400, "unknown_language", message, "source")
        return detected_language[0].code


def detection_sample(document: Iterable[str]) -> str:
    """Return the beginning of a document's text, for language detection."""
    texts: list[str] = []
    size = 0
    for text in document:
        texts.append(text)
        size += len(text)
        if size >= SAMPLE_LENGTH:
            break
    return "\n".join(texts)[:SAMPLE_LENGTH]


def count_characters(spec: DocumentSpec, content: IO[bytes]) -> int:
    """Return the number of characters in an uploaded document.

    The number is 0 if the document cannot be read; the worker reports this error later.
    """
    return _read_upload(content, _document_options(spec), lambda texts: sum(map(len, texts))) or 0


def upload_sample(document_format: str, content: IO[bytes]) -> str:
    """Return the beginning of an uploaded document's text, for language detection.

    The text is empty if the document cannot be read; the worker reports this error later.
    """
    options = DocumentOptions(format=document_format, max_member_bytes=MAX_MEMBER_BYTES)
    return _read_upload(content, options, detection_sample) or ""


def _read_upload(
    content: IO[bytes], options: DocumentOptions, read: Callable[[Iterator[str]], Result]
) -> Result | None:
    """Return what ``read`` returns for the texts of an uploaded document; None if it cannot be read."""
    with TemporaryDirectory() as folder:
        document = Path(folder) / "document"
        with document.open("xb") as file:
            shutil.copyfileobj(content, file, 1 << 20)
        content.seek(0)
        try:
            return read(job_texts(document_job(document, Path(folder) / "output", options)))
        except UwagaError:
            return None


def _claimed_texts(document: ClaimedDocument) -> Iterator[str]:
    return job_texts(document_job(document.document, document.output, _document_options(document.spec)))


def _document_options(spec: DocumentSpec) -> DocumentOptions:
    return DocumentOptions(
        source=spec.source, target=spec.target, format=spec.format, max_member_bytes=MAX_MEMBER_BYTES
    )


def _exception_chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, followed by the chain of its causes and contexts."""
    visited_errors: set[int] = set()
    while error is not None and id(error) not in visited_errors:
        visited_errors.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _unexpected_cause(error: ApiError) -> BaseException | None:
    """Return the cause of an error with status 500, for the log; None for other errors."""
    return error.__cause__ if error.status == 500 else None


def _is_caused_by_stop(error: BaseException) -> bool:
    return any(isinstance(cause, DocumentStopped) for cause in _exception_chain(error))


def _disk_error(error: BaseException) -> StorageError | None:
    """Return a StorageError if an OSError is among the causes of an exception; otherwise None."""
    if any(isinstance(cause, OSError) for cause in _exception_chain(error)):
        return StorageError("the server cannot store the translation: its disk is full or read-only")
    return None

"""Storage of uploaded documents and download of translated documents, for all dialects."""

from __future__ import annotations

import asyncio
import math
import os
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO
from urllib.parse import quote

from starlette.background import BackgroundTask
from starlette.responses import Response, StreamingResponse

from uwaga.errors import SettingsError
from uwaga.translator.memories import DEFAULT_THRESHOLD
from uwaga_documents import DOCUMENT_FORMATS, find_format
from uwaga_server.api_errors import ApiError, NotStoredError, run_in_thread
from uwaga_server.auth import Client
from uwaga_server.context import ServerContext
from uwaga_server.dialects.memories import request_memory
from uwaga_server.document_worker import count_characters, upload_sample
from uwaga_server.service import DetectedLanguage
from uwaga_server.store.documents import (
    ENDED_STATES,
    NO_DOCUMENT,
    DocumentSpec,
    DocumentStatus,
    DocumentStore,
    display_name,
    key_hash,
)

BLOCK_BYTES = 1 << 16
MIN_PAUSE, MAX_PAUSE = 0.05, 1.0
"""Minimum and maximum seconds between two checks of a document's state."""


@dataclass(frozen=True)
class Upload:
    """An uploaded document and the options for its translation.

    Attributes:
        content: the content of the file.
        name: the file name sent by the client, whose extension determines the format.
        source: source language; None to detect it.
        target: target language.
        glossaries: ids of stored glossaries; those without a detected language do not apply.
        key: the key of this document; None if it is accessed only with the owner's API key.
        linked: whether ``key`` gives access to the document without the owner's API key.
        memory: id of a stored translation memory; empty if none is used.
        threshold: minimum similarity in percent of the memory's pairs to use.
    """

    content: IO[bytes]
    name: str
    source: str | None
    target: str
    glossaries: tuple[str, ...] = ()
    key: str | None = None
    linked: bool = False
    memory: str = ""
    threshold: float = DEFAULT_THRESHOLD


async def store_document(context: ServerContext, client: Client, upload: Upload) -> tuple[str, DocumentSpec]:
    """Check an uploaded document and store it for translation.

    Args:
        context: the context of the server.
        client: the owner of the document.
        upload: the document.

    Returns:
        The id of the stored document, and its specification.
    """
    name = display_name(upload.name)
    document_format = _format(name)
    service, owner = context.service, context.owner(client)
    target, glossaries = service.language(upload.target, "target"), upload.glossaries
    source = None if upload.source is None else service.language(upload.source, "source")
    if source is not None:
        service.route(source, target)  # raises an error if there is none
        if glossaries:
            await run_in_thread(context.stores.cache.terms, owner, glossaries, source, target)
    else:
        for glossary_id in glossaries:
            await run_in_thread(context.stores.glossaries.summary, owner, glossary_id)  # raises an error
    if upload.memory:
        await request_memory(context, client, upload.memory, source, target)
    key = key_hash(upload.key) if upload.key else ""
    spec = DocumentSpec(
        owner,
        name,
        document_format,
        target,
        source,
        glossaries,
        key,
        upload.linked,
        client.characters,
        upload.memory,
        upload.threshold,
    )
    if client.characters:
        characters = await run_in_thread(count_characters, spec, upload.content)
        usage = await run_in_thread(context.stores.usage.read, owner)
        await run_in_thread(
            usage.plus, max(1, characters), 1, client.characters
        )  # raises an error if the quota would be exceeded
    document_id = await run_in_thread(context.stores.documents.add, spec, upload.content)
    if context.documents is not None:
        context.documents.wake()
    return document_id, spec


async def detect_document(
    context: ServerContext, client: Client, name: str, content: IO[bytes]
) -> DetectedLanguage | None:
    """Return the language of an uploaded document; None if it has no letters or cannot be read.

    Args:
        context: the context of the server.
        client: the client, against whose rate limit the characters that are examined count.
        name: the file name, whose extension determines the format.
        content: the content of the file.
    """
    document_format = _format(display_name(name))
    sample = await run_in_thread(upload_sample, document_format, content)
    context.admit_texts(client, [sample])
    return next(iter(await context.service.detect(sample)), None)


def _format(name: str) -> str:
    """Return the name of a document's format, or raise an ApiError if it is not supported."""
    try:
        return find_format(Path(name)).name
    except SettingsError:
        message = f"unknown file format {Path(name).suffix!r}; supported: {', '.join(document_suffixes())}"
        raise ApiError(400, "unsupported_format", message, "file") from None


async def wait_for_document(
    store: DocumentStore, owner: str | None, document_id: str, key: str | None, seconds: float = math.inf
) -> DocumentStatus:
    """Wait until the translation of a document is complete or has failed, and return its status.

    Args:
        store: the store of documents.
        owner: the owner; None to access the document with its key only.
        document_id: the id of the document.
        key: the key of the document; None if it has none.
        seconds: maximum number of seconds to wait.
    """
    pause, deadline = MIN_PAUSE, time.monotonic() + seconds
    while True:
        status = await run_in_thread(store.status, owner, document_id, key)
        remaining_seconds = deadline - time.monotonic()
        if status.state in ENDED_STATES or remaining_seconds <= 0:
            return status
        await asyncio.sleep(min(pause, remaining_seconds))
        pause = min(MAX_PAUSE, 1.5 * pause)


async def result_response(
    store: DocumentStore, owner: str | None, document_id: str, key: str | None = None
) -> Response:
    """Return a translated document as a download.

    Args:
        store: the store of documents.
        owner: the owner; None to access the document with its key only.
        document_id: the id of the document.
        key: the key of the document; None if it has none.
    """

    def open_result() -> Response:
        path = store.result(owner, document_id, key)
        return file_response(path, store.status(owner, document_id, key).spec.name)

    return await run_in_thread(open_result)


def file_response(path: Path, name: str) -> Response:
    """Return a response that downloads a file.

    The file is opened immediately, so that it can be deleted while the response is sent.

    Args:
        path: the path of the file.
        name: the file name that is suggested to the client.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise NotStoredError(NO_DOCUMENT) from None
    headers = {
        "content-length": str(os.fstat(file.fileno()).st_size),
        "content-disposition": f"attachment; filename*=utf-8''{quote(name, safe='')}",
    }
    blocks = iter(partial(file.read, BLOCK_BYTES), b"")
    kind = "application/octet-stream"
    return StreamingResponse(blocks, headers=headers, media_type=kind, background=BackgroundTask(file.close))


def document_suffixes() -> tuple[str, ...]:
    """Return the file name extensions of the supported document formats, including the dot."""
    suffixes = {suffix for format_ in DOCUMENT_FORMATS.values() for suffix in format_.suffixes}
    return tuple(sorted(suffix for suffix in suffixes if suffix.startswith(".")))

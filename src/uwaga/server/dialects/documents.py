"""Upload and download of documents, for every dialect."""

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

from uwaga.documents import document_formats, find_format
from uwaga.errors import SettingsError
from uwaga.server.api_errors import ApiError, NotStoredError, in_thread
from uwaga.server.auth import Client
from uwaga.server.context import ServerContext
from uwaga.server.store.documents import (
    ENDED,
    NO_DOCUMENT,
    DocumentSpec,
    DocumentStatus,
    DocumentStore,
    key_hash,
    shown_name,
)

BLOCK = 1 << 16
FIRST, LONGEST = 0.05, 1.0
"""Shortest and longest seconds between two checks of a document."""


@dataclass(frozen=True)
class Upload:
    """An uploaded document and how to translate it.

    Attributes:
        content: the content of the file.
        name: the client's file name; its ending gives the format.
        source: source language; None to detect it.
        target: target language.
        glossaries: ids of stored glossaries.
        key: a key for this document alone; None if its owner's reaches it.
        linked: this key alone reaches it, without its owner's.
    """

    content: IO[bytes]
    name: str
    source: str | None
    target: str
    glossaries: tuple[str, ...] = ()
    key: str | None = None
    linked: bool = False


async def store_document(context: ServerContext, client: Client, upload: Upload) -> tuple[str, DocumentSpec]:
    """Check an uploaded document and store it for translation.

    Args:
        context: the context of the server.
        client: whose it is.
        upload: the document.

    Returns:
        The document's id, and how it is translated.
    """
    shown = shown_name(upload.name)
    try:
        format_ = find_format(Path(shown)).name
    except SettingsError:
        message = (
            f"unknown file format {Path(shown).suffix!r}; supported: {', '.join(context.document_suffixes)}"
        )
        raise ApiError(400, "unsupported_format", message, "file") from None
    service, owner = context.service, context.owner(client)
    to, glossaries = service.language(upload.target, "target"), upload.glossaries
    known = None if upload.source is None else service.language(upload.source, "source")
    if known is not None:
        service.route(known, to)  # raises an error if there is none
        if glossaries:
            await in_thread(context.stores.cache.terms, owner, glossaries, known, to)
    elif glossaries:
        raise ApiError(400, "source_missing", "a glossary needs the language of the document", "source")
    if client.characters:
        used = await in_thread(context.stores.usage.read, owner)
        await in_thread(used.plus, 1, 0, client.characters)  # raises an error if none is left
    key = key_hash(upload.key) if upload.key else ""
    spec = DocumentSpec(owner, shown, format_, to, known, glossaries, key, upload.linked, client.characters)
    document_id = await in_thread(context.stores.documents.add, spec, upload.content)
    if context.documents is not None:
        context.documents.wake()
    return document_id, spec


async def wait_for_document(
    store: DocumentStore, owner: str | None, document_id: str, key: str | None, seconds: float = math.inf
) -> DocumentStatus:
    """Return the state of a document when it is translated or has failed, or after some seconds.

    Args:
        store: the store of the documents.
        owner: whose it is; None for a document that its own key alone reaches.
        document_id: the id of the document.
        key: the document's own key; None if it has none.
        seconds: the longest wait.
    """
    pause, until = FIRST, time.monotonic() + seconds
    while True:
        status = await in_thread(store.status, owner, document_id, key)
        left = until - time.monotonic()
        if status.state in ENDED or left <= 0:
            return status
        await asyncio.sleep(min(pause, left))
        pause = min(LONGEST, 1.5 * pause)


async def result_response(
    store: DocumentStore, owner: str | None, document_id: str, key: str | None = None
) -> Response:
    """Return a translated document as a download.

    Args:
        store: the store of the documents.
        owner: whose it is; None for a document that its own key alone reaches.
        document_id: the id of the document.
        key: the document's own key; None if it has none.
    """

    def opened() -> Response:
        path = store.result(owner, document_id, key)
        return file_response(path, store.status(owner, document_id, key).spec.name)

    return await in_thread(opened)


def file_response(path: Path, name: str) -> Response:
    """Return a file as a download. It is opened now, so that deleting it does not cut the response off.

    Args:
        path: the path of the file.
        name: as the client knows it.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise NotStoredError(NO_DOCUMENT) from None
    headers = {
        "content-length": str(os.fstat(file.fileno()).st_size),
        "content-disposition": f"attachment; filename*=utf-8''{quote(name, safe='')}",
    }
    blocks = iter(partial(file.read, BLOCK), b"")
    kind = "application/octet-stream"
    return StreamingResponse(blocks, headers=headers, media_type=kind, background=BackgroundTask(file.close))


def document_suffixes() -> tuple[str, ...]:
    """Return the file name endings of the supported formats, with the dot."""
    every = {suffix for format_ in document_formats().values() for suffix in format_.suffixes}
    return tuple(sorted(suffix for suffix in every if suffix.startswith(".")))

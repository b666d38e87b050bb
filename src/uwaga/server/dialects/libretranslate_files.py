"""LibreTranslate's documents: a file in, the address of its translation out."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from pydantic import BaseModel
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from uwaga.languages.detection import AUTO
from uwaga.server.api_errors import ApiError, in_thread
from uwaga.server.context import ServerContext
from uwaga.server.dialects.documents import result_response, store_document
from uwaga.server.http import address_of, json_response, read_form, while_connected
from uwaga.server.routing import DOWNLOAD, Routes

NAME = re.compile(r"([0-9a-f]{32})\.(.{1,255})", re.DOTALL)
PLACE = "/download_file/{filename}"
FIRST, LONGEST = 0.05, 1.0
"""Seconds between two looks whether a document is translated."""
DISABLED = "Files translation are disabled on this server."


class FileForm(BaseModel):
    """What ``/translate_file`` takes beside the file."""

    source: str
    target: str
    api_key: str | None = None


class FileAnswer(BaseModel):
    """Where the translation is."""

    translatedFileUrl: str  # noqa: N815 (as its clients read it)


def add_files(routes: Routes, context: ServerContext) -> None:
    """Add the routes of documents.

    Args:
        routes: of the dialect.
        context: of the server.
    """

    @routes.add(
        "POST", "/translate_file", "Translate a document", body=FileForm, kind="upload", answer=FileAnswer
    )
    async def translate_file(request: Request) -> Response:
        """Translate a document; the answer comes when it is done, and says where it is."""
        if context.documents is None:
            raise ApiError(403, "disabled", DISABLED)
        async with read_form(request, context.settings.limits.body_bytes) as form:
            key = form.get("api_key")
            client = context.admit(key if isinstance(key, str) else None, address_of(request))
            file, source, target = _given(form)
            told = None if source == AUTO else source
            job_id, order = await store_document(
                context, client, file.file, file.filename or "", told, target
            )
            jobs = context.stores.documents
        try:
            async with while_connected(request):
                await _translated(context, order.owner, job_id)
        except BaseException:
            with contextlib.suppress(ApiError):
                await in_thread(jobs.remove, order.owner, job_id)
            raise
        base = context.settings.public_url or str(request.base_url)
        place = f"{base.rstrip('/')}/download_file/{job_id}.{quote(order.name, safe='')}"
        return json_response(
            {"translatedFileUrl": f"{place}?of={quote(order.owner)}" if order.owner else place}
        )

    @routes.add("GET", PLACE, "Download a translated document", answers={200: DOWNLOAD})
    async def download_file(request: Request, filename: str) -> Response:
        """The translated document; its address, which nobody can guess, is all that is asked for."""
        if context.documents is None:
            raise ApiError(400, "disabled", DISABLED)
        owner = request.query_params.get("of", "")
        return await result_response(context.stores.documents, owner, _document_id(filename))

    @routes.add("DELETE", PLACE, "Delete a translated document", status=204)
    async def delete_file(request: Request, filename: str) -> Response:
        """Delete a document and its translation, by the same URL; LibreTranslate has no such request."""
        owner = request.query_params.get("of", "")
        await in_thread(context.stores.documents.remove, owner, _document_id(filename))
        return Response(status_code=204)


def _document_id(filename: str) -> str:
    match = NAME.fullmatch(filename)
    if match is None:
        raise ApiError(400, "invalid_request", "Invalid filename", "filename")
    return match[1]


def _given(form: Mapping[str, Any]) -> tuple[UploadFile, str, str]:
    """The file and its languages.

    Raises:
        ApiError: one is missing.
    """
    file, source, target = form.get("file"), form.get("source"), form.get("target")
    for name, value, kind in (("file", file, UploadFile), ("source", source, str), ("target", target, str)):
        if not isinstance(value, kind) or value == "":
            raise ApiError(400, "missing", f"Invalid request: missing {name} parameter", name)
    assert isinstance(file, UploadFile)
    if not file.filename:
        raise ApiError(400, "invalid_request", "Invalid request: empty file", "file")
    return file, str(source).lower(), str(target).lower()


async def _translated(context: ServerContext, owner: str, job_id: str) -> None:
    """Wait until a document is translated.

    Raises:
        ApiError: it cannot be.
    """
    jobs, pause = context.stores.documents, FIRST
    while True:
        found = await in_thread(jobs.status, owner, job_id)
        if found.state == "done":
            return
        if found.state == "failed":
            raise ApiError(400, found.code or "failed", f"Cannot translate the file: {found.error}", "file")
        await asyncio.sleep(pause)
        pause = min(LONGEST, 1.5 * pause)

"""``/v2/document``: upload, status, result."""

from __future__ import annotations

import secrets
import time

from pydantic import Field
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from uwaga.languages.codes import same_language
from uwaga.server.api_errors import ApiError, in_thread
from uwaga.server.auth import Client
from uwaga.server.context import DEEPL, ServerContext
from uwaga.server.dialects.deepl.texts import Formality, checked_glossaries, refuse_unsupported
from uwaga.server.dialects.documents import result_response, store_document
from uwaga.server.http import Flag, Names, Parameters, json_response, read_fields, read_upload
from uwaga.server.routing import DOWNLOAD, Routes
from uwaga.server.store.documents import DocumentStatus, key_hash

PLACE = "/v2/document/{document_id}"
STATES = {"queued": "queued", "running": "translating", "done": "done", "failed": "error"}


class DocumentParameters(Parameters):
    """What is said of a document beside the file itself."""

    target_lang: str = Field(min_length=2, max_length=16, examples=["DE"])
    source_lang: str | None = Field(None, min_length=2, max_length=16, examples=["EN"])
    filename: str | None = Field(None, max_length=1024, examples=["letter.docx"])
    output_format: str | None = Field(None, max_length=16, description="The document's own, no other.")
    formality: Formality = "default"
    glossary_id: str | None = None
    glossary_ids: Names = Field([], max_length=5)
    style_id: str | None = Field(None, description="Refused.")
    translation_memory_id: str | None = Field(None, description="Refused.")
    translation_memory_threshold: str | None = Field(None, description="Refused.")
    enable_beta_languages: Flag = False


class KeyParameters(Parameters):
    """The key of a document."""

    document_key: str = Field(min_length=1, max_length=256)


def add_documents(routes: Routes, context: ServerContext) -> None:
    """Add the routes."""

    @routes.add("POST", "/v2/document", "Upload a document", body=DocumentParameters, kind="upload")
    async def upload(request: Request) -> Response:
        """Take in a document that is to be translated."""
        client = DEEPL.client(context, request)
        context.stores.documents  # noqa: B018 (refuse before the upload is read)
        async with read_upload(request, DocumentParameters) as (asked, file):
            named = {
                "style_id": asked.style_id,
                "translation_memory_id": asked.translation_memory_id,
                "translation_memory_threshold": asked.translation_memory_threshold,
            }
            refuse_unsupported(asked.formality, named)
            key = secrets.token_hex(32).upper()
            job_id = await _stored(context, client, asked, file, key)
        return json_response({"document_id": job_id.upper(), "document_key": key})

    @routes.add("POST", PLACE, "State of a document", body=KeyParameters, kind="json or form")
    async def status(request: Request, document_id: str) -> Response:
        """How far a document is."""
        owner = DEEPL.owner(context, request)
        asked = await read_fields(request, KeyParameters)
        jobs = context.stores.documents
        found = await in_thread(jobs.status, owner, document_id, asked.document_key)
        return json_response(status_response(found))

    @routes.add(
        "POST", PLACE + "/result", "Download a translated document", body=KeyParameters, kind="json or form",
        answers={200: DOWNLOAD},
    )  # fmt: skip
    async def result(request: Request, document_id: str) -> Response:
        """The translated document, as often as it is asked for while it is kept."""
        owner = DEEPL.owner(context, request)
        asked = await read_fields(request, KeyParameters)
        return await result_response(context.stores.documents, owner, document_id, asked.document_key)

    @routes.add("DELETE", PLACE, "Delete a document", body=KeyParameters, kind="query", status=204)
    async def delete(request: Request, document_id: str) -> Response:
        """Delete a document and its translation; DeepL has no such request."""
        owner = DEEPL.owner(context, request)
        asked = await read_fields(request, KeyParameters)
        await in_thread(context.stores.documents.remove, owner, document_id, asked.document_key)
        return Response(status_code=204)


def status_response(found: DocumentStatus) -> dict[str, object]:
    """A job as DeepL tells it."""
    told: dict[str, object] = {"document_id": found.id.upper(), "status": STATES[found.state]}
    if found.state == "running":
        told["seconds_remaining"] = _seconds_left(found)
    elif found.state == "done":
        told |= {"seconds_remaining": 0, "billed_characters": found.characters or 0}
    elif found.state == "failed":
        told |= {"error_message": found.error, "message": found.error}
    return told


def _seconds_left(found: DocumentStatus) -> int:
    """What is left, if it goes on as it has so far."""
    if not found.done:
        return max(1, found.of // 50)
    return round((time.time() - found.started) * (found.of - found.done) / found.done)


async def _stored(
    context: ServerContext, client: Client, asked: DocumentParameters, file: UploadFile, key: str
) -> str:
    """Store a document, and return its id.

    Raises:
        ApiError: its format or its languages are not on offer, or a glossary is not there.
    """
    name = asked.filename or file.filename or ""
    wanted = asked.output_format
    if wanted is not None and not name.lower().endswith(f".{wanted.lower()}"):
        message = "output_format not supported: a document stays what it is."
        raise ApiError(400, "not_supported", message, "output_format")
    if asked.source_lang is not None and same_language(asked.source_lang, asked.target_lang):
        message = "Source and target language are equal."
        raise ApiError(400, "unsupported_languages", message, "target_lang")
    ids = checked_glossaries(asked.glossary_id, asked.glossary_ids, asked.source_lang)
    languages = asked.source_lang, asked.target_lang
    stored = await store_document(context, client, file.file, name, *languages, ids, key_hash(key))
    return stored[0]

"""``/v2/document``: upload documents, get their status, and download translations."""

from __future__ import annotations

import secrets
import time

from pydantic import Field
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from uwaga_server.api_errors import ApiError, run_in_thread
from uwaga_server.auth import Client
from uwaga_server.context import DEEPL_KEY, ServerContext
from uwaga_server.dialects.deepl.texts import Formality, check_glossary_ids, refuse_unsupported
from uwaga_server.dialects.documents import Upload, result_response, store_document, wait_for_document
from uwaga_server.dialects.memories import check_threshold
from uwaga_server.http import Flag, Names, Parameters, json_response, read_fields, read_upload
from uwaga_server.routing import DOWNLOAD, Body, Routes
from uwaga_server.store.documents import DocumentStatus

DOCUMENT_PATH = "/v2/document/{document_id}"
MAX_WAIT = 2.0
"""Maximum number of seconds that a status request waits for a translation; clients poll every 5 seconds."""
DEEPL_STATES = {"queued": "queued", "running": "translating", "done": "done", "failed": "error"}


class DocumentParameters(Parameters):
    """Parameters of a document upload, in addition to the file."""

    target_lang: str = Field(min_length=2, max_length=16, examples=["DE"])
    source_lang: str | None = Field(None, min_length=2, max_length=16, examples=["EN"])
    filename: str | None = Field(None, max_length=1024, examples=["letter.docx"])
    output_format: str | None = Field(
        None, max_length=16, description="Must be the format of the uploaded document."
    )
    formality: Formality = "default"
    glossary_id: str | None = None
    glossary_ids: Names = Field([], max_length=5)
    style_id: str | None = Field(None, description="Refused.")
    translation_memory_id: str | None = Field(None, max_length=64)
    translation_memory_threshold: int | None = Field(None, ge=0, le=100)
    enable_beta_languages: Flag = False


class KeyParameters(Parameters):
    """The key that gives access to a document."""

    document_key: str = Field(min_length=1, max_length=256)


def add_document_routes(routes: Routes, context: ServerContext) -> None:
    """Add the document routes."""

    @routes.add("POST", "/v2/document", "Upload a document", body=Body(DocumentParameters, "upload"))
    async def upload(request: Request) -> Response:
        """Upload a document for translation."""
        client = DEEPL_KEY.admit(context, request)
        context.stores.documents  # noqa: B018 (refuse before the upload is read)
        async with read_upload(request, DocumentParameters) as (fields, file):
            refuse_unsupported(fields.formality, {"style_id": fields.style_id})
            key = secrets.token_hex(32).upper()
            document_id = await _store_upload(context, client, fields, file, key)
        return json_response({"document_id": document_id.upper(), "document_key": key})

    @routes.add(
        "POST", DOCUMENT_PATH, "Get the state of a document", body=Body(KeyParameters, "json or form")
    )
    async def status(request: Request, document_id: str) -> Response:
        """Return the state of a document, after waiting up to two seconds for its translation."""
        owner = DEEPL_KEY.admit_owner(context, request)
        fields = await read_fields(request, KeyParameters)
        store = context.stores.documents
        document = await wait_for_document(store, owner, document_id, fields.document_key, MAX_WAIT)
        return json_response(status_response(document))

    @routes.add(
        "POST", DOCUMENT_PATH + "/result", "Download a translated document",
        body=Body(KeyParameters, "json or form"), responses={200: DOWNLOAD},
    )  # fmt: skip
    async def result(request: Request, document_id: str) -> Response:
        """Return the translated document; it can be downloaded repeatedly until it is deleted."""
        owner = DEEPL_KEY.admit_owner(context, request)
        fields = await read_fields(request, KeyParameters)
        return await result_response(context.stores.documents, owner, document_id, fields.document_key)

    @routes.add("DELETE", DOCUMENT_PATH, "Delete a document", body=Body(KeyParameters, "query"), status=204)
    async def delete(request: Request, document_id: str) -> Response:
        """Delete a document and its translation; DeepL's API has no such request."""
        owner = DEEPL_KEY.admit_owner(context, request)
        fields = await read_fields(request, KeyParameters)
        await run_in_thread(context.stores.documents.remove, owner, document_id, fields.document_key)
        return Response(status_code=204)


def status_response(document: DocumentStatus) -> dict[str, object]:
    """Return the state of a document in DeepL's format."""
    content: dict[str, object] = {"document_id": document.id.upper(), "status": DEEPL_STATES[document.state]}
    if document.state == "running":
        content["seconds_remaining"] = _seconds_left(document)
    elif document.state == "done":
        content |= {"seconds_remaining": 0, "billed_characters": document.characters or 0}
    elif document.state == "failed":
        content |= {"error_message": document.error, "message": document.error}
    return content


def _seconds_left(document: DocumentStatus) -> int:
    """Return the estimated remaining seconds of a translation, from its progress so far."""
    if not document.translated:
        return max(1, document.total // 50)
    return round(
        (time.time() - document.started) * (document.total - document.translated) / document.translated
    )


async def _store_upload(
    context: ServerContext, client: Client, fields: DocumentParameters, file: UploadFile, key: str
) -> str:
    """Store an uploaded document for translation and return its id."""
    name = fields.filename or file.filename or ""
    output_format = fields.output_format
    if output_format is not None and not name.lower().endswith(f".{output_format.lower()}"):
        message = "output_format not supported: the translation has the same format as the document."
        raise ApiError(400, "not_supported", message, "output_format")
    ids = check_glossary_ids(fields.glossary_id, fields.glossary_ids, fields.source_lang)
    threshold = check_threshold(fields.translation_memory_id, fields.translation_memory_threshold)
    upload = Upload(
        file.file, name, fields.source_lang, fields.target_lang, ids, key,
        memory=fields.translation_memory_id or "", threshold=threshold,
    )  # fmt: skip
    document_id, _ = await store_document(context, client, upload)
    return document_id

"""``/v1/documents``: documents that are translated while the client does something else."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from uwaga.languages.detection import AUTO
from uwaga.server.admission import BEARER
from uwaga.server.api_errors import in_thread
from uwaga.server.context import ServerContext
from uwaga.server.dialects.documents import result_response, store_document
from uwaga.server.dialects.v1 import ERRORS, NOT_FOUND
from uwaga.server.dialects.v1_schema import ErrorAnswer
from uwaga.server.http import json_response, read_upload
from uwaga.server.routing import DOWNLOAD, Answer, Routes
from uwaga.server.store.documents import DocumentStatus

LanguageCode = Annotated[str, Field(min_length=2, max_length=32, examples=["en"])]


class DocumentForm(BaseModel):
    """What is said of a document beside the file itself."""

    model_config = ConfigDict(extra="forbid")

    target: LanguageCode
    source: LanguageCode | None = Field(None, description="Found out if `auto` or left out.")
    glossary_id: str | None = None


def routes(context: ServerContext) -> Routes:
    """The routes."""
    routes = Routes("v1", {**ERRORS, 404: NOT_FOUND}, "/v1/documents")

    @routes.add("POST", "", "Upload a document", body=DocumentForm, kind="upload", status=202)
    async def upload(request: Request) -> Response:
        """Take in a document that is to be translated; `GET /v1/documents/{id}` tells how far it is."""
        client = BEARER.client(context, request)
        context.stores.documents  # noqa: B018 (refuse before the upload is read)
        async with read_upload(request, DocumentForm) as (asked, file):
            source = None if asked.source in (None, AUTO) else asked.source
            ids = () if asked.glossary_id is None else (asked.glossary_id,)
            name = file.filename or ""
            document_id, _ = await store_document(context, client, file.file, name, source, asked.target, ids)
        return json_response({"id": document_id}, 202)

    @routes.add("GET", "/{document_id}", "State of a document")
    async def status(request: Request, document_id: str) -> Response:
        """Its state, how many of its texts are done, and why it failed if it did."""
        owner = BEARER.owner(context, request)
        return json_response(
            document_response(await in_thread(context.stores.documents.status, owner, document_id))
        )

    @routes.add(
        "GET",
        "/{document_id}/result",
        "Download a translated document",
        answers={200: DOWNLOAD, 409: Answer("Not translated", ErrorAnswer)},
    )
    async def result(request: Request, document_id: str) -> Response:
        """The translated document, as often as it is asked for while it is kept."""
        owner = BEARER.owner(context, request)
        return await result_response(context.stores.documents, owner, document_id)

    @routes.add("DELETE", "/{document_id}", "Delete a document", status=204)
    async def delete(request: Request, document_id: str) -> Response:
        """Delete a document and its translation; one that is being translated is left."""
        owner = BEARER.owner(context, request)
        await in_thread(context.stores.documents.remove, owner, document_id)
        return Response(status_code=204)

    return routes


def document_response(found: DocumentStatus) -> dict[str, object]:
    """A job as JSON has it."""
    told: dict[str, object] = {"id": found.id, "state": found.state, "done": found.done, "of": found.of}
    if found.characters is not None:
        told["characters"] = found.characters
    if found.state == "failed":
        told["error"] = {"code": found.code, "message": found.error}
    return told

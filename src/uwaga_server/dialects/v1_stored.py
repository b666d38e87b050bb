"""``/v1/glossaries`` and ``/v1/documents``: routes for stored data in the native dialect."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from uwaga.errors import DataError
from uwaga.languages.detection import AUTO
from uwaga.terms.files import SEPARATOR, split_forms
from uwaga.translator.memories import DEFAULT_THRESHOLD
from uwaga_server.api_errors import ApiError, run_in_thread
from uwaga_server.context import BEARER_KEY, ServerContext
from uwaga_server.dialects.documents import Upload, detect_document, result_response, store_document
from uwaga_server.dialects.glossaries import GlossaryApi, add_glossary_routes
from uwaga_server.dialects.v1_schema import ERRORS, NOT_FOUND, DetectAnswer, ErrorAnswer, detection_response
from uwaga_server.http import json_response, read_json, read_upload
from uwaga_server.routing import DOWNLOAD, Body, ResponseDescription, Routes
from uwaga_server.store.documents import DocumentStatus
from uwaga_server.store.glossary import (
    Dictionary,
    DictionarySummary,
    GlossaryEntry,
    GlossarySummary,
    StoredGlossary,
    check_entries,
)

MAX_DICTIONARY_ENTRIES = 100_000
LanguageCode = Annotated[str, Field(min_length=2, max_length=16, examples=["en"])]


class DictionaryBody(BaseModel):
    """Entries for a language pair; a target may be a list of forms, with the most common form first."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"source": "en", "target": "de", "entries": {"dog": "Hund"}}]},
    )

    source: LanguageCode
    target: LanguageCode
    entries: dict[str, str | list[str]] = Field(min_length=1, max_length=MAX_DICTIONARY_ENTRIES)


class GlossaryBody(BaseModel):
    """The name and dictionaries of a new glossary."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=1024, examples=["Words"])
    dictionaries: list[DictionaryBody] = Field(min_length=1, max_length=200)


class ChangeBody(BaseModel):
    """Changes to a glossary: a new name, and dictionaries to add or replace."""

    model_config = ConfigDict(extra="forbid")

    name: str | None = Field(None, min_length=1, max_length=1024)
    dictionaries: list[DictionaryBody] = Field([], max_length=200)


def glossary_routes(context: ServerContext) -> Routes:
    """Return the routes for glossaries."""
    routes = Routes("v1", {**ERRORS, 404: NOT_FOUND}, "/v1/glossaries")

    api = GlossaryApi(
        BEARER_KEY,
        "json",
        read_json,
        GlossaryBody,
        ChangeBody,
        lambda _, body: _stored_dictionary(body),
        glossary_response,
        _full_response,
        merge=False,
    )
    add_glossary_routes(routes, context, "", api)
    return routes


def glossary_response(glossary: GlossarySummary) -> dict[str, object]:
    """Return a glossary as JSON, without its entries."""
    dictionaries = [_summary_response(dictionary) for dictionary in glossary.dictionaries]
    creation_time = glossary.created.isoformat(timespec="milliseconds")
    return {"id": glossary.id, "name": glossary.name, "created": creation_time, "dictionaries": dictionaries}


def _summary_response(dictionary: DictionarySummary) -> dict[str, object]:
    return {"source": dictionary.source, "target": dictionary.target, "count": dictionary.count}


def _full_response(glossary: StoredGlossary) -> dict[str, object]:
    """Return a glossary as JSON, with its entries; a target with several forms is a list."""
    dictionaries = [
        {
            **_summary_response(summary),
            "entries": {
                source: targets[0] if len(targets) == 1 else targets for source, targets in dictionary.entries
            },
        }
        for summary, dictionary in zip(glossary.summary.dictionaries, glossary.dictionaries, strict=True)
    ]
    return {**glossary_response(glossary.summary), "dictionaries": dictionaries}


def _stored_dictionary(body: DictionaryBody) -> Dictionary:
    """Return the stored dictionary for a dictionary in a request body."""
    entries = [
        (f"entry {number}", GlossaryEntry(source.strip(), _target_forms(target)))
        for number, (source, target) in enumerate(body.entries.items(), start=1)
    ]
    try:
        return Dictionary(body.source.lower(), body.target.lower(), check_entries(entries))
    except DataError as error:
        raise ApiError(400, "invalid_entries", str(error), "entries") from None


def _target_forms(target: str | list[str]) -> tuple[str, ...]:
    return split_forms(target if isinstance(target, str) else SEPARATOR.join(target))


class FileForm(BaseModel):
    """A document without parameters."""

    model_config = ConfigDict(extra="forbid")


DocumentLanguage = Annotated[str, Field(min_length=2, max_length=32, examples=["en"])]


class DocumentForm(BaseModel):
    """Parameters of a document upload, in addition to the file."""

    model_config = ConfigDict(extra="forbid")

    target: DocumentLanguage
    source: DocumentLanguage | None = Field(None, description="Detected if `auto` or omitted.")
    glossary_id: str | None = Field(
        None, description="Id of a glossary; does not apply if it lacks the detected language."
    )
    memory: str = Field("", max_length=64, description="Id of a translation memory.")
    threshold: float = Field(
        DEFAULT_THRESHOLD, ge=1, le=100, description="Minimum similarity of the memory's pairs, in percent."
    )


def document_routes(context: ServerContext) -> Routes:
    """Return the routes for documents."""
    routes = Routes("v1", {**ERRORS, 404: NOT_FOUND}, "/v1/documents")

    @routes.add("POST", "", "Upload a document", body=Body(DocumentForm, "upload"), status=202)
    async def upload(request: Request) -> Response:
        """Upload a document for translation; `GET /v1/documents/{id}` returns its state."""
        client = BEARER_KEY.admit(context, request)
        context.stores.documents  # noqa: B018 (refuse before the upload is read)
        async with read_upload(request, DocumentForm) as (form, file):
            source = None if form.source in (None, AUTO) else form.source
            ids = () if form.glossary_id is None else (form.glossary_id,)
            document = Upload(
                file.file, file.filename or "", source, form.target, ids,
                memory=form.memory, threshold=form.threshold,
            )  # fmt: skip
            document_id, _ = await store_document(context, client, document)
        return json_response({"id": document_id}, 202)

    @routes.add(
        "POST",
        "/detect",
        "Detect the language of a document",
        body=Body(FileForm, "upload"),
        response_model=DetectAnswer,
    )
    async def detect(request: Request) -> Response:
        """Detect the language of a document, which is not stored; the result is null if it has no letters.

        It is also null if the document cannot be read.
        """
        client = BEARER_KEY.admit(context, request)
        context.stores.documents  # noqa: B018 (refuse before the upload is read)
        async with read_upload(request, FileForm) as (_, file):
            language = await detect_document(context, client, file.filename or "", file.file)
        return json_response({"detections": [language and detection_response(language)]})

    @routes.add("GET", "/{document_id}", "Get the state of a document")
    async def status(request: Request, document_id: str) -> Response:
        """Return the state of a document, the number of translated texts, and the error, if any."""
        owner = BEARER_KEY.admit_owner(context, request)
        return json_response(
            document_response(await run_in_thread(context.stores.documents.status, owner, document_id))
        )

    @routes.add(
        "GET",
        "/{document_id}/result",
        "Download a translated document",
        responses={200: DOWNLOAD, 409: ResponseDescription("The document is not translated", ErrorAnswer)},
    )
    async def result(request: Request, document_id: str) -> Response:
        """Return the translated document; it can be downloaded repeatedly until it is deleted."""
        owner = BEARER_KEY.admit_owner(context, request)
        return await result_response(context.stores.documents, owner, document_id)

    @routes.add("DELETE", "/{document_id}", "Delete a document", status=204)
    async def delete(request: Request, document_id: str) -> Response:
        """Delete a document and its translation, in any state.

        With an API key, a client can also delete documents that it uploaded through other APIs.
        """
        owner, remove = BEARER_KEY.admit_owner(context, request), context.stores.documents.remove
        await run_in_thread(lambda: remove(owner, document_id, any_key=context.keys is not None))
        return Response(status_code=204)

    return routes


def document_response(status: DocumentStatus) -> dict[str, object]:
    """Return the state of a document as JSON."""
    content: dict[str, object] = {
        "id": status.id,
        "state": status.state,
        "done": status.translated,
        "of": status.total,
    }
    if status.characters is not None:
        content["characters"] = status.characters
    if status.state == "done":
        content["untranslated"] = dict(status.untranslated)
    if status.state == "failed":
        content["error"] = {"code": status.code, "message": status.error}
    return content

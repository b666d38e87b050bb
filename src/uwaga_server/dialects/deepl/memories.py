"""``/v3/translation_memories``: list, read, import and export translation memories."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from itertools import islice

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from uwaga_memory.store import Memory, Pair
from uwaga_server.api_errors import ApiError, run_in_thread
from uwaga_server.context import DEEPL_KEY, ServerContext
from uwaga_server.dialects.documents import file_response
from uwaga_server.http import Flag, Parameters, json_response, read_body, read_fields
from uwaga_server.routing import Body, ResponseDescription, Routes
from uwaga_server.store.memories import MemoryJob, MemoryStore, StoredMemory

PATH = "/v3/translation_memories"
MEMORY_PATH = PATH + "/{memory_id}"
JOB_PATH = PATH + "/jobs/{job_id}"
FILE_PATH = JOB_PATH + "/file"
MAX_PAGE_SIZE, MAX_SEGMENT_PAGE_SIZE = 25, 100


class ListParameters(Parameters):
    """The requested page of the list of memories."""

    page: int = Field(0, ge=0, le=1_000_000)
    page_size: int = Field(MAX_PAGE_SIZE, ge=1, le=MAX_PAGE_SIZE)


class SegmentParameters(Parameters):
    """The requested page of a memory's segments, and a filter for the segments."""

    page_size: int = Field(50, ge=1, le=MAX_SEGMENT_PAGE_SIZE)
    page_cursor: str | None = Field(None, max_length=32)
    filter_text: str | None = Field(None, min_length=2, max_length=1000)
    filter_case_sensitive: Flag = False


class SourceFile(BaseModel):
    """The file that will be sent for an import."""

    file_name: str = Field(min_length=1, max_length=1024, examples=["legal.tmx"])
    content_length: int = Field(ge=1)
    content_type: str = Field("application/xml", max_length=100)


class ImportNames(BaseModel):
    """The name of a new memory."""

    display_name: str | None = Field(None, min_length=1, max_length=1024)


class ImportParameters(Parameters):
    """The parameters of an import."""

    source_file: SourceFile
    parameters: ImportNames = ImportNames()


class TokenParameters(Parameters):
    """The secret token in the URL of an upload or download."""

    token: str = Field(min_length=1, max_length=64)


def add_memory_routes(routes: Routes, context: ServerContext) -> None:
    """Add the routes of translation memories."""

    @routes.add("GET", PATH, "List translation memories", body=Body(ListParameters, "query"))
    async def list_(request: Request) -> Response:
        """List the memories of the client and the shared memories."""
        owner = DEEPL_KEY.admit_owner(context, request)
        fields, store = await read_fields(request, ListParameters), context.stores.memories

        def content() -> dict[str, object]:
            memories = store.list(owner)
            start = fields.page * fields.page_size
            page = [_memory_response(store, memory) for memory in memories[start : start + fields.page_size]]
            return {"translation_memories": page, "total_count": len(memories)}

        return json_response(await run_in_thread(content))

    @routes.add("GET", MEMORY_PATH, "Get a translation memory")
    async def get(request: Request, memory_id: str) -> Response:
        """Return the languages and the number of segments of a memory."""
        owner, store = DEEPL_KEY.admit_owner(context, request), context.stores.memories
        return json_response(
            await run_in_thread(lambda: _memory_response(store, store.find(owner, memory_id)))
        )

    @routes.add("DELETE", MEMORY_PATH, "Delete a translation memory", status=204)
    async def delete(request: Request, memory_id: str) -> Response:
        """Delete a memory that belongs to the client."""
        owner = DEEPL_KEY.admit_owner(context, request)
        await run_in_thread(context.stores.memories.delete, owner, memory_id)
        return Response(status_code=204)

    @routes.add(
        "GET", MEMORY_PATH + "/segments", "List the segments of a translation memory",
        body=Body(SegmentParameters, "query"),
    )  # fmt: skip
    async def segments(request: Request, memory_id: str) -> Response:
        """Return one page of the segments of a memory."""
        owner, store = DEEPL_KEY.admit_owner(context, request), context.stores.memories
        fields = await read_fields(request, SegmentParameters)
        memory = await run_in_thread(lambda: store.open(store.find(owner, memory_id)))
        return json_response(await run_in_thread(_segment_page, memory, fields))

    _add_job_routes(routes, context)


def _add_job_routes(routes: Routes, context: ServerContext) -> None:
    undocumented = Routes()

    @routes.add("POST", PATH + "/import", "Import a TMX file", body=ImportParameters, status=202)
    async def import_(request: Request) -> Response:
        """Create an import job; the client then sends the file by PUT to the `upload_url` in the response."""
        owner = DEEPL_KEY.admit_owner(context, request)
        fields, store = await read_fields(request, ImportParameters), context.stores.memories
        file, limit = fields.source_file, context.settings.limits.document_bytes
        if file.content_length > limit:
            raise ApiError(413, "too_large", f"the file is too large; send at most {limit} bytes")
        name = (fields.parameters.display_name or file.file_name).strip()
        job = MemoryJob(
            str(uuid.uuid4()), owner, "import",
            name=name, content_type=file.content_type, content_length=file.content_length,
        )  # fmt: skip
        await run_in_thread(store.add_job, job)
        url, expires = _file_url(context, request, job), _timestamp(job.expires)
        return json_response({"job_id": job.id, "upload_url": url, "expires_at": expires}, 202)

    @routes.add(
        "POST",
        MEMORY_PATH + "/export",
        "Export a translation memory",
        responses={202: ResponseDescription("A new export was created")},
    )
    async def export(request: Request, memory_id: str) -> Response:
        """Export a memory as TMX; the status is 200 if an existing export is reused, otherwise 202."""
        owner = DEEPL_KEY.admit_owner(context, request)
        job, is_existing = await run_in_thread(context.stores.memories.export, owner, memory_id)
        content = {"job_id": job.id, "parameters": {"translation_memory_id": job.memory}}
        return json_response(content, 200 if is_existing else 202)

    @routes.add("GET", JOB_PATH, "Get the state of an import or export")
    async def job(request: Request, job_id: str) -> Response:
        """Return the state of a job, with the download URL of an export or the id of an imported memory."""
        owner = DEEPL_KEY.admit_owner(context, request)
        job = await run_in_thread(context.stores.memories.job, job_id, owner)
        return json_response(_job_response(job, _file_url(context, request, job)))

    @undocumented.add("PUT", FILE_PATH, body=Body(raw=True))
    async def upload(request: Request, job_id: str) -> Response:
        """Receive the file of an import; the request is authorised by the token in its URL."""
        fields, store = await _read_token(request), context.stores.memories
        job = await run_in_thread(lambda: store.job(job_id, token=fields.token))
        if job.operation != "import" or job.status != "awaiting_input":
            raise ApiError(409, "not_awaited", f"the job does not accept a file: its status is {job.status}")
        content = await read_body(request)
        if len(content) != job.content_length:
            message = f"the file has {len(content)} bytes, but content_length was {job.content_length}"
            raise ApiError(400, "wrong_length", message)
        await run_in_thread(store.run_import, job, content)
        return Response(status_code=200)

    @undocumented.add("GET", FILE_PATH)
    async def download(request: Request, job_id: str) -> Response:
        """Return the file of an export; the request is authorised by the token in its URL."""
        fields, store = await _read_token(request), context.stores.memories
        job = await run_in_thread(lambda: store.job(job_id, token=fields.token))
        path = await run_in_thread(store.export_file, job)
        return await run_in_thread(file_response, path, f"{job.memory}.tmx")

    routes.routes += undocumented.routes


async def _read_token(request: Request) -> TokenParameters:
    """Return the token from the query, without reading the body."""
    token = request.query_params.get("token", "")
    if not 1 <= len(token) <= 64:
        raise ApiError(404, "not_found", "no such job")
    return TokenParameters(token=token)


def _segment_page(memory: Memory, fields: SegmentParameters) -> dict[str, object]:
    after_id = _parse_cursor(fields.page_cursor)
    text = fields.filter_text or ""

    def contains(pair: Pair) -> bool:
        if not fields.filter_case_sensitive:
            return True
        return text in pair.source or text in pair.target

    matching_pairs = ((id_, pair) for id_, pair in memory.pairs(text) if id_ > after_id and contains(pair))
    page = list(islice(matching_pairs, fields.page_size + 1))
    content: dict[str, object] = {
        "segments": [_segment_response(memory, *row) for row in page[: fields.page_size]],
        "segment_count": len(memory),
    }
    if len(page) > fields.page_size:
        content["next_page_cursor"] = str(page[fields.page_size - 1][0])
    return content


def _parse_cursor(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit()):
        raise ApiError(400, "invalid_request", "Value for 'page_cursor' not supported.", "page_cursor")
    return int(cursor)


def _segment_response(memory: Memory, id_: int, pair: Pair) -> dict[str, object]:
    target = {
        "target_segment_id": f"{id_}-{memory.languages[1]}",
        "target_language": memory.languages[1].lower(),
        "target_text": pair.target,
        "creation_time": pair.created,
        "updated_time": pair.created,
    }
    return {"source_segment_id": str(id_), "source_text": pair.source, "targets": [target]}


def _memory_response(store: MemoryStore, stored_memory: StoredMemory) -> dict[str, object]:
    memory, file_status = store.open(stored_memory), stored_memory.path.stat()
    source, target = (code.lower() for code in memory.languages)
    return {
        "translation_memory_id": stored_memory.id,
        "name": memory.name,
        "source_language": source,
        "target_languages": [target],
        "segment_count": len(memory),
        "updated_time": _timestamp(file_status.st_mtime),
    }


def _job_response(job: MemoryJob, url: str) -> dict[str, object]:
    result: dict[str, object] = {"status": job.status}
    content: dict[str, object] = {
        "job_id": job.id,
        "operation": job.operation,
        "product": "translation_memory",
        "creation_time": _timestamp(job.created),
        "updated_time": _timestamp(job.updated),
        "results": [result],
    }
    if job.error:
        result["error"] = {"message": job.error}
    if job.operation == "export":
        content["parameters"] = {"translation_memory_id": job.memory}
        if job.status in ("completed", "downloaded"):
            result |= {"download_url": url, "expires_at": _timestamp(job.expires)}
        return content
    content["parameters"] = {"display_name": job.name}
    content["source_file"] = {"content_type": job.content_type, "content_length": job.content_length}
    if job.status == "awaiting_input":
        result["status_metadata"] = {"required_action": "Send the file with PUT to the upload URL."}
        result["expires_at"] = _timestamp(job.expires)
    if job.status == "completed":
        result |= {"translation_memory_id": job.memory, "skipped_segment_count": job.skipped}
    return content


def _file_url(context: ServerContext, request: Request, job: MemoryJob) -> str:
    base = context.settings.public_url or str(request.base_url)
    return f"{base.rstrip('/')}{FILE_PATH.format(job_id=job.id)}?token={job.token}"


def _timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

"""Functions that read requests (JSON, forms, queries, uploads) and write responses."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, Strict, ValidationError, WithJsonSchema
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from uwaga_server.api_errors import ApiError
from uwaga_server.middleware import RequestState
from uwaga_server.routing import FORM, JSON, UPLOAD
from uwaga_server.served_models import ServedLanguage

Body = TypeVar("Body", bound=BaseModel)
JSON_ERROR_TYPE = "json_invalid"
MAX_FORM_FIELDS = 2000


def json_bytes(content: object) -> bytes:
    """Return a value serialised as JSON; lone surrogates, which UTF-8 cannot encode, are escaped."""
    try:
        return to_json(content, inf_nan_mode="null")
    except PydanticSerializationError:
        values = json.dumps(content, default=to_jsonable_python)
        return json.dumps(json.loads(values, parse_constant=lambda name: None)).encode()


def json_response(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a JSON response.

    Args:
        content: the value to serialise.
        status: the HTTP status.
        headers: additional headers.
    """
    return Response(json_bytes(content), status, headers, media_type=JSON)


def media_type(request: Request, default: str = "") -> str:
    """Return the media type of a request's body in lower case, or the default if the request states none."""
    return request.headers.get("content-type", default).partition(";")[0].strip().lower()


async def read_json(request: Request, kind: type[Body]) -> Body:
    """Return the JSON body of a request as an instance of a pydantic model."""
    content_type = media_type(request, JSON)
    if content_type != JSON and not content_type.endswith("+json"):
        raise ApiError(415, "unsupported_media_type", f"send JSON, with the header content-type: {JSON}")
    return parse_json(await read_body(request), kind)


async def read_body(request: Request) -> bytes:
    """Return the body of a request, without caching it in the request object."""
    return b"".join([part async for part in request.stream()])


def parse_json(body: bytes, kind: type[Body]) -> Body:
    """Return JSON as an instance of a pydantic model."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise validation_error(error) from None


def validation_error(error: ValidationError) -> ApiError:
    """Return an ApiError for the first error of a failed validation, without quoting the body."""
    detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
    location = ".".join(str(part) for part in detail["loc"])[:80]
    if detail["type"] == JSON_ERROR_TYPE:
        return ApiError(400, "not_json", "the body is not JSON")
    message = f"{location}: {detail['msg']}" if location else detail["msg"]
    message = {
        "extra_forbidden": f"unknown parameter '{location}'",
        "missing": f"parameter '{location}' is missing",
    }.get(detail["type"], message)
    return ApiError(422, "invalid_request", message[:300], location)


def client_address(request: Request) -> str:
    """Return the IP address of the client, or the address that a trusted proxy forwarded."""
    return request.client.host if request.client is not None else ""


def request_id(request: Request) -> str:
    """Return the id of a request."""
    state: RequestState = request.scope["uwaga"]
    return state.id


def languages_response(
    languages: Iterable[ServedLanguage], code: Callable[[str], str] = str
) -> list[dict[str, object]]:
    """Return a list of languages as JSON.

    Args:
        languages: the languages.
        code: converts a language code of the server to the dialect's code.
    """
    return [
        {
            "code": code(language.code),
            "name": language.name,
            "targets": [code(target) for target in language.targets],
        }
        for language in languages
    ]


@asynccontextmanager
async def while_connected(request: Request) -> AsyncIterator[None]:
    """Cancel the block if the client disconnects; the body of the request must have been read."""
    task = asyncio.current_task()
    assert task is not None
    state: RequestState = request.scope["uwaga"]

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        state.disconnected = True
        task.cancel()

    watcher = asyncio.ensure_future(watch())
    try:
        yield
    finally:
        watcher.cancel()


class EventStream(Response):
    """A response that streams server-sent events, and stops if the client disconnects.

    Args:
        request: the request, whose body has been read.
        events: generator of pairs of an event name, which may be empty, and JSON data. If it raises an
            ApiError after the first event, an error event is sent.
        render_error: returns the JSON data of an error event.
        error_event: the name of an error event.
        end: bytes that are sent after the last event.
    """

    def __init__(
        self,
        request: Request,
        events: AsyncGenerator[tuple[str, object], None],
        render_error: Callable[[ApiError], object],
        error_event: str = "error",
        end: bytes = b"",
    ) -> None:
        super().__init__(media_type="text/event-stream")
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self.headers["x-accel-buffering"] = "no"  # prevents nginx from buffering the events
        self._request, self._events, self._render_error = request, events, render_error
        self._error_event, self._end = error_event, end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        async with while_connected(self._request), aclosing(self._events):
            # An error before the first event is raised, so that the response has the status of the error.
            first_event = await anext(self._events, None)
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            try:
                if first_event is not None:
                    await send(_event_message(*first_event))
                async for name, content in self._events:
                    await send(_event_message(name, content))
            except ApiError as problem:
                await send(_event_message(self._error_event, self._render_error(problem)))
            await send({"type": "http.response.body", "body": self._end, "more_body": False})


def _event_message(name: str, content: object) -> dict[str, Any]:
    name_line = b"event: " + name.encode() + b"\n" if name else b""
    body = name_line + b"data: " + json_bytes(content) + b"\n\n"
    return {"type": "http.response.body", "body": body, "more_body": True}


@asynccontextmanager
async def read_form(request: Request, max_field_bytes: int) -> AsyncIterator[FormData]:
    """Yield the fields of a form, and close its files at the end of the block.

    Args:
        request: the request, whose body has not been read.
        max_field_bytes: maximum size in bytes of a field that is not a file.
    """
    charset = parse_options_header(request.headers.get("content-type"))[1].get(b"charset", b"utf-8")
    if charset.lower() not in (b"utf-8", b"utf8"):  # some codecs of Python take quadratic time
        raise ApiError(415, "unsupported_media_type", "send the form in UTF-8")
    try:
        form = await request.form(max_files=1, max_fields=MAX_FORM_FIELDS, max_part_size=max_field_bytes)
    except MultiPartException as error:
        raise ApiError(400, "invalid_form", f"the form cannot be read: {error.message}"[:300]) from None
    except UnicodeError:
        raise ApiError(400, "invalid_form", "the form cannot be read: it is not UTF-8") from None
    try:
        texts = [value for pair in form.multi_items() for value in pair if isinstance(value, str)]
        recount_body(request, texts)  # the file is on disk, not in memory
        yield form
    finally:
        await form.close()


def recount_body(request: Request, strings: Iterable[str]) -> None:
    """Count the memory of the strings extracted from a request's body, instead of the memory of the body."""
    state: RequestState = request.scope["uwaga"]
    state.body_memory.replace(state, sum(map(sys.getsizeof, strings)))


MAX_FIELD_BYTES = 16 << 20
"""Maximum size in bytes of a form field that is not a file."""
NESTED_FIELD = re.compile(r"dictionaries\[(\d{1,3})\](?:\[(\w+)\]|\.(\w+))")
FLAG_VALUES: dict[object, bool] = {
    "0": False,
    "1": True,
    "false": False,
    "true": True,
    "False": False,
    "True": True,
}
STRINGS_SCHEMA = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
Fields = TypeVar("Fields", bound=BaseModel)


class Parameters(BaseModel):
    """Base class of request parameters; unknown ones are ignored, since the imitated APIs add new ones."""


def _parse_flag(value: object) -> object:
    return FLAG_VALUES.get(value, value) if isinstance(value, str | int) else value


def _parse_names(value: object) -> object:
    """Return a list of names from a list or a comma-separated string; other values are returned unchanged."""
    strings = [value] if isinstance(value, str) else value
    if not isinstance(strings, list) or not all(isinstance(item, str) for item in strings):
        return value
    return [name.strip() for item in strings for name in item.split(",") if name.strip()]


def _as_list(value: object) -> object:
    return [value] if isinstance(value, str) else value


Flag = Annotated[
    bool,
    Strict(),
    BeforeValidator(_parse_flag),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"enum": list(FLAG_VALUES)}]}),
]
"""Type of a boolean that is sent in JSON or in a form."""
Names = Annotated[list[str], BeforeValidator(_parse_names), WithJsonSchema(STRINGS_SCHEMA)]
"""Type of a list of names, which may be sent as a comma-separated string."""
TextList = Annotated[list[str], BeforeValidator(_as_list), WithJsonSchema(STRINGS_SCHEMA)]
"""Type of a list of texts; a single text may be sent as a string."""


async def read_fields(request: Request, kind: type[Fields]) -> Fields:
    """Return the parameters of a request as an instance of a pydantic model."""
    return validate(await read_parameters(request), kind)


@asynccontextmanager
async def read_upload(request: Request, kind: type[Fields]) -> AsyncIterator[tuple[Fields, UploadFile]]:
    """Yield the parameters and the file of an upload; the file is closed at the end of the block."""
    async with read_form(request, MAX_FIELD_BYTES) as form:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise ApiError(400, "invalid_request", "Invalid file data.", "file")
        parameters = ((key, value) for key, value in form.multi_items() if key != "file")
        yield validate(_group_fields(parameters), kind), file


def validate(parameters: Mapping[str, Any], kind: type[Fields]) -> Fields:
    """Return parameters as an instance of a pydantic model, or raise an ApiError if they are invalid."""
    try:
        return kind.model_validate(dict(parameters))
    except ValidationError as error:
        detail = error.errors(include_url=False, include_context=False, include_input=False)[0]
        location = ".".join(map(str, detail["loc"]))[:80].encode("ascii", "replace").decode()
        name = location.partition(".")[0]
        message = {
            "missing": f"Parameter '{name}' not specified.",
            "extra_forbidden": f"Unknown parameter '{name}'.",
            "literal_error": f"Value for '{name}' not supported: {detail['msg'].lower()}.",
        }.get(detail["type"], f"Value for '{location}' not supported: {detail['msg'].lower()}.")
        raise ApiError(400, "invalid_request", message[:300], name) from None


async def read_parameters(request: Request) -> dict[str, Any]:
    """Return the parameters of a request from its query and its body, which is a form or a JSON object."""
    query = _group_fields(request.query_params.multi_items())
    content_type = media_type(request)
    if content_type in (FORM, UPLOAD):
        async with read_form(request, MAX_FIELD_BYTES) as form:
            return query | _group_fields(form.multi_items())
    body = await read_body(request)
    if not body.strip():
        return query
    if content_type not in ("", JSON):
        raise ApiError(415, "unsupported_media_type", "send JSON or a form")
    try:
        values = json.loads(body)
    except (ValueError, RecursionError):
        raise ApiError(400, "not_json", "the body is not JSON") from None
    if not isinstance(values, dict):
        raise ApiError(400, "not_json", "the body is not a JSON object")
    return query | values


def _group_fields(items: Iterable[tuple[str, object]]) -> dict[str, Any]:
    """Return the fields of a form or query by name; a repeated field becomes a list."""
    values: dict[str, Any] = {}
    nested_values: dict[int, dict[str, object]] = {}
    for key, value in items:
        if isinstance(value, UploadFile):
            raise ApiError(400, "invalid_form", "this request does not accept an uploaded file")
        match = NESTED_FIELD.fullmatch(key)
        if match is not None:
            nested_values.setdefault(int(match[1]), {})[match[2] or match[3]] = value
        elif key not in values:
            values[key] = value
        elif isinstance(values[key], list):
            values[key].append(value)
        else:
            values[key] = [values[key], value]
    if nested_values:
        values["dictionaries"] = [nested_values[index] for index in sorted(nested_values)]
    return values

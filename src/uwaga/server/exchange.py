"""Bodies in, bodies out: the little of HTTP that every dialect needs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from uwaga.server.gate import Visit
from uwaga.server.offers import OfferedLanguage
from uwaga.server.problems import Problem

Body = TypeVar("Body", bound=BaseModel)
JSON = "application/json"
MALFORMED = "json_invalid"
MOST_FIELDS = 2000


def json_response(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """An answer of JSON.

    Args:
        content: what JSON can hold.
        status: of HTTP.
        headers: beside the usual ones.
    """
    body = to_json(content, inf_nan_mode="null")
    return Response(body, status, headers, media_type=JSON)


async def read_json(request: Request, kind: type[Body]) -> Body:
    """The body of a request as what it must be.

    Raises:
        Problem: it is not JSON (400, 415), or holds what it must not (422); names the key.
    """
    stated = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if stated != JSON and not stated.endswith("+json"):
        raise Problem(415, "unsupported_media_type", f"send JSON, with the header content-type: {JSON}")
    return parse_json(await request.body(), kind)


def parse_json(body: bytes, kind: type[Body]) -> Body:
    """As :func:`read_json`, of bytes."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise problem_of_validation(error) from None


def problem_of_validation(error: ValidationError) -> Problem:
    """What is wrong with a body, by its first mistake; nothing of the body is quoted."""
    found = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in found["loc"])[:80]
    if found["type"] == MALFORMED:
        return Problem(400, "not_json", "the body is not JSON")
    known = f"{place}: {found['msg']}" if place else found["msg"]
    return Problem(422, "invalid_request", known[:300], place)


def address_of(request: Request) -> str:
    """Where a request comes from; behind a proxy that is trusted, what that says."""
    return request.client.host if request.client is not None else ""


def request_id(request: Request) -> str:
    """The id of a request."""
    visit: Visit = request.scope["uwaga"]
    return visit.id


def told_languages(
    languages: Iterable[OfferedLanguage], code: Callable[[str], str] = str
) -> list[dict[str, object]]:
    """The languages on offer as JSON has them.

    Args:
        languages: that can be translated from.
        code: what a dialect calls a language, by the server's code.
    """
    return [
        {"code": code(one.code), "name": one.name, "targets": [code(target) for target in one.targets]}
        for one in languages
    ]


@asynccontextmanager
async def while_connected(request: Request) -> AsyncIterator[None]:
    """Inside, the work for a request is cancelled when its client goes; its body must have been read."""
    task = asyncio.current_task()
    assert task is not None
    visit: Visit = request.scope["uwaga"]

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        visit.gone = True
        task.cancel()

    watching = asyncio.ensure_future(watch())
    try:
        yield
    finally:
        watching.cancel()


class EventStream(Response):
    """An answer of server-sent events, each sent as soon as it is there; it ends when its client goes.

    Args:
        request: whose body has been read.
        events: pairs of an event's name and what JSON can hold. What it raises is told as ``error``.
        told: what a problem is as JSON.
    """

    def __init__(
        self,
        request: Request,
        events: AsyncGenerator[tuple[str, object], None],
        told: Callable[[Problem], object],
    ) -> None:
        super().__init__(media_type="text/event-stream")
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-store"
        self.headers["x-accel-buffering"] = "no"  # nginx would collect them
        self._request, self._events, self._told = request, events, told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        async with while_connected(self._request), aclosing(self._events):
            # What fails before the first event is an answer of its own, with its own status.
            first = await anext(self._events, None)
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            try:
                if first is not None:
                    await send(_event(*first))
                async for name, content in self._events:
                    await send(_event(name, content))
            except Problem as problem:
                await send(_event("error", self._told(problem)))
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _event(name: str, content: object) -> dict[str, Any]:
    body = b"event: " + name.encode() + b"\ndata: " + to_json(content, inf_nan_mode="null") + b"\n\n"
    return {"type": "http.response.body", "body": body, "more_body": True}


@asynccontextmanager
async def read_form(request: Request, largest: int) -> AsyncIterator[FormData]:
    """The fields of a form, of either kind; its files are closed in the end.

    Args:
        request: whose body has not been read.
        largest: bytes of one field that is no file.

    Raises:
        Problem: it is no form, or has several files.
    """
    try:
        form = await request.form(max_files=1, max_fields=MOST_FIELDS, max_part_size=largest)
    except HTTPException as error:
        raise Problem(400, "invalid_form", f"the form cannot be read: {error.detail}"[:300]) from None
    except UnicodeDecodeError:
        raise Problem(400, "invalid_form", "the form cannot be read: it is not UTF-8") from None
    try:
        yield form
    finally:
        await form.close()

"""Bodies in, bodies out: the little of HTTP that every dialect needs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from uwaga.server.gate import Visit
from uwaga.server.problems import Problem

Body = TypeVar("Body", bound=BaseModel)
JSON = "application/json"
MALFORMED = "json_invalid"


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

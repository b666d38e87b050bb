"""What a request says, in whichever form: JSON, a form, a query."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Strict, ValidationError, WithJsonSchema
from starlette.datastructures import UploadFile
from starlette.requests import Request

from uwaga.server.exchange import read_form
from uwaga.server.problems import Problem

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
LARGEST_FIELD = 16 << 20
"""Bytes of a field that is no file."""
NESTED = re.compile(r"dictionaries\[(\d{1,3})\](?:\[(\w+)\]|\.(\w+))")
FLAGS: dict[object, bool] = {
    "0": False,
    "1": True,
    "false": False,
    "true": True,
    "False": False,
    "True": True,
}
STRINGS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
Fields = TypeVar("Fields", bound=BaseModel)


class Parameters(BaseModel):
    """The parameters of a request; one that is not known is refused by its name."""

    model_config = ConfigDict(extra="forbid")


def _flag(value: object) -> object:
    return FLAGS.get(value, value) if isinstance(value, str | int) else value


def _names(value: object) -> object:
    """Names in a list, or with commas between."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        return value
    return [name.strip() for one in listed for name in one.split(",") if name.strip()]


def _several(value: object) -> object:
    return [value] if isinstance(value, str) else value


Flag = Annotated[
    bool,
    Strict(),
    BeforeValidator(_flag),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"enum": list(FLAGS)}]}),
]
"""True or False, as JSON or a form writes it."""
Names = Annotated[list[str], BeforeValidator(_names), WithJsonSchema(STRINGS)]
"""Names in a list, or in one text with commas between."""
Several = Annotated[list[str], BeforeValidator(_several), WithJsonSchema(STRINGS)]
"""Texts in a list, or one."""


async def read_fields(request: Request, kind: type[Fields]) -> Fields:
    """The parameters of a request.

    Raises:
        Problem: its body is neither JSON nor a form (400, 415), or a parameter is missing, unknown or wrong.
    """
    return checked(await _given(request), kind)


@asynccontextmanager
async def read_upload(request: Request, kind: type[Fields]) -> AsyncIterator[tuple[Fields, UploadFile]]:
    """The parameters of a request with a file, and that, which is closed in the end.

    Raises:
        Problem: as :func:`read_fields`; or there is no file.
    """
    async with read_form(request, LARGEST_FIELD) as form:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise Problem(400, "invalid_request", "Invalid file data.", "file")
        rest = ((key, one) for key, one in form.multi_items() if key != "file")
        yield checked(_of_form(rest), kind), file


def checked(given: Mapping[str, Any], kind: type[Fields]) -> Fields:
    """Parameters as what they must be.

    Raises:
        Problem: one is missing, unknown or wrong; names it, and quotes nothing.
    """
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, found["loc"]))[:80].encode("ascii", "replace").decode()
        name = place.partition(".")[0]
        told = {
            "missing": f"Parameter '{name}' not specified.",
            "extra_forbidden": f"Parameter '{name}' is not known here.",
            "literal_error": f"Value for '{name}' not supported: {found['msg'].lower()}.",
        }.get(found["type"], f"Value for '{place}' not supported: {found['msg'].lower()}.")
        raise Problem(400, "invalid_request", told[:300], name) from None


async def _given(request: Request) -> dict[str, Any]:
    """The parameters of query and body."""
    query = _of_form(request.query_params.multi_items())
    stated = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if stated in FORMS:
        async with read_form(request, LARGEST_FIELD) as form:
            return query | _of_form(form.multi_items())
    body = await request.body()
    if not body.strip():
        return query
    if stated not in ("", "application/json"):
        raise Problem(415, "unsupported_media_type", "send JSON or a form")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise Problem(400, "not_json", "the body is not JSON") from None
    if not isinstance(found, dict):
        raise Problem(400, "not_json", "the body is no object of JSON")
    return query | found


def _of_form(items: Iterable[tuple[str, object]]) -> dict[str, Any]:
    """Fields as JSON would have them: what comes several times is a list."""
    found: dict[str, Any] = {}
    nested: dict[int, dict[str, object]] = {}
    for key, value in items:
        if isinstance(value, UploadFile):
            raise Problem(400, "invalid_form", "a file is sent that is no parameter")
        match = NESTED.fullmatch(key)
        if match is not None:
            nested.setdefault(int(match[1]), {})[match[2] or match[3]] = value
        elif key not in found:
            found[key] = value
        elif isinstance(found[key], list):
            found[key].append(value)
        else:
            found[key] = [found[key], value]
    if nested:
        found["dictionaries"] = [nested[number] for number in sorted(nested)]
    return found

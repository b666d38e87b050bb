"""LibreTranslate's dialect: what its clients send to version 1.9 is answered in its words and codes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from uwaga import __version__
from uwaga.languages.detection import AUTO
from uwaga.languages.names import language_name
from uwaga.markup.formats import Format
from uwaga.search import SearchOverrides
from uwaga.server.api_errors import ApiError
from uwaga.server.auth import Client
from uwaga.server.context import Dialect, ServerContext
from uwaga.server.dialects.libretranslate_files import add_files
from uwaga.server.dialects.v1_schema import USUAL_BEAM, WIDEST
from uwaga.server.http import (
    JSON,
    address_of,
    json_response,
    languages_response,
    parse_json,
    read_form,
    while_connected,
)
from uwaga.server.routing import Answer, Routes, openapi
from uwaga.server.served_models import ServedLanguage
from uwaga.server.service import Detected, TextAnswer
from uwaga.translator.request import build_requests

PATHS = ("/translate", "/detect", "/languages", "/translate_file", "/suggest", "/frontend/settings", "/spec")
DOWNLOAD = "/download_file/"
ALIASES = {"pb": "pt-BR", "zh": "zh-Hans", "zt": "zh-Hant"}
"""What its models are called by, and the codes that its answers have."""
NO_TEXTS = "Invalid request: q must be a text or a list of texts"
NUMBER = re.compile(r"-?[0-9]{1,9}", re.ASCII)


class LibreTranslateBody(BaseModel):
    """What ``/translate`` takes; as a form too, but for lists."""

    q: str | list[str] = Field(description="Text, or several", examples=["Hello world!"])
    source: str = Field(description="Source language code, or `auto`", examples=["en"])
    target: str = Field(description="Target language code", examples=["de"])
    format: str | None = Field(None, description="`text` or `html`")
    alternatives: int | str | None = Field(0, description="Preferred number of alternative translations")
    api_key: str | None = None


class LibreDetectBody(BaseModel):
    """What ``/detect`` takes."""

    q: str | list[str] = Field(description="What language is asked for", examples=["Hallo Welt!"])
    api_key: str | None = None


class SuggestBody(BaseModel):
    """What ``/suggest`` takes."""

    q: str = Field(description="Original text")
    s: str = Field(description="Suggested translation")
    source: str
    target: str
    api_key: str | None = None


class LibreDetection(BaseModel):
    """A language and how sure it is, in percent."""

    confidence: float
    language: str


class LibreTranslateAnswer(BaseModel):
    """Of one text, or of several as lists."""

    translatedText: str | list[str]  # noqa: N815 (as its clients read it)
    detectedLanguage: LibreDetection | list[LibreDetection] | None = None  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None


class LibreLanguage(BaseModel):
    """A language that can be translated from."""

    code: str
    name: str
    targets: list[str]


class LibreError(BaseModel):
    """Every answer that is no success."""

    model_config = ConfigDict(extra="forbid")
    error: str


ERRORS = {
    status: Answer(what, LibreError)
    for status, what in (
        (400, "Invalid request"),
        (403, "Invalid API key, or disabled here"),
        (404, "There is no such file"),
        (409, "The file is not ready"),
        (408, "The body came too slowly"),
        (413, "Too large"),
        (429, "Slow down"),
        (500, "Translation error"),
        (501, "The server lacks a library"),
        (503, "Busy or starting"),
        (504, "The time is over"),
    )
}


def routes(context: ServerContext) -> Routes:
    """The routes of the dialect."""
    routes = Routes("LibreTranslate", ERRORS)
    _add_texts(routes, context)
    add_files(routes, context)
    _add_lists(routes, context)
    return routes


def _add_texts(routes: Routes, context: ServerContext) -> None:
    @routes.add(
        "POST",
        "/translate",
        "Translate text",
        body=LibreTranslateBody,
        kind="json or form",
        answer=LibreTranslateAnswer,
    )
    async def translate(request: Request) -> Response:
        """Translate a text or a list of texts."""
        fields = await read_fields(request, context)
        client = admitted(context, fields, request)
        q = needed(fields, "q")
        source, target = needed_text(fields, "source"), needed_text(fields, "target")
        texts = _texts(q)
        alternatives = _alternatives(fields)
        kind = _format(fields)
        characters = context.charge(client, texts, "q")
        options: SearchOverrides = {}
        if alternatives:
            options = {"nbest": alternatives + 1, "beam": max(USUAL_BEAM, alternatives + 1)}
        languages = {"source": model_code(source), "target": model_code(target)}
        asked = build_requests(texts, {**languages, "format": kind, **options})
        deadline = context.settings.limits.deadline
        async with context.spending(client, characters), while_connected(request):
            answer = await context.service.translate(asked, client=client.name, deadline=deadline)
        answer.raise_first()
        return json_response(_told(answer, isinstance(q, list), source.lower() == AUTO, alternatives))

    @routes.add(
        "POST", "/detect", "Detect the language of a text", body=LibreDetectBody, kind="json or form",
        answer=list[LibreDetection],
    )  # fmt: skip
    async def detect(request: Request) -> Response:
        """The likeliest languages, the best first."""
        fields = await read_fields(request, context)
        client = admitted(context, fields, request)
        texts = _texts(needed(fields, "q"))
        context.charge(client, texts, "q")
        found = await context.service.detect("\n".join(texts))
        return json_response([_detected(one) for one in found or [Detected("en", 0.0)]])

    @routes.add("POST", "/suggest", "Suggest a better translation", body=SuggestBody, kind="json or form")
    async def suggest(request: Request) -> Response:
        """Keep a suggestion in the file of the settings, where there is one."""
        fields = await read_fields(request, context)
        client = admitted(context, fields, request)
        if context.suggestions is None:
            raise ApiError(403, "disabled", "Suggestions are disabled on this server.")
        given = {name: needed_text(fields, name) for name in ("q", "s", "source", "target")}
        context.charge(client, list(given.values()), "q")
        await context.suggestions.add(given)
        return json_response({"success": True})


def _add_lists(routes: Routes, context: ServerContext) -> None:
    @routes.add("GET", "/languages", "List the languages", answer=list[LibreLanguage])
    async def languages(request: Request) -> Response:
        """Each language with its targets; a language that is only a target has none."""
        languages = context.service.languages
        sources = {language.code for language in languages.sources}
        others = [code for code in languages.codes if code not in sources]
        listed = [*languages.sources, *(ServedLanguage(code, language_name(code), ()) for code in others)]
        return json_response(languages_response(listed, iso_code))

    @routes.add("GET", "/frontend/settings", "Settings for a web page")
    async def frontend_settings(request: Request) -> Response:
        """Limits, formats and the languages to begin with."""
        settings, pairs = context.settings, context.service.languages.sources
        first, target = pairs[0], pairs[0].targets[0]
        files = context.document_suffixes
        return json_response(
            {
                "charLimit": settings.limits.characters,
                "frontendTimeout": 500,
                "apiKeys": context.keys is not None,
                "keyRequired": context.keys is not None,
                "suggestions": context.suggestions is not None,
                "filesTranslation": bool(files),
                "supportedFilesFormat": list(files),
                "language": {
                    "source": {"code": iso_code(first.code), "name": first.name},
                    "target": {"code": iso_code(target), "name": language_name(target)},
                },
            }
        )

    description: list[Response] = []

    @routes.add("GET", "/spec", "This description")
    async def spec(request: Request) -> Response:
        """OpenAPI document of this dialect alone."""
        if not description:
            description.append(json_response(openapi(routes.routes, "uwaga", __version__, "")))
        return Response(description[0].body, media_type=JSON)


async def read_fields(request: Request, context: ServerContext) -> Mapping[str, Any]:
    """What a request holds, as JSON, as a form or in its query.

    Raises:
        ApiError: it is none of these.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == JSON:
        return parse_json(await request.body(), _AnyObject).model_extra or {}
    async with read_form(request, context.settings.limits.body_bytes) as form:
        return {**form, **request.query_params}


class _AnyObject(BaseModel):
    """An object of JSON with any keys."""

    model_config = ConfigDict(extra="allow")


def admitted(context: ServerContext, fields: Mapping[str, Any], request: Request) -> Client:
    """Who asks, by the key among the fields."""
    key = fields.get("api_key")
    if key is not None and not isinstance(key, str):
        raise ApiError(400, "invalid_request", "Invalid request: api_key must be a text", "api_key")
    return context.admit(key, address_of(request))


def needed(fields: Mapping[str, Any], name: str) -> Any:
    """A field that must be there and not empty.

    Raises:
        ApiError: it is not.
    """
    value = fields.get(name)
    if not value or isinstance(value, UploadFile):
        raise ApiError(400, "missing", f"Invalid request: missing {name} parameter", name)
    return value


def needed_text(fields: Mapping[str, Any], name: str) -> str:
    """A field that must be there and a text.

    Raises:
        ApiError: it is not.
    """
    value = needed(fields, name)
    if not isinstance(value, str):
        raise ApiError(400, "invalid_request", f"Invalid request: {name} must be a text", name)
    return value


def _texts(q: Any) -> list[str]:
    texts = q if isinstance(q, list) else [q]
    if not all(isinstance(text, str) for text in texts):
        raise ApiError(400, "invalid_request", NO_TEXTS, "q")
    return texts


def _alternatives(fields: Mapping[str, Any]) -> int:
    stated = fields.get("alternatives")
    given = "0" if stated in (None, "") else str(stated)
    if not NUMBER.fullmatch(given):
        message = "Invalid request: alternatives parameter is not a number"
        raise ApiError(400, "invalid_request", message, "alternatives")
    if int(given) >= WIDEST:
        message = f"Invalid request: alternatives parameter must be <= {WIDEST - 1}"
        raise ApiError(400, "invalid_request", message, "alternatives")
    return max(0, int(given))


def _format(fields: Mapping[str, Any]) -> Format:
    given = fields.get("format")
    given = "text" if given in (None, "") else given
    if given not in ("text", "html"):
        raise ApiError(400, "invalid_request", f"{str(given)[:20]} format is not supported", "format")
    return cast("Format", given)


def _told(answer: TextAnswer, several: bool, auto: bool, alternatives: int) -> dict[str, object]:
    texts = [one.text for one in answer.translations]
    told: dict[str, object] = {"translatedText": texts if several else texts[0]}
    if auto:
        found = [_detected(one) for one in answer.detected if one is not None]
        told["detectedLanguage"] = found if several else found[0]
    if alternatives:
        others = [
            [
                text
                for text in dict.fromkeys(other.text for other in one.alternatives)
                if text not in ("", one.text)
            ]
            for one in answer.translations
        ]
        told["alternatives"] = others if several else others[0]
    return told


def _detected(one: Detected) -> dict[str, object]:
    return {"confidence": round(100 * one.confidence, 1), "language": iso_code(one.code)}


def model_code(code: str) -> str:
    """A language as the service knows it, from LibreTranslate's code."""
    lowered = code.lower()
    return lowered if lowered not in ("pb", "zt") else ALIASES[lowered]


def iso_code(code: str) -> str:
    """A language as LibreTranslate's answers call it."""
    return ALIASES.get(code, code)


def owns(path: str) -> bool:
    """Whether a path is the dialect's."""
    return path in PATHS or path.startswith(DOWNLOAD)


def render(problem: ApiError, number: str) -> Response:
    """A problem as LibreTranslate tells it: it knows 400 for most, and 403 for a wrong key."""
    if problem.code == "key_missing":
        problem = ApiError(400, "key_missing", "Please contact the server operator to get an API key")
    elif problem.code == "key_wrong":
        problem = ApiError(403, "key_wrong", "Invalid API key")
    elif problem.code == "text_too_large":
        problem = ApiError(400, problem.code, f"Invalid request: {problem.message}")
    elif problem.status == 429:
        problem = ApiError(429, problem.code, f"Slowdown: {problem.message}", retry_after=problem.retry_after)
    status = 400 if problem.status in (415, 422) else problem.status
    return json_response({"error": problem.message}, status)


DIALECT = Dialect("libretranslate", owns, routes, render)

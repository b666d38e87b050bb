"""The LibreTranslate dialect, with the paths, messages and language codes of LibreTranslate 1.9."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from uwaga import __version__
from uwaga.files.handles import BINARY
from uwaga.languages.detection import AUTO
from uwaga.languages.names import language_name
from uwaga.markup.formats import Format, text_format
from uwaga.search import SearchOverrides
from uwaga.translator.request import build_requests
from uwaga_server.api_errors import ApiError, run_in_thread
from uwaga_server.auth import Client
from uwaga_server.context import Dialect, KeyLocation, ServerContext
from uwaga_server.dialects.documents import (
    Upload,
    document_suffixes,
    result_response,
    store_document,
    wait_for_document,
)
from uwaga_server.dialects.v1_schema import DEFAULT_BEAM, MAX_HYPOTHESES
from uwaga_server.http import (
    json_response,
    languages_response,
    read_form,
    read_parameters,
    while_connected,
)
from uwaga_server.routing import DOWNLOAD, JSON, Body, ResponseDescription, Routes, openapi
from uwaga_server.served_models import ServedLanguage
from uwaga_server.service import DetectedLanguage, TextAnswer
from uwaga_server.store.documents import NO_DOCUMENT

MAX_SUGGESTIONS_BYTES = 64 << 20
"""Maximum size of the suggestions file in bytes; suggestions that would exceed it are refused."""


def add_suggestion(path: Path, suggestion: Mapping[str, str]) -> None:
    """Append a suggested translation, as a line of JSON, to a file that all processes share."""
    text = json.dumps({"time": int(time.time()), **suggestion}, ensure_ascii=False) + "\n"
    line = text.encode("utf-8", "replace")
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | BINARY, 0o600)
        try:
            if os.fstat(handle).st_size + len(line) > MAX_SUGGESTIONS_BYTES:
                raise ApiError(507, "storage_full", "the suggestions file is full")
            os.write(handle, line)  # a single call, so that lines from several processes are not interleaved
        finally:
            os.close(handle)
    except OSError:
        message = "suggestions cannot be stored now"
        raise ApiError(503, "storage_unavailable", message, retry_after=60) from None


DOWNLOAD_NAME = re.compile(r"([0-9a-f]{32})-([0-9a-f]{64})\..{1,255}", re.DOTALL)
DOWNLOAD_ROUTE = "/download_file/{filename}"
FILES_DISABLED_MESSAGE = "Files translation are disabled on this server."


class FileForm(BaseModel):
    """Parameters of ``/translate_file`` in addition to the file."""

    source: str
    target: str
    api_key: str | None = None


class FileAnswer(BaseModel):
    """The URL of a translated document."""

    translatedFileUrl: str  # noqa: N815 (as its clients read it)


def add_file_routes(routes: Routes, context: ServerContext) -> None:
    """Add the document routes."""

    @routes.add(
        "POST",
        "/translate_file",
        "Translate a document",
        body=Body(FileForm, "upload"),
        response_model=FileAnswer,
    )
    async def translate_file(request: Request) -> Response:
        """Translate a document, and return the URL of the translation."""
        if context.documents is None:
            raise ApiError(403, "disabled", FILES_DISABLED_MESSAGE)
        client = KEY.admit_early(context, request)
        async with read_form(request, context.settings.limits.body_bytes) as form:
            client = client or KEY.admit(context, request, form.get("api_key"))
            file, source, target = _upload_fields(form)
            target = _server_code(context, target, "target")
            source_code = None if source == AUTO else _server_code(context, source, "source")
            secret = secrets.token_hex(32)
            document = Upload(file.file, file.filename or "", source_code, target, key=secret, linked=True)
            document_id, spec = await store_document(context, client, document)
            store = context.stores.documents
        try:
            async with while_connected(request):
                status = await wait_for_document(store, None, document_id, secret)
            if status.state == "failed":
                message = f"Cannot translate the file: {status.error}"
                raise ApiError(400, status.code or "failed", message, "file")
        except BaseException:
            with contextlib.suppress(ApiError):
                await run_in_thread(store.remove, None, document_id, secret)
            raise
        base = context.settings.public_url or str(request.base_url)
        name = f"{document_id}-{secret}.{quote(spec.name, safe='')}"
        return json_response({"translatedFileUrl": f"{base.rstrip('/')}{DOWNLOAD_PATH}{name}"})

    @routes.add("GET", DOWNLOAD_ROUTE, "Download a translated document", responses={200: DOWNLOAD})
    async def download_file(request: Request, filename: str) -> Response:
        """Download the result of `/translate_file`; the URL contains a secret, so no key is required."""
        if context.documents is None:
            raise ApiError(400, "disabled", FILES_DISABLED_MESSAGE)
        return await result_response(context.stores.documents, None, *_id_and_secret(filename))

    @routes.add("DELETE", DOWNLOAD_ROUTE, "Delete a translated document", status=204)
    async def delete_file(request: Request, filename: str) -> Response:
        """Delete the document and translation of a download URL; LibreTranslate has no such request."""
        await run_in_thread(context.stores.documents.remove, None, *_id_and_secret(filename))
        return Response(status_code=204)


def _id_and_secret(filename: str) -> tuple[str, str]:
    """Return the id and the key of a document from the file name in its download URL."""
    match = DOWNLOAD_NAME.fullmatch(filename)
    if match is None:
        raise ApiError(404, "not_found", NO_DOCUMENT)
    return match[1], match[2]


def _upload_fields(form: Mapping[str, Any]) -> tuple[UploadFile, str, str]:
    """Return the file, the source language and the target language of an upload."""
    file, source, target = form.get("file"), form.get("source"), form.get("target")
    for name, value, expected_type in (
        ("file", file, UploadFile),
        ("source", source, str),
        ("target", target, str),
    ):
        if not isinstance(value, expected_type) or value == "":
            raise ApiError(400, "missing", f"Invalid request: missing {name} parameter", name)
    assert isinstance(file, UploadFile)
    if not file.filename:
        raise ApiError(400, "invalid_request", "Invalid request: empty file", "file")
    return file, str(source).lower(), str(target).lower()


KEY = KeyLocation((), parameter="api_key")
FIXED_PATHS = (
    "/translate",
    "/detect",
    "/languages",
    "/translate_file",
    "/suggest",
    "/frontend/settings",
    "/spec",
)
DOWNLOAD_PATH = "/download_file/"
ALIASES = {"pb": "pt-BR", "zh": "zh-Hans", "zt": "zh-Hant"}
"""Map from LibreTranslate's former language codes to its current codes."""
WEBLATE_PLACEHOLDER = r"\[X\d{1,9}X\]"
"""Pattern of the placeholders that Weblate sends for variables and markup, such as ``[X5X]``."""
INVALID_TEXTS_MESSAGE = "Invalid request: q must be a text or a list of texts"
INTEGER = re.compile(r"-?[0-9]{1,9}", re.ASCII)
PARAMETERS = ("q", "s", "source", "target", "format", "alternatives", "api_key")


class LibreTranslateBody(BaseModel):
    """Parameters of `/translate`, as JSON or as a form; a form cannot contain lists."""

    q: str | list[str] = Field(description="A text, or a list of texts", examples=["Hello world!"])
    source: str = Field(description="Source language code, or `auto`", examples=["en"])
    target: str = Field(description="Target language code", examples=["de"])
    format: str | None = Field(None, description="`text` or `html`")
    alternatives: int | str | None = Field(0, description="Requested number of alternative translations")
    api_key: str | None = None


class LibreDetectBody(BaseModel):
    """Parameters of ``/detect``."""

    q: str | list[str] = Field(description="Text whose language to detect", examples=["Hallo Welt!"])
    api_key: str | None = None


class SuggestBody(BaseModel):
    """Parameters of ``/suggest``."""

    q: str = Field(description="Original text")
    s: str = Field(description="Suggested translation")
    source: str
    target: str
    api_key: str | None = None


class LibreDetection(BaseModel):
    """A language and its probability in percent."""

    confidence: float
    language: str


class LibreTranslateAnswer(BaseModel):
    """The translation of a text, or lists of translations if the request contains a list of texts."""

    translatedText: str | list[str]  # noqa: N815 (as its clients read it)
    detectedLanguage: LibreDetection | list[LibreDetection] | None = None  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None


class LibreLanguage(BaseModel):
    """A source language with its target languages."""

    code: str
    name: str
    targets: list[str]


class LibreError(BaseModel):
    """The body of an error response."""

    model_config = ConfigDict(extra="forbid")
    error: str


ERRORS = {
    status: ResponseDescription(description, LibreError)
    for status, description in (
        (400, "Invalid request"),
        (403, "The API key is invalid, or the function is disabled"),
        (404, "The file does not exist"),
        (409, "The file is not ready"),
        (408, "The body arrived too slowly"),
        (413, "The request is too large"),
        (429, "The rate limit is exceeded"),
        (500, "Translation error"),
        (501, "A required library is not installed"),
        (503, "The server is busy or starting"),
        (504, "The request timed out"),
    )
}


def routes(context: ServerContext) -> Routes:
    """Return the routes of the dialect."""
    routes = Routes("LibreTranslate", ERRORS)
    _add_text_routes(routes, context)
    add_file_routes(routes, context)
    _add_list_routes(routes, context)
    return routes


def _add_text_routes(routes: Routes, context: ServerContext) -> None:
    @routes.add(
        "POST",
        "/translate",
        "Translate text",
        body=Body(LibreTranslateBody, "json or form"),
        response_model=LibreTranslateAnswer,
    )
    async def translate(request: Request) -> Response:
        """Translate a text or a list of texts."""
        client, fields = await admit_with_parameters(context, request)
        q = require_parameter(fields, "q")
        source, target = require_text(fields, "source"), require_text(fields, "target")
        texts = _texts(q)
        context.check_size(texts, "q")
        alternatives = _alternatives(fields)
        format_ = _format(fields)
        options: SearchOverrides = {}
        if alternatives:
            options = {"nbest": alternatives + 1, "beam": max(DEFAULT_BEAM, alternatives + 1)}
        languages = {
            "source": _server_code(context, source, "source"),
            "target": _server_code(context, target, "target"),
        }
        placeholders = (
            {"placeholders": [WEBLATE_PLACEHOLDER]}
            if any(re.search(WEBLATE_PLACEHOLDER, text) for text in texts)
            else {}
        )
        requests = [
            replace(request, format="message")
            if format_ == "text" and text_format(request.text) == "message"
            else request
            for request in build_requests(texts, {**languages, **placeholders, "format": format_, **options})
        ]
        answer = await context.translate(request, client, requests, "q")
        return json_response(_response(answer, isinstance(q, list), source.lower() == AUTO, alternatives))

    @routes.add(
        "POST", "/detect", "Detect the language of a text", body=Body(LibreDetectBody, "json or form"),
        response_model=list[LibreDetection],
    )  # fmt: skip
    async def detect(request: Request) -> Response:
        """Detect the language of a text."""
        client, fields = await admit_with_parameters(context, request)
        texts = _texts(require_parameter(fields, "q"))
        context.admit_texts(client, texts, "q")
        detected_language = await context.service.detect("\n".join(texts))
        return json_response(
            [_detection_response(language) for language in detected_language or [DetectedLanguage("en", 0.0)]]
        )

    @routes.add("POST", "/suggest", "Suggest a better translation", body=Body(SuggestBody, "json or form"))
    async def suggest(request: Request) -> Response:
        """Store a suggested translation in the suggestions file of the server."""
        client, fields = await admit_with_parameters(context, request)
        if context.settings.suggestions is None:
            raise ApiError(403, "disabled", "Suggestions are disabled on this server.")
        suggestion = {name: require_text(fields, name) for name in ("q", "s", "source", "target")}
        context.admit_texts(client, list(suggestion.values()), "q")
        await run_in_thread(add_suggestion, context.settings.suggestions, suggestion)
        return json_response({"success": True})


def _add_list_routes(routes: Routes, context: ServerContext) -> None:
    @routes.add("GET", "/languages", "List the languages", response_model=list[LibreLanguage])
    async def languages(request: Request) -> Response:
        """List each language with its target languages, including languages that can only be targets."""
        languages = context.service.languages
        sources = {language.code for language in languages.sources}
        target_only = [code for code in languages.codes if code not in sources]
        language_list = [
            *languages.sources,
            *(ServedLanguage(code, language_name(code), ()) for code in target_only),
        ]
        return json_response(languages_response(language_list, iso_code))

    @routes.add("GET", "/frontend/settings", "Get settings for a web page")
    async def frontend_settings(request: Request) -> Response:
        """Return the limits, document formats and default languages."""
        settings, pairs = context.settings, context.service.languages.sources
        first_pair, target = pairs[0], pairs[0].targets[0]
        files = () if context.documents is None else document_suffixes()
        return json_response(
            {
                "charLimit": settings.limits.characters,
                "frontendTimeout": 500,
                "apiKeys": context.keys is not None,
                "keyRequired": context.keys is not None,
                "suggestions": context.settings.suggestions is not None,
                "filesTranslation": bool(files),
                "supportedFilesFormat": list(files),
                "language": {
                    "source": {"code": iso_code(first_pair.code), "name": first_pair.name},
                    "target": {"code": iso_code(target), "name": language_name(target)},
                },
            }
        )

    @functools.cache
    def document() -> bytes:
        return to_json(openapi(routes.routes, "uwaga", __version__, ""))

    @routes.add("GET", "/spec", "Get the OpenAPI document")
    async def spec(request: Request) -> Response:
        """Return the OpenAPI document of this dialect."""
        return Response(document(), media_type=JSON)


async def admit_with_parameters(context: ServerContext, request: Request) -> tuple[Client, dict[str, Any]]:
    """Authenticate a request, and return its client and parameters."""
    client = KEY.admit_early(context, request)
    parameters = await read_parameters(request)
    fields = {name: parameters[name] for name in PARAMETERS if name in parameters}
    key = fields.get("api_key")
    if key is not None and not isinstance(key, str):
        raise ApiError(400, "invalid_request", "Invalid request: api_key must be a string", "api_key")
    return client or KEY.admit(context, request, key), fields


def require_parameter(fields: Mapping[str, Any], name: str) -> Any:
    """Return the value of a required parameter, or raise an ApiError if it is missing or empty."""
    value = fields.get(name)
    if not value:
        raise ApiError(400, "missing", f"Invalid request: missing {name} parameter", name)
    return value


def require_text(fields: Mapping[str, Any], name: str) -> str:
    """Return the value of a required parameter, or raise an ApiError if it is not a non-empty string."""
    value = require_parameter(fields, name)
    if not isinstance(value, str):
        raise ApiError(400, "invalid_request", f"Invalid request: {name} must be a string", name)
    return value


def _texts(q: Any) -> list[str]:
    texts = q if isinstance(q, list) else [q]
    if not all(isinstance(text, str) for text in texts):
        raise ApiError(400, "invalid_request", INVALID_TEXTS_MESSAGE, "q")
    return texts


def _alternatives(fields: Mapping[str, Any]) -> int:
    value = fields.get("alternatives")
    number = "0" if value in (None, "") else str(value)
    if not INTEGER.fullmatch(number):
        message = "Invalid request: alternatives parameter is not a number"
        raise ApiError(400, "invalid_request", message, "alternatives")
    if int(number) >= MAX_HYPOTHESES:
        message = f"Invalid request: alternatives parameter must be <= {MAX_HYPOTHESES - 1}"
        raise ApiError(400, "invalid_request", message, "alternatives")
    return max(0, int(number))


def _format(fields: Mapping[str, Any]) -> Format:
    format_ = fields.get("format")
    format_ = "text" if format_ in (None, "") else format_
    if format_ not in ("text", "html"):
        raise ApiError(400, "invalid_request", f"{str(format_)[:20]} format is not supported", "format")
    return cast("Format", format_)


def _response(
    answer: TextAnswer, is_list: bool, detects_source: bool, alternatives: int
) -> dict[str, object]:
    texts = [translation.text for translation in answer.translations]
    content: dict[str, object] = {"translatedText": texts if is_list else texts[0]}
    if detects_source:
        detections = [
            _detection_response(text.detected) for text in answer.texts if text.detected is not None
        ]
        content["detectedLanguage"] = detections if is_list else detections[0]
    if alternatives:
        alternative_texts = [
            [
                text
                for text in dict.fromkeys(alternative.text for alternative in translation.alternatives)
                if text not in ("", translation.text)
            ]
            for translation in answer.translations
        ]
        content["alternatives"] = alternative_texts if is_list else alternative_texts[0]
    return content


def _detection_response(language: DetectedLanguage) -> dict[str, object]:
    return {"confidence": round(100 * language.confidence, 1), "language": iso_code(language.code)}


def model_code(code: str) -> str:
    """Return the server's language code for a code of LibreTranslate."""
    lowercase_code = code.lower()
    return lowercase_code if lowercase_code not in ("pb", "zt") else ALIASES[lowercase_code]


def _server_code(context: ServerContext, code: str, parameter: str) -> str:
    """Return the server's language code for a code in a request, or raise an ApiError."""
    server_code = model_code(code)
    if server_code != AUTO and context.service.languages.resolve(server_code) is None:
        raise ApiError(400, "unsupported_language", f"{code[:20]} is not supported", parameter)
    return server_code


def iso_code(code: str) -> str:
    """Return LibreTranslate's language code for a code of the server."""
    return ALIASES.get(code, code)


def owns(path: str) -> bool:
    """Return whether a path belongs to the dialect."""
    return path in FIXED_PATHS or path.startswith(DOWNLOAD_PATH)


def render(problem: ApiError, request_id: str) -> Response:
    """Return an error response with the format and status of LibreTranslate, such as 403 for a wrong key."""
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

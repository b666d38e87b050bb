"""Common parts of the dialects for browser extensions: texts with placeholders, keys in URLs, and errors.

The documentation of the extensions specifies the fields of requests and responses, but neither the paths nor
the error format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import BaseModel
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from uwaga.languages.codes import with_region
from uwaga.languages.detection import AUTO
from uwaga.markup.formats import text_format
from uwaga.translator.request import Request, build_requests
from uwaga_server.api_errors import ApiError, UnknownLanguageError, api_error
from uwaga_server.auth import Client
from uwaga_server.context import KeyLocation, ServerContext
from uwaga_server.http import json_response
from uwaga_server.routing import error_responses

KEY = KeyLocation(("bearer",), parameter="key")


class ExtensionError(BaseModel):
    """The code and message of an error."""

    code: str
    message: str


ERRORS = error_responses(ExtensionError, without=[404])


def page_requests(texts: Sequence[str], source: str, target: str) -> list[Request]:
    """Return translation requests for the texts of a web page; the format of each text is detected.

    Args:
        texts: the texts.
        source: code of the source language; ``auto`` or empty to detect it.
        target: code of the target language.
    """
    return [
        replace(request, format=text_format(request.text))
        for request in build_requests(texts, {"source": source or AUTO, "target": target})
    ]


async def translate_page(
    context: ServerContext,
    request: HttpRequest,
    client: Client,
    texts: Sequence[Request],
    parameter: str = "text",
) -> list[tuple[str, str]]:
    """Return the translation and the source language of each text.

    The codes for Chinese are ``zh-CN`` and ``zh-TW``. A text in an unsupported language is returned unchanged
    with an empty code.
    """
    answer = await context.translate(request, client, texts, parameter, raise_errors=False)
    if not any(text.source for text in answer.texts):
        answer.raise_first()
    for translation in answer.translations:
        if translation.error is not None and not isinstance(translation.error, UnknownLanguageError):
            raise api_error(translation.error)
    return [
        (text.text if result.translation.error else result.translation.text, with_region(result.source))
        for text, result in zip(texts, answer.texts, strict=True)
    ]


def render(problem: ApiError, request_id: str) -> Response:
    """Return an error response in JSON, with the code and message of the error."""
    return json_response({"code": problem.code, "message": problem.message}, problem.status)

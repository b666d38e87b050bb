"""Immersive Translate's custom API: the translation of a list of texts, for its browser extension.

Its documentation names the fields, and neither a path, a key nor the form of an error.
"""

from __future__ import annotations

import re
from dataclasses import replace

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from uwaga.server.api_errors import ApiError
from uwaga.server.context import Dialect, KeyPlace, ServerContext
from uwaga.server.dialects.v1_schema import LanguageCode
from uwaga.server.http import json_response, parse_json
from uwaga.server.routing import Answer, Routes
from uwaga.translator.request import build_requests

PATH = "/immersive"
KEY = KeyPlace(("bearer",), parameter="key")
"""The extension has no field for a key: its users write it in the URL."""
PLACEHOLDER = re.compile(r"</?[a-z]\d+>")
"""A placeholder in the form of a tag, ``<b0></b0>``; texts with one are read as HTML."""


class ImmersiveBody(BaseModel):
    """Texts to translate."""

    text_list: list[str] = Field(examples=[["A man sleeps."]])
    target_lang: LanguageCode = Field(examples=["de"])
    source_lang: LanguageCode = Field("auto", description="Detected for each text if `auto`.")


class ImmersiveTranslation(BaseModel):
    """A translation, and the language of its text."""

    detected_source_lang: str
    text: str


class ImmersiveAnswer(BaseModel):
    """Translations in the order of the texts."""

    translations: list[ImmersiveTranslation]


class ImmersiveError(BaseModel):
    """An error."""

    code: str
    message: str


ERRORS = {
    status: Answer(what, ImmersiveError)
    for status, what in (
        (400, "Not JSON, or a language that is not served"),
        (401, "No key"),
        (403, "A wrong key, or its characters are used up"),
        (413, "Too much for one request"),
        (422, "A field is missing or invalid"),
        (429, "Too much for a minute; see `Retry-After`"),
        (503, "Busy or starting; see `Retry-After`"),
        (504, "The time is over"),
    )
}


def routes(context: ServerContext) -> Routes:
    """Return the routes of the dialect."""
    routes = Routes("Immersive Translate", ERRORS)

    @routes.add("POST", PATH, "Translate texts", body=ImmersiveBody, answer=ImmersiveAnswer)
    async def translate(request: Request) -> Response:
        """Translate a list of texts."""
        client = KEY.client(context, request)
        body = parse_json(await request.body(), ImmersiveBody)
        texts = [
            replace(text, format="html") if PLACEHOLDER.search(text.text) else text
            for text in build_requests(
                body.text_list, {"source": body.source_lang, "target": body.target_lang}
            )
        ]
        answer = await context.translate(request, client, texts, "text_list")
        return json_response(
            {
                "translations": [
                    {"detected_source_lang": source, "text": translation.text}
                    for source, translation in zip(answer.sources, answer.translations, strict=True)
                ]
            }
        )

    return routes


def render(problem: ApiError, number: str) -> Response:
    """Return an error as JSON with its code and message."""
    return json_response({"code": problem.code, "message": problem.message}, problem.status)


DIALECT = Dialect("immersive", lambda path: path == PATH, routes, render)

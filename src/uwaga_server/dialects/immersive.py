"""The dialect for the custom API of Immersive Translate, a browser extension that sends lists of texts."""

from __future__ import annotations

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from uwaga.languages.detection import AUTO
from uwaga_server.context import Dialect, ServerContext
from uwaga_server.dialects.browser_extensions import ERRORS, KEY, page_requests, render, translate_page
from uwaga_server.dialects.v1_schema import LanguageCode
from uwaga_server.http import json_response, parse_json, read_body
from uwaga_server.routing import Routes

PATH = "/immersive"


class ImmersiveBody(BaseModel):
    """Texts to translate."""

    text_list: list[str] = Field(examples=[["A man sleeps."]])
    target_lang: LanguageCode = Field(examples=["de"])
    source_lang: str = Field(AUTO, description="Detected for each text if `auto`.")


class ImmersiveTranslation(BaseModel):
    """A translation, with the source language of the text."""

    detected_source_lang: str
    text: str


class ImmersiveAnswer(BaseModel):
    """Translations in the order of the texts."""

    translations: list[ImmersiveTranslation]


def routes(context: ServerContext) -> Routes:
    """Return the routes of the dialect."""
    routes = Routes("Immersive Translate", ERRORS)

    @routes.add("POST", PATH, "Translate texts", body=ImmersiveBody, response_model=ImmersiveAnswer)
    async def translate(request: Request) -> Response:
        """Translate a list of texts."""
        client = KEY.admit(context, request)
        body = parse_json(await read_body(request), ImmersiveBody)
        context.check_size(body.text_list, "text_list")
        texts = page_requests(body.text_list, body.source_lang, body.target_lang)
        answer = await translate_page(context, request, client, texts, "text_list")
        return json_response(
            {"translations": [{"detected_source_lang": source, "text": text} for text, source in answer]}
        )

    return routes


DIALECT = Dialect("immersive", lambda path: path == PATH, routes, render)

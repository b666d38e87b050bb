"""kiss-translator's custom API, for its browser extension: one text, or a list of texts."""

from __future__ import annotations

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from uwaga.languages.detection import AUTO
from uwaga_server.api_errors import ApiError
from uwaga_server.context import Dialect, ServerContext
from uwaga_server.dialects.extensions import ERRORS, KEY, page_requests, render, translate_page
from uwaga_server.dialects.v1_schema import LanguageCode
from uwaga_server.http import json_response, parse_json, read_body
from uwaga_server.routing import ResponseDescription, Routes

PATH = "/kiss"


class KissBody(BaseModel):
    """A text, or several if the extension's option to combine requests is on."""

    text: str | None = Field(None, examples=["A man sleeps."])
    texts: list[str] | None = Field(None, examples=[["A man sleeps."]])
    source: str = Field(AUTO, alias="from", description="Detected for each text if `auto` or empty.")
    target: LanguageCode = Field(alias="to", examples=["de"])


class KissTranslation(BaseModel):
    """The translation of a text, and its languages."""

    text: str
    source: str = Field(alias="from")
    target: str = Field(alias="to")


KISS_ITEM = {
    "type": "object",
    "required": ["text", "src"],
    "properties": {"text": {"type": "string"}, "src": {"type": "string"}},
}
TRANSLATIONS = {"anyOf": [KissTranslation.model_json_schema(), {"type": "array", "items": KISS_ITEM}]}


def routes(context: ServerContext) -> Routes:
    """Return the routes of the dialect."""
    routes = Routes("kiss-translator", ERRORS)
    success = ResponseDescription(
        "A translation, or a list of them", content={"application/json": {"schema": TRANSLATIONS}}
    )

    @routes.add("POST", PATH, "Translate texts", body=KissBody, responses={200: success})
    async def translate(request: Request) -> Response:
        """Translate a text, or a list of texts."""
        client = KEY.admit(context, request)
        body = parse_json(await read_body(request), KissBody)
        texts = body.texts
        if texts is None:
            if body.text is None:
                raise ApiError(400, "missing", "give a `text`, or a list of `texts`", "text")
            texts = [body.text]
        context.check_size(texts)
        requests = page_requests(texts, body.source, body.target)
        translated = await translate_page(context, request, client, requests)
        if body.texts is None:
            [(text, source)] = translated
            return json_response({"text": text, "from": source, "to": body.target})
        return json_response([{"text": text, "src": source} for text, source in translated])

    return routes


DIALECT = Dialect("kiss", lambda path: path == PATH, routes, render)

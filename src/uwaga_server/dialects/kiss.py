"""The dialect for the custom API of kiss-translator, a browser extension that sends one or more texts."""

from __future__ import annotations

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from uwaga.languages.detection import AUTO
from uwaga_server.api_errors import ApiError
from uwaga_server.context import Dialect, ServerContext
from uwaga_server.dialects.browser_extensions import ERRORS, KEY, page_requests, render, translate_page
from uwaga_server.dialects.v1_schema import LanguageCode
from uwaga_server.http import json_response, parse_json, read_body
from uwaga_server.routing import ResponseDescription, Routes

PATH = "/kiss"


class KissBody(BaseModel):
    """A text to translate, or a list of texts if the extension combines requests."""

    text: str | None = Field(None, examples=["A man sleeps."])
    texts: list[str] | None = Field(None, examples=[["A man sleeps."]])
    source: str = Field(AUTO, alias="from", description="Detected for each text if `auto` or empty.")
    target: LanguageCode = Field(alias="to", examples=["de"])


class KissTranslation(BaseModel):
    """A translation, with its source and target language."""

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
                raise ApiError(400, "missing", "send either `text` or a list of `texts`", "text")
            texts = [body.text]
        context.check_size(texts)
        requests = page_requests(texts, body.source, body.target)
        answer = await translate_page(context, request, client, requests)
        if body.texts is None:
            [(text, source)] = answer
            return json_response({"text": text, "from": source, "to": body.target})
        return json_response([{"text": text, "src": source} for text, source in answer])

    return routes


DIALECT = Dialect("kiss", lambda path: path == PATH, routes, render)

"""The DeepLX dialect, version 1.2, served under ``/deeplx``, since other dialects use the same paths."""

from __future__ import annotations

import time

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from uwaga.languages.detection import AUTO
from uwaga.markup.formats import Format
from uwaga.translator.request import build_requests
from uwaga_server.api_errors import ApiError
from uwaga_server.auth import Client
from uwaga_server.context import Dialect, KeyLocation, ServerContext
from uwaga_server.dialects.deepl.account import deepl_code
from uwaga_server.http import Parameters, TextList, json_response, parse_json, read_body, read_fields
from uwaga_server.routing import Body, Routes, error_responses
from uwaga_server.service import TextAnswer

PREFIX = "/deeplx"
KEY = KeyLocation(("bearer", "deepl-auth-key"), parameter="token")
FORMATS_BY_TAG_HANDLING: dict[str, Format] = {"": "text", "html": "html", "xml": "xml"}
STATUSES = {415: 400, 422: 400}
"""Map from the server's HTTP statuses to DeepLX's HTTP statuses."""
TAG_HANDLING = Field("", json_schema_extra={"enum": list(FORMATS_BY_TAG_HANDLING)})


class DeepLXBody(BaseModel):
    """A text to translate."""

    text: str = Field("", examples=["A man sleeps."])
    target_lang: str = Field(min_length=1, examples=["DE"])
    source_lang: str | None = Field(AUTO, description="Detected if `auto` or empty.")
    tag_handling: str | None = TAG_HANDLING


class DeepLXTexts(Parameters):
    """Texts to translate, in the format of DeepL's API."""

    text: TextList = Field(min_length=1, examples=[["A man sleeps."]])
    target_lang: str = Field(min_length=1, examples=["DE"])
    source_lang: str | None = AUTO
    tag_handling: str | None = TAG_HANDLING


class DeepLXAnswer(BaseModel):
    """A translation; `alternatives` is null, as in DeepLX since version 1.2."""

    code: int
    id: int
    data: str
    alternatives: None
    source_lang: str
    target_lang: str
    method: str


class DeepLXTranslation(BaseModel):
    """A translation, in the format of DeepL's API."""

    detected_source_language: str
    text: str


class DeepLXTranslations(BaseModel):
    """Translations in the order of the texts."""

    translations: list[DeepLXTranslation]


class DeepLXMessage(BaseModel):
    """An HTTP status and a message, for errors and the greeting."""

    code: int
    message: str


def routes(context: ServerContext) -> Routes:
    """Return the routes of the dialect."""
    routes = Routes("DeepLX", error_responses(DeepLXMessage, without=[422]), PREFIX)

    @routes.add("GET", "", "Get a greeting", response_model=DeepLXMessage)
    async def greeting(request: Request) -> Response:
        """Return a message that states the path for translations."""
        return json_response({"code": 200, "message": f"uwaga: send texts to {PREFIX}/translate by POST"})

    async def translate_text(request: Request, method: str, token: str = "") -> Response:
        client = KEY.admit(context, request, token)
        body = parse_json(await read_body(request), DeepLXBody)
        [translated_text] = (await _translate(context, request, client, [body.text], body)).texts
        return json_response(
            {
                "code": 200,
                "id": time.time_ns() // 1_000_000,
                "data": translated_text.translation.text,
                "alternatives": None,
                "source_lang": deepl_code(translated_text.source),
                "target_lang": body.target_lang,
                "method": method,
            }
        )

    @routes.add("POST", "/translate", "Translate a text", body=DeepLXBody, response_model=DeepLXAnswer)
    async def translate(request: Request) -> Response:
        """Translate a text."""
        return await translate_text(request, "Free")

    @routes.add(
        "POST", "/{token}/translate", "Translate a text", body=DeepLXBody, response_model=DeepLXAnswer
    )
    async def translate_with_token(request: Request, token: str) -> Response:
        """Translate a text, with the key in the path, as in the hosted version of DeepLX."""
        return await translate_text(request, "Free", token)

    @routes.add("POST", "/v1/translate", "Translate a text", body=DeepLXBody, response_model=DeepLXAnswer)
    async def translate_pro(request: Request) -> Response:
        """Translate a text; the response differs from that of `/translate` only in its `method`."""
        return await translate_text(request, "Pro")

    @routes.add(
        "POST", "/v2/translate", "Translate texts", body=Body(DeepLXTexts, "json or form"),
        response_model=DeepLXTranslations,
    )  # fmt: skip
    async def translate_texts(request: Request) -> Response:
        """Translate each text separately, unlike DeepLX, which joins the texts."""
        client = KEY.admit(context, request)
        body = await read_fields(request, DeepLXTexts)
        answer = await _translate(context, request, client, body.text, body)
        return json_response(
            {
                "translations": [
                    {"detected_source_language": deepl_code(text.source), "text": text.translation.text}
                    for text in answer.texts
                ]
            }
        )

    return routes


async def _translate(
    context: ServerContext,
    request: Request,
    client: Client,
    texts: list[str],
    body: DeepLXBody | DeepLXTexts,
) -> TextAnswer:
    """Check the texts of a request and translate them."""
    text_format = FORMATS_BY_TAG_HANDLING.get(body.tag_handling or "")
    if text_format is None:
        message = "Invalid tag_handling value. Allowed values are 'html' and 'xml'."
        raise ApiError(400, "invalid_request", message, "tag_handling")
    if not any(texts):
        raise ApiError(404, "no_text", "No text to translate", "text")
    context.check_size(texts)
    languages = {"source": body.source_lang or AUTO, "target": body.target_lang}
    return await context.translate(
        request, client, build_requests(texts, {**languages, "format": text_format})
    )


def render(problem: ApiError, request_id: str) -> Response:
    """Return an error response in DeepLX's format."""
    status, message = STATUSES.get(problem.status, problem.status), problem.message
    if problem.code in ("key_missing", "key_wrong"):
        status, message = 401, "Invalid access token"
    elif problem.code == "not_found":
        message = "Path not found"
    return json_response({"code": status, "message": message}, status)


DIALECT = Dialect("deeplx", lambda path: f"{path}/".startswith(f"{PREFIX}/"), routes, render)

"""The dialect for clients of Google's Cloud Translation API, basic edition (version 2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from uwaga.languages.codes import with_region
from uwaga.languages.detection import AUTO
from uwaga.languages.names import language_name
from uwaga.translator.request import build_requests
from uwaga_server.api_errors import ApiError
from uwaga_server.auth import Client
from uwaga_server.context import Dialect, KeyLocation, ServerContext
from uwaga_server.http import Fields, Names, Parameters, TextList, json_response, read_parameters, validate
from uwaga_server.routing import Body, Decorated, Model, Routes, error_responses
from uwaga_server.service import DetectedLanguage

PREFIX = "/language/translate/v2"
KEY = KeyLocation(("bearer",), header="x-goog-api-key", parameter="key")
UNDETERMINED = DetectedLanguage("und", 0.0)


class GoogleKey(Parameters):
    """The API key, which can also be sent in the header `X-Goog-Api-Key` or `Authorization: Bearer`."""

    key: str | None = None


class GoogleTexts(GoogleKey):
    """Texts to translate."""

    q: TextList = Field(min_length=1, description="A text, or a list of texts.", examples=[["A man sleeps."]])
    target: str = Field(min_length=1, max_length=32, examples=["de"])
    source: str | None = Field(None, max_length=32, description="Detected for each text if omitted.")
    format: Literal["html", "text"] | None = "html"
    model: Literal["", "base", "nmt"] | None = Field(None, description="Has no effect.")
    cid: Names | None = Field(None, description="Refused, since custom models are not supported.")


class GoogleDetect(GoogleKey):
    """Texts whose language is to be detected."""

    q: TextList = Field(min_length=1, description="A text, or a list of texts.", examples=[["A man sleeps."]])


class GoogleLanguages(GoogleKey):
    """Parameters of the list of languages."""

    target: str | None = Field(
        None, max_length=32, description="A supported language; if given, English names are listed."
    )
    model: Literal["", "base", "nmt"] | None = Field(None, description="Has no effect.")


class GoogleTranslation(BaseModel):
    """A translation, with the source language if it was detected and the model if the request named one."""

    translatedText: str  # noqa: N815 (as its clients read it)
    detectedSourceLanguage: str | None = None  # noqa: N815
    model: str | None = None


class GoogleTranslations(BaseModel):
    """Translations in the order of the texts."""

    translations: list[GoogleTranslation]


class GoogleTranslationsAnswer(BaseModel):
    """The response to a translation request."""

    data: GoogleTranslations


class GoogleDetection(BaseModel):
    """A detected language and its probability; `und` for a text without letters."""

    language: str
    confidence: float
    isReliable: bool  # noqa: N815


class GoogleDetections(BaseModel):
    """The detected languages: a list with one language for each text."""

    detections: list[list[GoogleDetection]]


class GoogleDetectionsAnswer(BaseModel):
    """The response to a detection request."""

    data: GoogleDetections


class GoogleLanguage(BaseModel):
    """A language, with its name if the request has the parameter `target`."""

    language: str
    name: str | None = None


class GoogleLanguageList(BaseModel):
    """The supported languages."""

    languages: list[GoogleLanguage]


class GoogleLanguagesAnswer(BaseModel):
    """The response to a request for the list of languages."""

    data: GoogleLanguageList


class GoogleReason(BaseModel):
    """The reason for an error."""

    message: str
    domain: str
    reason: str


class GoogleProblem(BaseModel):
    """An error: its HTTP status, message, reasons and status word."""

    code: int
    message: str
    errors: list[GoogleReason]
    status: str


class GoogleError(BaseModel):
    """The body of an error response."""

    error: GoogleProblem


def routes(context: ServerContext) -> Routes:
    """Return the routes of the dialect."""
    routes = Routes("Google Translate", error_responses(GoogleError, without=[401, 422]), PREFIX)

    def add(path: str, summary: str, body: Model, response_model: Model) -> Callable[[Decorated], Decorated]:
        """Return a decorator that adds an endpoint for both GET and POST."""

        def register(endpoint: Decorated) -> Decorated:
            routes.add("GET", path, summary, body=Body(body, "query"), response_model=response_model)(
                endpoint
            )
            routes.add("POST", path, summary, body=Body(body, "json or form"), response_model=response_model)(
                endpoint
            )
            return endpoint

        return register

    @add("", "Translate texts", GoogleTexts, GoogleTranslationsAnswer)
    async def translate(request: Request) -> Response:
        """Translate one or more texts."""
        client, fields = await _admit_with_parameters(context, request, GoogleTexts)
        if fields.cid:
            raise ApiError(400, "not_supported", "Parameter 'cid' is not supported by this server.", "cid")
        context.check_size(fields.q, "q")
        options = {
            "source": fields.source or AUTO,
            "target": fields.target,
            "format": fields.format or "html",
        }
        answer = await context.translate(request, client, build_requests(fields.q, options), "q")
        model = {"model": fields.model} if fields.model else {}
        translations = [
            {
                "translatedText": text.translation.text,
                **({"detectedSourceLanguage": with_region(text.detected.code)} if text.detected else {}),
                **model,
            }
            for text in answer.texts
        ]
        return json_response({"data": {"translations": translations}})

    @add("/detect", "Detect languages", GoogleDetect, GoogleDetectionsAnswer)
    async def detect(request: Request) -> Response:
        """Detect the language of each text, which is one of the server's languages."""
        client, fields = await _admit_with_parameters(context, request, GoogleDetect)
        context.admit_texts(client, fields.q, "q")
        languages = [next(iter(await context.service.detect(text)), UNDETERMINED) for text in fields.q]
        detections = [
            [{"language": with_region(language.code), "confidence": language.confidence, "isReliable": False}]
            for language in languages
        ]
        return json_response({"data": {"detections": detections}})

    @add("/languages", "List languages", GoogleLanguages, GoogleLanguagesAnswer)
    async def languages(request: Request) -> Response:
        """List the languages, with their English names if the request has the parameter `target`."""
        _, fields = await _admit_with_parameters(context, request, GoogleLanguages)
        if fields.target:
            context.service.language(fields.target, "target")
        language_list = [
            {"language": with_region(code), **({"name": language_name(code)} if fields.target else {})}
            for code in sorted(context.service.languages.codes)
        ]
        return json_response({"data": {"languages": language_list}})

    return routes


async def _admit_with_parameters(
    context: ServerContext, request: Request, model_type: type[Fields]
) -> tuple[Client, Fields]:
    """Authenticate a request, and return its client and parameters."""
    client = KEY.admit_early(context, request)
    parameters = await read_parameters(request)
    client = client or KEY.admit(context, request, parameters.get("key"))
    for name, field in model_type.model_fields.items():
        if field.is_required() and name not in parameters:
            raise ApiError(400, "missing", f"Parameter '{name}' not specified.", name)
    return client, validate(parameters, model_type)


STATUSES = {401: 403, 408: 400, 415: 400, 422: 400}
"""Map from the server's HTTP statuses to Google's HTTP statuses."""
ERROR_DETAILS = {
    400: ("global", "invalid", "INVALID_ARGUMENT"),
    403: ("global", "forbidden", "PERMISSION_DENIED"),
    404: ("global", "notFound", "NOT_FOUND"),
    405: ("global", "httpMethodNotAllowed", "UNIMPLEMENTED"),
    413: ("global", "uploadTooLarge", "INVALID_ARGUMENT"),
    429: ("usageLimits", "rateLimitExceeded", "RESOURCE_EXHAUSTED"),
    500: ("global", "backendError", "INTERNAL"),
    501: ("global", "notImplemented", "UNIMPLEMENTED"),
    503: ("global", "backendError", "UNAVAILABLE"),
    504: ("global", "backendError", "DEADLINE_EXCEEDED"),
}
"""The domain, reason and status word of an error for each HTTP status."""
REASONS = {"missing": "required", "key_wrong": "badRequest", "quota_exceeded": "dailyLimitExceeded"}
"""Map from the server's error codes to Google's error reasons."""


def render(problem: ApiError, request_id: str) -> Response:
    """Return an error response in Google's format."""
    status, message = STATUSES.get(problem.status, problem.status), problem.message
    if problem.code == "key_missing":
        message = "The request is missing a valid API key."
    elif problem.code == "key_wrong":
        status, message = 400, "API key not valid. Please pass a valid API key."
    domain, reason, status_word = ERROR_DETAILS.get(status, ERROR_DETAILS[500])
    errors = [{"message": message, "domain": domain, "reason": REASONS.get(problem.code, reason)}]
    return json_response(
        {"error": {"code": status, "message": message, "errors": errors, "status": status_word}}, status
    )


DIALECT = Dialect("google", lambda path: f"{path}/".startswith(f"{PREFIX}/"), routes, render)

"""The dialect for OpenAI's chat completions API, for clients that ask a language model for translations.

The base URL ends with ``/openai/v1``, since ``/v1/models`` is already a path of the v1 dialect.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from uwaga.languages.detection import AUTO
from uwaga.languages.names import language_code
from uwaga.markup.formats import text_format
from uwaga.translator.request import Request as TextRequest
from uwaga_server.api_errors import ApiError
from uwaga_server.auth import Client
from uwaga_server.context import Dialect, KeyLocation, ServerContext
from uwaga_server.dialects.browser_extensions import page_requests
from uwaga_server.dialects.translation_prompt import read_prompt
from uwaga_server.dialects.v1_schema import LanguageCode
from uwaga_server.http import EventStream, json_response, read_json, request_id
from uwaga_server.routing import ResponseDescription, Routes, error_responses
from uwaga_server.served_models import ServedLanguages
from uwaga_server.service import TextAnswer

PREFIX = "/openai/v1"
KEY = KeyLocation(("bearer",), header="api-key")
"""The places where a request may contain the API key; some clients use the header of Azure."""
MODEL = "uwaga"
"""Name of the model for all language pairs; the messages must then name the target language."""
MAX_MODEL_LENGTH = 65
"""Maximum number of characters of a model name that consists of two language codes."""
NEUTRAL_VALUES: dict[str, object] = {
    "n": 1,
    "tools": [],
    "functions": [],
    "logprobs": False,
    "top_logprobs": 0,
    "logit_bias": {},
    "stop": [],
    "audio": None,
    "modalities": ["text"],
    "prediction": None,
    "response_format": {"type": "text"},
    "web_search_options": None,
}
"""Unsupported options, each with the value that has no effect."""
OPENAI_CODES = {
    "key_missing": "invalid_api_key",
    "key_wrong": "invalid_api_key",
    "quota_exceeded": "insufficient_quota",
    "too_many_requests": "rate_limit_exceeded",
}
"""Map from the server's error codes to OpenAI's error codes."""
OPENAI_STATUSES = {"key_wrong": 401, "quota_exceeded": 429, "invalid_request": 400}
"""Map from the server's error codes to OpenAI's HTTP statuses."""
DONE_EVENT = b"data: [DONE]\n\n"
STRICT_CONFIG = ConfigDict(strict=True)


class ContentPart(BaseModel):
    """A part of the content of a message."""

    model_config = STRICT_CONFIG

    type: str = Field(description="Must be `text`; other types are refused.")
    text: str = ""


class ChatMessage(BaseModel):
    """A message of a chat."""

    model_config = STRICT_CONFIG

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None


class Term(BaseModel):
    """A glossary term with its required translation."""

    model_config = STRICT_CONFIG

    source: str
    target: str


class TranslationOptions(BaseModel):
    """The languages and terms of a translation, in the format of Alibaba Cloud's Qwen-MT models."""

    model_config = STRICT_CONFIG

    target_lang: LanguageCode = Field(description="Name or code of the target language.", examples=["German"])
    source_lang: LanguageCode = Field(
        AUTO, description="Name or code of the source language; detected if `auto`."
    )
    terms: list[Term] = Field([], max_length=5000)


class StreamOptions(BaseModel):
    """Options of a stream."""

    model_config = ConfigDict(strict=True, extra="allow")

    include_usage: bool | None = Field(
        False, description="Add a chunk with token counts; the text is translated again to count them."
    )


class ChatBody(BaseModel):
    """A chat whose last user message contains the text to translate."""

    model_config = ConfigDict(
        strict=True,
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "model": MODEL,
                    "messages": [{"role": "user", "content": "Translate to German: The weather is nice."}],
                }
            ]
        },
    )

    model: Annotated[
        str, Field(min_length=1, max_length=200, description="`uwaga`, or a language pair such as `en-de`.")
    ]
    messages: list[ChatMessage] = Field(min_length=1, max_length=2000)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    translation_options: TranslationOptions | None = None

    @property
    def streams_usage(self) -> bool:
        """True if the request asks for a last chunk with token counts."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)


class Segment(BaseModel):
    """One of several texts in a message, with its id."""

    model_config = STRICT_CONFIG

    id: int | str
    text: str


class Segments(BaseModel):
    """The JSON message that KISS Translator sends with its default prompt: the texts of a page."""

    model_config = STRICT_CONFIG

    targetLanguage: LanguageCode  # noqa: N815
    segments: list[Segment]
    glossary: dict[str, str] = Field({}, max_length=5000)


class ChatAnswer(BaseModel):
    """A chat completion."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, int]


class Model(BaseModel):
    """The description of a model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelsAnswer(BaseModel):
    """The list of models."""

    object: Literal["list"]
    data: list[Model]


class OpenAIProblem(BaseModel):
    """The message, type, parameter and code of an error."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(BaseModel):
    """The body of an error response."""

    error: OpenAIProblem


ERRORS = error_responses(OpenAIError, without=[403, 422]) | {
    415: ResponseDescription("The body is not JSON", OpenAIError)
}


def routes(context: ServerContext) -> Routes:
    """Return the routes of the dialect."""
    routes = Routes("OpenAI", ERRORS, PREFIX)
    _add_model_routes(routes, context)
    _add_chat_route(routes, context)
    return routes


def _add_model_routes(routes: Routes, context: ServerContext) -> None:
    languages, creation_time = context.service.languages, int(time.time())

    def describe(name: str) -> dict[str, object]:
        return {"id": name, "object": "model", "created": creation_time, "owned_by": "uwaga"}

    @routes.add("GET", "/models", "List the models", response_model=ModelsAnswer)
    async def models(request: Request) -> Response:
        """List the model `uwaga`, for languages that the messages name, and a model for each pair."""
        KEY.admit(context, request)
        pairs = [f"{source.code}-{target}" for source in languages.sources for target in source.targets]
        return json_response({"object": "list", "data": [describe(name) for name in (MODEL, *pairs)]})

    @routes.add("GET", "/models/{model}", "Describe a model", response_model=Model)
    async def model(request: Request, model: str) -> Response:
        """Return the description of a model."""
        KEY.admit(context, request)
        _model_languages(languages, model)
        return json_response(describe(model))


def _add_chat_route(routes: Routes, context: ServerContext) -> None:
    events: dict[str, object] = {"text/event-stream": {}}
    success = ResponseDescription("The translation, or events if `stream` is true", ChatAnswer, events)

    @routes.add("POST", "/chat/completions", "Translate a message", body=ChatBody, responses={200: success})
    async def chat_completions(request: Request) -> Response:
        """Translate the text in the last user message."""
        client = KEY.admit(context, request)
        body = await read_json(request, ChatBody)
        _check_options(body)
        pair = _model_languages(context.service.languages, body.model)
        system, message = _message_texts(body)
        segments = _read_segments(message)
        json_key = None
        if segments is None:
            text, json_key = _text_request(body, system, message, pair)
            texts = [text]
            if body.stream and json_key is None:
                truncation_event = asyncio.Event()
                pieces = await _translation_pieces(context, client, text, truncation_event.set)
                get_usage = partial(_greedy_usage, context, client, text) if body.streams_usage else None
                return stream_completion(request, body.model, pieces, truncation_event.is_set, get_usage)
        else:
            context.check_size([segment.text for segment in segments.segments], "messages")
            texts = _segment_requests(segments, pair[0])
        answer = await context.translate(request, client, texts, "messages")
        if segments is not None:
            content = _segments_content(segments, answer)
        else:
            content = answer.translations[0].text
            if json_key is not None:
                content = json.dumps({json_key: content}, ensure_ascii=False)
        if body.stream:
            is_truncated = partial(_is_truncated, answer)
            get_usage = partial(_answer_usage, answer) if body.streams_usage else None
            return stream_completion(request, body.model, _single_piece(content), is_truncated, get_usage)
        return json_response(_completion(request, body.model, content, answer))


async def _translation_pieces(
    context: ServerContext, client: Client, text: TextRequest, on_truncated: Callable[[], object]
) -> AsyncGenerator[str, None]:
    """Charge the client for a text, and return a generator of the pieces of its translation."""
    await context.charge_usage(client, context.admit_texts(client, [text.text], "messages"))
    deadline = context.settings.limits.deadline
    return context.service.stream(text, client=client.name, deadline=deadline, on_truncated=on_truncated)


async def _greedy_usage(context: ServerContext, client: Client, text: TextRequest) -> dict[str, int]:
    """Translate a text greedily, as a stream does, and return its token counts."""
    greedy = replace(text, search={"beam": 1})
    answer = await context.service.translate(
        [greedy], client=client.name, deadline=context.settings.limits.deadline
    )
    return _usage(answer)


async def _answer_usage(answer: TextAnswer) -> dict[str, int]:
    return _usage(answer)


def _check_options(body: ChatBody) -> None:
    """Raise an ApiError if a request has an unsupported option."""
    if body.stream_options is not None and not body.stream:
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise ApiError(400, "invalid_request", message, "stream_options")
    for name, value in (body.model_extra or {}).items():
        if name in NEUTRAL_VALUES and value is not None and value != NEUTRAL_VALUES[name]:
            message = f"Unsupported parameter: {name!r} does not apply to translation; omit it"
            raise ApiError(400, "unsupported_parameter", message, name)


def _model_languages(languages: ServedLanguages, model: str) -> tuple[str | None, str | None]:
    """Return the source and target language in a model name; each is None if the name does not state it."""
    if model == MODEL:
        return None, None
    parts = model.split("-") if len(model) <= MAX_MODEL_LENGTH else []
    for split in range(1, len(parts)):
        source, target = "-".join(parts[:split]), languages.resolve("-".join(parts[split:]))
        if target is not None and source == AUTO:
            return None, target
        source_code = languages.resolve(source)
        if (
            source_code is not None
            and target is not None
            and languages.route(source_code, target) is not None
        ):
            return source_code, target
    message = f"The model {model[:60]!r} does not exist; use {MODEL!r} or a language pair such as 'en-de'"
    raise ApiError(404, "model_not_found", message, "model")


def _message_texts(body: ChatBody) -> tuple[str, str]:
    """Return the text of all system messages and the text of the last user message."""
    system = [_message_text(message) for message in body.messages if message.role in ("system", "developer")]
    user_messages = [message for message in body.messages if message.role == "user"]
    if not user_messages:
        raise ApiError(400, "no_message", "messages must include one with the role 'user'", "messages")
    return "\n\n".join(system), _message_text(user_messages[-1])


def _message_text(message: ChatMessage) -> str:
    if isinstance(message.content, list):
        if any(part.type != "text" for part in message.content):
            raise ApiError(400, "not_text", "only text can be translated; omit other parts", "messages")
        return "".join(part.text for part in message.content)
    return message.content or ""


def _text_request(
    body: ChatBody, system: str, message: str, pair: tuple[str | None, str | None]
) -> tuple[TextRequest, str | None]:
    """Return the translation request for a message, and the JSON key for the translation.

    The key is None unless the prompt asks for a JSON object.
    """
    options = body.translation_options
    if options is not None:
        glossary = {term.source: term.target for term in options.terms} or None
        source, target = _find_language_code(options.source_lang), _find_language_code(options.target_lang)
        return _plain_request(message, source, target, glossary), None
    prompt = read_prompt(message, system)
    if prompt is not None:
        return _plain_request(prompt.text, prompt.source or pair[0], prompt.target), prompt.json_key
    if pair[1] is None:
        message = (
            "No translation request was recognised. Write 'Translate to German:' before the text, name the "
            "language in the system prompt, or use a language pair such as 'en-de' as the model"
        )
        raise ApiError(400, "no_translation_request", message, "messages")
    return _plain_request(message, pair[0], pair[1]), None


def _plain_request(
    text: str, source: str | None, target: str | None, glossary: dict[str, str] | None = None
) -> TextRequest:
    """Return the translation request for a text; raise an ApiError if the text is a JSON list or object."""
    if text.lstrip()[:1] in ("{", "[") and _is_json(text):
        message = "the text is JSON; send its strings one by one, or upload it as a document"
        raise ApiError(400, "not_text", message, "messages")
    return TextRequest(
        text, source=source or AUTO, target=target, format=text_format(text), glossary=glossary
    )


def _is_json(text: str) -> bool:
    """Return whether a text is a JSON list or object that contains a string."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, list | dict) and '"' in text


def _find_language_code(name: str) -> str:
    return language_code(name) or name


def _read_segments(message: str) -> Segments | None:
    if not message.lstrip().startswith("{"):
        return None
    try:
        return Segments.model_validate_json(message)
    except ValidationError:
        return None


def _segment_requests(segments: Segments, source: str | None) -> list[TextRequest]:
    """Return translation requests for segments; terms with an empty translation are kept unchanged."""
    texts = [segment.text for segment in segments.segments]
    glossary = {term: target or term for term, target in segments.glossary.items()} or None
    requests = page_requests(texts, source or AUTO, _find_language_code(segments.targetLanguage))
    return [replace(request, glossary=glossary) for request in requests]


def _segments_content(segments: Segments, answer: TextAnswer) -> str:
    """Return the translations of segments, as the JSON that KISS Translator's prompt asks for."""
    translations = [
        {"id": segment.id, "text": text.translation.text, "sourceLanguage": text.source}
        for segment, text in zip(segments.segments, answer.texts, strict=True)
    ]
    return json.dumps({"translations": translations}, ensure_ascii=False)


def _completion(request: Request, model: str, content: str, answer: TextAnswer) -> dict[str, object]:
    """Return a translation as a chat completion object."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content, "refusal": None},
        "logprobs": None,
        "finish_reason": _finish_reason(_is_truncated(answer)),
    }
    return {
        **_completion_head(request, "chat.completion", model),
        "choices": [choice],
        "usage": _usage(answer),
    }


def _is_truncated(answer: TextAnswer) -> bool:
    return any(translation.truncated for translation in answer.translations)


def _finish_reason(is_truncated: bool) -> str:
    return "length" if is_truncated else "stop"


def _usage(answer: TextAnswer) -> dict[str, int]:
    source_count = sum(len(translation.source_tokens) for translation in answer.translations)
    target_count = sum(len(translation.tokens) for translation in answer.translations)
    return {
        "prompt_tokens": source_count,
        "completion_tokens": target_count,
        "total_tokens": source_count + target_count,
    }


def _completion_head(request: Request, kind: str, model: str) -> dict[str, object]:
    completion_id = f"chatcmpl-{request_id(request)}"
    return {"id": completion_id, "object": kind, "created": int(time.time()), "model": model}


def stream_completion(
    request: Request,
    model: str,
    pieces: AsyncGenerator[str, None],
    is_truncated: Callable[[], bool],
    get_usage: Callable[[], Awaitable[dict[str, int]]] | None = None,
) -> EventStream:
    """Return a stream of chat completion chunks with the pieces of a translation.

    Args:
        request: the request.
        model: the name of the model, as requested.
        pieces: the pieces of the translation.
        is_truncated: called after the last piece; returns whether a length limit truncated the translation.
        get_usage: called after the last piece; returns the token counts for a final chunk without choices.
            If None, there is no such chunk.
    """
    head = _completion_head(request, "chat.completion.chunk", model) | (
        {} if get_usage is None else {"usage": None}
    )

    def chunk(delta: Mapping[str, str], reason: str | None = None) -> tuple[str, object]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return "", {**head, "choices": [choice]}

    async def events() -> AsyncGenerator[tuple[str, object], None]:
        delta = {"role": "assistant"}
        async with aclosing(pieces):
            async for piece in pieces:
                yield chunk({**delta, "content": piece})
                delta = {}
        if delta:
            yield chunk({**delta, "content": ""})
        yield chunk({}, _finish_reason(is_truncated()))
        if get_usage is not None:
            yield "", {**head, "choices": [], "usage": await get_usage()}

    return EventStream(request, events(), error_content, error_event="", end=DONE_EVENT)


async def _single_piece(content: str) -> AsyncGenerator[str, None]:
    yield content


def error_content(problem: ApiError) -> dict[str, object]:
    """Return the JSON body of an error response."""
    code = OPENAI_CODES.get(problem.code, problem.code)
    kind = "server_error" if problem.status >= 500 else "invalid_request_error"
    error = {"message": problem.message, "type": kind, "param": problem.parameter or None, "code": code}
    return {"error": error}


def render(problem: ApiError, request_id: str) -> Response:
    """Return an error response with the format and status of OpenAI's API."""
    return json_response(error_content(problem), OPENAI_STATUSES.get(problem.code, problem.status))


DIALECT = Dialect("openai", lambda path: path.startswith(f"{PREFIX}/"), routes, render)

"""The native dialect ``v1``, which offers all results that the library can return for a translation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import TypedDict

from starlette.requests import Request
from starlette.responses import Response

from uwaga.languages.detection import AUTO, is_detected
from uwaga.results.translation import Translation
from uwaga.results.views import attention_view_data
from uwaga.scheduling.thread_queue import ThreadQueue
from uwaga.search import SearchOverrides
from uwaga.terms import Glossary
from uwaga.translator.memories import TextContext
from uwaga.translator.request import Request as TextRequest
from uwaga.translator.request import prefix_list
from uwaga_server.api_errors import ApiError, api_error, run_in_thread
from uwaga_server.auth import Client
from uwaga_server.context import BEARER_KEY, Dialect, ServerContext
from uwaga_server.dialects import v1_schema as schema
from uwaga_server.dialects.memories import request_memory
from uwaga_server.dialects.v1_inside import add_inside_route
from uwaga_server.dialects.v1_schema import ERRORS, NOT_FOUND, ContextBody, DetectBody, TranslateBody
from uwaga_server.dialects.v1_stored import document_routes, glossary_routes
from uwaga_server.http import (
    EventStream,
    json_response,
    languages_response,
    read_json,
    request_id,
    while_connected,
)
from uwaga_server.routing import ResponseDescription, Routes
from uwaga_server.service import DetectedLanguage, TextAnswer

PATH_PREFIX = "/v1"
PACKED_VIEW = "view"
"""Value of ``attention`` that requests the form of :func:`uwaga.results.views.attention_view_data`."""


def routes(context: ServerContext) -> Routes:
    """Return the routes of the dialect."""
    routes = Routes("v1", ERRORS, PATH_PREFIX)
    _add_translate_route(routes, context)
    add_inside_route(context, routes)
    _add_list_routes(routes, context)
    routes.routes += [*glossary_routes(context).routes, *document_routes(context).routes]
    if context.settings.memories is not None:
        from uwaga_server.dialects.v1_memories import memory_routes  # needs the extra `memory`

        routes.routes += memory_routes(context).routes
    return routes


def _add_translate_route(routes: Routes, context: ServerContext) -> None:
    events: dict[str, object] = {"text/event-stream": {}}
    success = ResponseDescription(
        "Translations, or events if `stream` or `progress` is true", schema.TranslateAnswer, events
    )

    @routes.add(
        "POST", "/translate", "Translate texts", body=TranslateBody, responses={200: success, 404: NOT_FOUND}
    )
    async def translate(request: Request) -> Response:
        """Translate one or more texts; the response contains a translation or an error for each text.

        With `stream`, the response is a stream of events: `piece` with the next characters of the
        translation, and finally `done` with all requested results, or `error`. With `progress`, the events
        are `progress`, with the number of sentences that are `done` and the number `of` sentences known so
        far, and finally `done` with the usual response, or `error`.
        """
        client = BEARER_KEY.admit(context, request)
        body = await read_json(request, TranslateBody)
        texts = [body.text] if isinstance(body.text, str) else body.text
        characters = context.admit_texts(client, texts)
        terms = None if body.glossary_id is None else await stored_terms(context, client, body)
        check_drafts(context, body, texts)
        requests = build_text_requests(body, texts, terms)
        if body.memory is not None:
            source = None if body.source == AUTO else body.source
            memory = await request_memory(context, client, body.memory, source, body.target)
            requests = [
                replace(text_request, memory=memory, threshold=body.threshold) for text_request in requests
            ]
        caller = Caller(client=client.name, deadline=context.settings.limits.deadline)
        if body.stream:
            check_stream_options(body)
            await context.charge_usage(client, characters)
            return _event_stream(request, _events(context, requests[0], body, caller))
        usage = context.charge_or_refund(client, characters)
        if body.progress:
            return _event_stream(request, _progress_events(context, requests, body, caller, usage))
        async with usage, while_connected(request):
            answer = await context.service.translate(requests, **caller)
        translations = await run_in_thread(translations_response, answer, body)  # slow for many words
        return json_response({"translations": translations, "model": answer.model})

    @routes.add(
        "POST",
        "/detect",
        "Detect the languages of texts",
        body=DetectBody,
        response_model=schema.DetectAnswer,
    )
    async def detect(request: Request) -> Response:
        """Detect the language of each text; the result is null for a text without letters."""
        client = BEARER_KEY.admit(context, request)
        body = await read_json(request, DetectBody)
        texts = [body.text] if isinstance(body.text, str) else body.text
        context.admit_texts(client, texts)
        detections = [await context.service.detect(text) for text in texts]
        return json_response(
            {
                "detections": [
                    schema.detection_response(languages[0]) if languages else None for languages in detections
                ]
            }
        )


def _add_list_routes(routes: Routes, context: ServerContext) -> None:
    @routes.add("GET", "/languages", "List the languages", response_model=schema.LanguagesAnswer)
    async def languages(request: Request) -> Response:
        """List each source language with its target languages, and whether it is detected in texts."""
        BEARER_KEY.admit(context, request)

        def listed() -> list[dict[str, object]]:
            languages = languages_response(context.service.languages.sources)
            return [language | {"detected": is_detected(str(language["code"]))} for language in languages]

        return json_response({"languages": await run_in_thread(listed)})  # the detector may be loading

    @routes.add("GET", "/models", "List the models", response_model=schema.ModelsAnswer)
    async def models(request: Request) -> Response:
        """List each model with its language codes, and whether it is loaded and available."""
        BEARER_KEY.admit(context, request)
        pool = context.service.pool
        loaded_names, failures = pool.loaded_names(), pool.failures()
        listed_models = [
            {
                "name": model.name,
                "sources": list(model.sources),
                "targets": list(model.targets),
                "loaded": model.name in loaded_names,
                "available": not model.problem and model.name not in failures,
            }
            for model in context.service.served
        ]
        return json_response({"models": listed_models, "memories": context.settings.memories is not None})


async def _events(
    context: ServerContext, request: TextRequest, body: TranslateBody, caller: Caller
) -> AsyncGenerator[tuple[str, object], None]:
    """Yield the events of a stream: the pieces of a translation, then the requested results."""
    [detected_language] = await context.service.sources([request])
    resolved_request = (
        request if detected_language is None else replace(request, source=detected_language.code)
    )
    pieces = []
    async for piece in context.service.stream(resolved_request, **caller):
        pieces.append(piece)
        yield "piece", {"text": piece}
    if body.tokens or body.scores or body.alignment or body.attention:
        answer = await context.service.translate(
            [replace(resolved_request, search={**_search_overrides(body), "beam": 1})], **caller
        )
        [result] = translations_response(answer, body)
    else:
        result = {"text": "".join(pieces)}
    if detected_language is not None and request.source in (None, AUTO):
        result["detected_source"] = schema.detection_response(detected_language)
    yield "done", result


def _event_stream(request: Request, events: AsyncGenerator[tuple[str, object], None]) -> EventStream:
    identifier = request_id(request)
    return EventStream(request, events, lambda error: error_response(error, identifier))


async def _progress_events(
    context: ServerContext,
    requests: Sequence[TextRequest],
    body: TranslateBody,
    caller: Caller,
    usage: AbstractAsyncContextManager[None],
) -> AsyncGenerator[tuple[str, object], None]:
    """Yield the number of translated sentences each time that it grows, then the translations.

    Args:
        context: the server's context.
        requests: the texts.
        body: the body of the request.
        caller: the client and the deadline.
        usage: charges the client while the texts are translated, and refunds it if that fails.
    """
    counts = ThreadQueue[tuple[int, int]]()

    def report(completed_count: int, total: int) -> None:
        counts.put((completed_count, total))

    async with usage:
        task = asyncio.ensure_future(context.service.translate(requests, progress=report, **caller))
        counts.close_after(task)
        try:
            async for completed_count, total in counts:
                yield "progress", {"done": completed_count, "of": total}
            answer = await task
        finally:
            task.cancel()
    translations = await run_in_thread(translations_response, answer, body)
    yield "done", {"translations": translations, "model": answer.model}


def check_stream_options(body: TranslateBody) -> None:
    """Raise an ApiError if a request has options that a stream does not support."""
    if not isinstance(body.text, str):
        raise ApiError(400, "no_stream", "a stream translates one text, not a list", "text")
    search = body.search_options()
    refused_options = {
        "nbest": search.get("nbest", 1) > 1,
        "beam": search.get("beam", 1) > 1,
        "format": body.format != "text",
        "progress": body.progress,
    }
    for name, is_set in refused_options.items():
        if is_set:
            raise ApiError(
                400,
                "no_stream",
                f"a stream requires greedy search and plain text; omit {name} or stream",
                name,
            )


def check_drafts(context: ServerContext, body: TranslateBody, texts: Sequence[str]) -> None:
    """Raise an ApiError if the number or length of the drafts is wrong, or the search is not greedy."""
    drafts = body.draft if isinstance(body.draft, list) else [body.draft or ""] * len(texts)
    if len(drafts) != len(texts):
        message = f"{len(drafts)} drafts for {len(texts)} texts; send one for all texts or one for each text"
        raise ApiError(400, "wrong_draft", message, "draft")
    max_characters = context.settings.limits.characters
    if (characters := sum(map(len, drafts))) > max_characters:
        message = f"{characters} characters of drafts in one request; send at most {max_characters}"
        raise ApiError(413, "text_too_large", message, "draft")
    search = body.search_options() if any(drafts) else {}
    for name, neutral_value in (("nbest", 1), ("sample", False), ("mbr", 0), ("beam", 1)):
        if search.get(name, neutral_value) not in (neutral_value, None):
            raise ApiError(400, "wrong_draft", f"a draft requires greedy search; omit {name} or draft", name)


async def stored_terms(context: ServerContext, client: Client, body: TranslateBody) -> Glossary:
    """Return the terms of the stored glossary that a request names by its ``glossary_id``."""
    if body.glossary is not None:
        raise ApiError(400, "two_glossaries", "send either glossary or glossary_id, not both", "glossary_id")
    if body.source in (None, AUTO):
        message = "a stored glossary requires the source language; set source"
        raise ApiError(400, "source_missing", message, "source")
    ids, service = (body.glossary_id or "",), context.service
    languages = service.language(body.source or "", "source"), service.language(body.target, "target")
    return await run_in_thread(context.stores.cache.terms, context.owner(client), ids, *languages)


class Caller(TypedDict):
    """Keyword arguments for a call of the service: the name of the client and the time limit in seconds."""

    client: str
    deadline: float


def build_text_requests(
    body: TranslateBody, texts: Sequence[str], terms: Glossary | None = None
) -> list[TextRequest]:
    """Return the requests to the translation service, one for each text.

    Args:
        body: the body of the HTTP request.
        texts: the texts.
        terms: the terms of the stored glossary that the body names; None if it names none.
    """
    shared_request = TextRequest(
        "",
        target=body.target,
        source=body.source,
        format=body.format,
        search=_search_overrides(body),
        glossary=terms or body.glossary,
        glossary_mode=body.glossary_mode,
        ignore_tags=body.ignore_tags,
        placeholders=body.placeholders,
        split=body.split,
        bias=body.bias,
        mask=body.mask,
    )
    prefixes, drafts = (prefix_list(value, len(texts)) for value in (body.prefix, body.draft))
    contexts = text_contexts(body.context, len(texts))
    names = ["the text"] if len(texts) == 1 else [f"text {number}" for number in range(1, len(texts) + 1)]
    return [
        replace(shared_request, text=text, prefix=prefix, draft=draft, name=name, context=context)
        for text, prefix, draft, name, context in zip(texts, prefixes, drafts, names, contexts, strict=True)
    ]


def text_contexts(
    context: ContextBody | Sequence[ContextBody] | None, count: int
) -> list[TextContext | None]:
    """Return the context of each text.

    Args:
        context: one context for all texts, a list with a context for each text, or None.
        count: the number of texts.
    """
    if context is None:
        return [None] * count
    contexts = [context] * count if isinstance(context, ContextBody) else context
    if len(contexts) != count:
        message = f"{len(contexts)} contexts for {count} texts; send one for all texts or one for each text"
        raise ApiError(400, "wrong_context", message, "context")
    return [
        TextContext(text_context.key, text_context.before, text_context.after) for text_context in contexts
    ]


def _search_overrides(body: TranslateBody) -> SearchOverrides:
    options = body.search_options()
    if not body.stream:
        options |= {"alignment": True} if body.alignment else {}
        options |= {"attention": body.attention is True or "all"} if body.attention else {}
    return options


def translations_response(answer: TextAnswer, body: TranslateBody) -> list[dict[str, object]]:
    """Return the translations of an answer as JSON."""
    return [translation_response(text.translation, body, text.detected) for text in answer.texts]


def translation_response(
    translation: Translation, body: TranslateBody, detected_language: DetectedLanguage | None
) -> dict[str, object]:
    """Return a translation as JSON: its text and the requested results."""
    content: dict[str, object] = {
        "text": translation.text,
        "score": translation.score if translation.token_scores else None,
    }
    if detected_language is not None:
        content["detected_source"] = schema.detection_response(detected_language)
    if translation.error is not None:
        problem = api_error(translation.error)
        content["error"] = {"code": problem.code, "message": problem.message}
    if translation.warnings:
        content["warnings"] = list(translation.warnings)
    names = [name for name, field in _OPTIONAL_PARTS if getattr(body, field) not in (False, PACKED_VIEW)]
    if names:
        parts = translation.to_dict(confidence=body.scores)
        content |= {name: parts[name] for name in names if name in parts}
    if translation.terms:
        content["terms"] = [term.to_dict() for term in translation.terms]
    if translation.memory:
        content["memory"] = [use.to_dict() for use in translation.memory]
    if body.attention == PACKED_VIEW and translation.attentions is not None:
        content["attention_view"] = attention_view_data(
            translation.attentions, translation.source_tokens, translation.tokens
        )
    if translation.alternatives:
        content["alternatives"] = [
            translation_response(alternative, body, None) for alternative in translation.alternatives
        ]
    return content


_OPTIONAL_PARTS = (
    ("tokens", "tokens"),
    ("source_tokens", "tokens"),
    ("token_scores", "scores"),
    ("words", "scores"),
    ("confidence", "scores"),
    ("attention", "attention"),
    ("attentions", "attention"),
    ("alignment", "alignment"),
    ("coverage", "coverage"),
)
"""Optional results of a translation, each with the field of the body that requests it."""


def error_response(problem: ApiError, request_id: str) -> dict[str, object]:
    """Return the JSON body of an error response."""
    error = {"code": problem.code, "message": problem.message, "request_id": request_id}
    if problem.parameter:
        error["parameter"] = problem.parameter
    return {"error": error}


def render(problem: ApiError, request_id: str) -> Response:
    """Return an error response in JSON."""
    return json_response(error_response(problem, request_id), problem.status)


DIALECT = Dialect("v1", lambda path: path.startswith(PATH_PREFIX + "/"), routes, render)

"""The server's own dialect: all that the library tells of a translation."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from uwaga.contracts import Translation
from uwaga.decoding import SearchOverrides
from uwaga.server.context import Dialect, ServerContext
from uwaga.server.exchange import address_of, json_response, read_json, while_connected
from uwaga.server.problems import Problem, problem_of
from uwaga.server.service import Detected, TextAnswer, TextRequest

PREFIX = "/v1"
WIDEST = 16
"""Hypotheses per sentence that a request may ask for."""
LanguageCode = Annotated[str, Field(min_length=1, max_length=32, examples=["en"])]


class TranslateBody(BaseModel):
    """What is to be translated, and what is to be told of it."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"text": "The weather is nice today.", "source": "en", "target": "de"}]
        },
    )

    text: str | list[str] = Field(description="One text, or several.")
    target: LanguageCode = Field(description="The language to translate to.")
    source: LanguageCode | None = Field(
        None, description="The texts' language; found out if `auto` or left out."
    )
    format: Literal["text", "html", "xml", "markdown"] = "text"
    nbest: Annotated[int, Field(ge=1, le=WIDEST)] = Field(
        1, description="How many translations of each text."
    )
    beam: Annotated[int, Field(ge=1, le=WIDEST)] | None = Field(None, description="Width of the search.")
    prefix: str | None = Field(None, max_length=2000, description="What every translation begins with.")
    glossary: dict[str, str] | None = Field(None, max_length=5000, description="Terms to hold to.")
    placeholders: bool = Field(True, description="Keep {names}, %s, URLs and their like as they are.")
    ignore_tags: list[str] = Field(
        [], max_length=100, description="Tags that are left alone, of html and xml."
    )
    split: Literal["auto", "sentences", "never"] = "auto"
    alignment: bool = Field(False, description="Link the words of text and translation.")
    attention: bool | Literal["all"] = Field(
        False, description="Give attention (target, source), or all of it."
    )
    tokens: bool = Field(False, description="Give the subword tokens of both sides.")
    scores: bool = Field(False, description="Give the words' probabilities and the tokens' scores.")


def _body(model: type[BaseModel]) -> dict[str, Any]:
    """A body of JSON as OpenAPI describes it."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def router(context: ServerContext) -> APIRouter:
    """The routes of the dialect."""
    routes = APIRouter(prefix=PREFIX, tags=["v1"])

    @routes.post("/translate", openapi_extra=_body(TranslateBody), summary="Translate texts")
    async def translate(request: Request) -> Response:
        """Translate one text or several; each has its translation or its error."""
        client = context.admit(bearer(request), address_of(request))
        body = await read_json(request, TranslateBody)
        texts = [body.text] if isinstance(body.text, str) else body.text
        context.charge(client, texts)
        asked = text_request(body, texts, client.name, context.settings.limits.deadline)
        async with while_connected(request):
            answer = await context.service.translate(asked)
        return json_response({"translations": told_answer(answer, body), "model": answer.model})

    @routes.get("/languages", summary="The languages on offer")
    async def languages(request: Request) -> Response:
        """Each language that can be translated from, and those it can be translated to."""
        context.admit(bearer(request), address_of(request))
        every = [
            {"code": one.code, "name": one.name, "targets": list(one.targets)}
            for one in context.service.pairs()
        ]
        return json_response({"languages": every})

    return routes


def text_request(body: TranslateBody, texts: list[str], client: str, deadline: float) -> TextRequest:
    """What a body asks of the service."""
    options: SearchOverrides = {}
    if body.nbest > 1:
        options["nbest"] = body.nbest
    if body.beam is not None or body.nbest > 1:
        options["beam"] = max(body.beam or 5, body.nbest)
    if body.alignment:
        options["alignment"] = True
    if body.attention:
        options["attention"] = body.attention
    return TextRequest(
        texts, body.target, body.source, body.format, body.prefix, options, body.glossary, body.ignore_tags,
        body.placeholders, body.split, client, deadline,
    )  # fmt: skip


def told_answer(answer: TextAnswer, body: TranslateBody) -> list[dict[str, object]]:
    """The translations as JSON has them."""
    every = zip(answer.translations, answer.detected, strict=True)
    return [told_translation(one, body, detected) for one, detected in every]


def told_translation(one: Translation, body: TranslateBody, detected: Detected | None) -> dict[str, object]:
    """A translation as JSON has it: always its text, and what was asked for."""
    told: dict[str, object] = {"text": one.text, "score": one.score if one.token_scores else None}
    if detected is not None:
        told["detected_source"] = {"code": detected.code, "confidence": round(detected.confidence, 4)}
    if one.error is not None:
        problem = problem_of(one.error)
        told["error"] = {"code": problem.code, "message": problem.message}
    if one.warnings:
        told["warnings"] = list(one.warnings)
    whole = (
        one.to_dict(confidence=body.scores)
        if body.tokens or body.scores or body.attention or body.alignment
        else {}
    )
    wanted = [name for name, asked in _ASKED if getattr(body, asked)]
    told |= {name: whole[name] for name in wanted if name in whole}
    if one.alternatives:
        told["alternatives"] = [told_translation(other, body, None) for other in one.alternatives]
    return told


_ASKED = (
    ("tokens", "tokens"),
    ("source_tokens", "tokens"),
    ("token_scores", "scores"),
    ("words", "scores"),
    ("confidence", "scores"),
    ("attention", "attention"),
    ("attentions", "attention"),
    ("alignment", "alignment"),
)
"""What a translation is told to hold, and what must have been asked for."""


def bearer(request: Request) -> str | None:
    """The key of a request: ``Authorization: Bearer KEY``."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def render(problem: Problem, number: str) -> Response:
    """A problem as this dialect tells it."""
    error = {"code": problem.code, "message": problem.message}
    if problem.parameter:
        error["parameter"] = problem.parameter
    return json_response({"error": {**error, "request_id": number}}, problem.status)


DIALECT = Dialect("v1", lambda path: path.startswith(PREFIX + "/"), router, render)

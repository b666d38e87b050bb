"""The HTTP API of OPUS-CAT MT Engine, for its plugins to OmegaT, Trados Studio, memoQ and Wordfast.

Helsinki-NLP/OPUS-CAT, ``OpusCatMTEngineCore/OWIN/MachineTranslationController.cs``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, Field, RootModel
from starlette.requests import Request
from starlette.responses import Response

from uwaga.alignment.words import word_spans
from uwaga.languages.codes import base_language
from uwaga.languages.detection import AUTO
from uwaga.results.translation import Span, Translation
from uwaga.server.api_errors import ApiError
from uwaga.server.auth import Client
from uwaga.server.context import Dialect, KeyPlace, ServerContext
from uwaga.server.http import Flag, Parameters, checked, json_response, parse_json, read_body, read_parameters
from uwaga.server.routing import Answer, Routes, error_answers
from uwaga.server.served_models import ServedLanguage
from uwaga.server.service import Service
from uwaga.translator.request import Request as TextRequest

PREFIX = "/MTRestService"
AS_TRADOS_WRITES = "/MtRestService"
"""OPUS-CAT ignores the case of a path; its plugins to Trados Studio and memoQ write it so."""
KEY = KeyPlace(("bearer",), parameter="tokenCode")
OMEGAT_TAG = re.compile(r"</?[a-z]{1,8}\d{1,6}/?>")
"""A tag as OmegaT writes it, ``<g1>`` or ``<x2/>``; texts with one are read as HTML."""
SPACE = "▁"
"""A space before a subword, as SentencePiece writes it."""
SENTENCE_PIECE = 1
"""The number of this segmentation among OPUS-CAT's."""


class PairQuery(Parameters):
    """A pair of languages."""

    srcLangCode: str = Field("", max_length=32, description="Detected if empty.", examples=["en"])  # noqa: N815
    trgLangCode: str = Field(  # noqa: N815
        "",
        max_length=32,
        description="May be empty if the models translate to one language only.",
        examples=["de"],
    )
    modelTag: str = Field("", description="Ignored: no model here has a tag.")  # noqa: N815
    tokenCode: str = Field("", description="API key; any value on a server without keys.")  # noqa: N815


class TextQuery(PairQuery):
    """A text to translate."""

    input: str = Field("", examples=["A man sleeps."])
    inputIsSingleSentence: Flag = Field(  # noqa: N815
        True, description="False: split the text into sentences, even if it is short."
    )


class TranslationPair(BaseModel):
    """A translation, and how its words correspond to those of its text."""

    translation: str
    Translation: str
    SegmentedSourceSentence: list[str]
    SegmentedTranslation: list[str]
    SegmentedAlignmentSourceToTarget: dict[str, list[int]]
    SegmentedAlignmentTargetToSource: dict[str, list[int]]
    AlignmentString: str
    RawTranslation: str
    Segmentation: int
    AutoEditedTranslation: bool


class BatchBody(RootModel[list[str]]):
    """Texts that will be translated soon."""


class OpusCatError(BaseModel):
    """An error."""

    Message: str


ERRORS = error_answers(OpusCatError, without=[404]) | {415: Answer("Neither JSON nor a form", OpusCatError)}
STRINGS = Answer(
    "Success", content={"application/json": {"schema": {"type": "array", "items": {"type": "string"}}}}
)


def routes(context: ServerContext) -> Routes:
    """Return the routes of the dialect."""
    routes = Routes("OPUS-CAT", ERRORS, PREFIX)
    same = Routes(prefix=AS_TRADOS_WRITES)
    for each in (routes, same):
        _add_translation(each, context)
        _add_pairs(each, context)
    routes.routes += same.routes
    return routes


def _add_translation(routes: Routes, context: ServerContext) -> None:
    async def translated(request: Request, client: Client, given: Mapping[str, Any]) -> Translation:
        query = checked(given, TextQuery)
        text = TextRequest(
            query.input,
            source=query.srcLangCode or AUTO,
            target=query.trgLangCode or _only_target(context.service),
            format="html" if OMEGAT_TAG.search(query.input) else "text",
            split="auto" if query.inputIsSingleSentence else "sentences",
            search={"alignment": True},
        )
        return (await context.translate(request, client, [text], "input")).translations[0]

    @routes.add(
        "GET", "/TranslateJson", "Translate a text", body=TextQuery, kind="query", answer=TranslationPair
    )
    async def translate_json(request: Request) -> Response:
        """Translate a text; the segments are words, which `▁` precedes where a space does."""
        client = KEY.client(context, request)
        await read_body(request)
        return json_response(translation_pair(await translated(request, client, request.query_params)))

    @routes.add(
        "POST",
        "/TranslatePost",
        "Translate a text",
        body=TextQuery,
        kind="json or form",
        answer=TranslationPair,
    )
    async def translate_post(request: Request) -> Response:
        """The same with the parameters in the query or the body, as Wordfast Pro sends it."""
        client = KEY.client(context, request)
        return json_response(
            translation_pair(await translated(request, client, await read_parameters(request)))
        )

    plain = Answer("The translation", content={"text/plain": {"schema": {"type": "string"}}})

    async def translate_plain(request: Request) -> Response:
        """Translate a text, and return the translation alone."""
        client = KEY.client(context, request)
        await read_body(request)
        translation = await translated(request, client, request.query_params)
        return Response(translation.text, media_type="text/plain")

    for path in ("/Translate", "/TranslateStream"):
        described = routes.add(
            "GET", path, "Translate a text to plain text", body=TextQuery, kind="query", answers={200: plain}
        )
        described(translate_plain)

    @routes.add("POST", "/PreOrderBatch", "Announce texts", body=BatchBody)
    async def pre_order_batch(request: Request) -> Response:
        """Check the languages, and do nothing: the server has no cache that translations could wait in."""
        KEY.client(context, request)
        query = checked(request.query_params, PairQuery)
        if not parse_json(await read_body(request), BatchBody).root:
            raise ApiError(400, "missing", "the list of texts is empty", "input")
        if query.srcLangCode:
            context.service.language(query.srcLangCode, "source")
        context.service.language(query.trgLangCode or _only_target(context.service), "target")
        return Response()


def _add_pairs(routes: Routes, context: ServerContext) -> None:
    languages = context.service.languages

    @routes.add("GET", "/ListSupportedLanguagePairs", "List the pairs of languages", answers={200: STRINGS})
    async def list_supported_language_pairs(request: Request) -> Response:
        """List the pairs as `en-de`."""
        KEY.client(context, request)
        return json_response(list(dict.fromkeys(_pairs(languages.sources))))

    @routes.add(
        "GET", "/GetLanguagePairModelTags", "List the tags of models", body=PairQuery, kind="query",
        answers={200: STRINGS},
    )  # fmt: skip
    async def get_language_pair_model_tags(request: Request) -> Response:
        """An empty list: tags are of models that OPUS-CAT has fine-tuned."""
        KEY.client(context, request)
        checked(request.query_params, PairQuery)
        return json_response([])

    status = Answer("The status", content={"application/json": {"schema": {"type": "string"}}})

    @routes.add(
        "GET",
        "/CheckModelStatus",
        "Name the model of a pair",
        body=PairQuery,
        kind="query",
        answers={200: status},
    )
    async def check_model_status(request: Request) -> Response:
        """Say which model is used for a pair, or that there is none."""
        KEY.client(context, request)
        query = checked(request.query_params, PairQuery)
        pair = f"{query.srcLangCode[:20]}-{query.trgLangCode[:20]}"
        source, target = languages.known(query.srcLangCode), languages.known(query.trgLangCode)
        route = languages.route(source, target) if source and target else None
        if route is None:
            return json_response(f"No model available for {pair}.")
        names = " and ".join(step.model.name for step in route)
        return json_response(f"Primary model {names} for {pair} will be used.")


def _pairs(sources: Iterable[ServedLanguage]) -> Iterator[str]:
    """Yield pairs of codes without regions and scripts: the plugins split a pair at its hyphens."""
    for source in sources:
        for target in source.targets:
            yield f"{base_language(source.code)}-{base_language(target)}"


def _only_target(service: Service) -> str:
    """Return the language that all models translate to, as the override model of OPUS-CAT."""
    targets = {target for source in service.languages.sources for target in source.targets}
    if len(targets) > 1:
        listed = ", ".join(sorted(targets)[:20])
        message = f"trgLangCode is missing, and the models translate to several languages: {listed}"
        raise ApiError(400, "missing", message, "trgLangCode")
    return targets.pop()


def translation_pair(translation: Translation) -> dict[str, object]:
    """Return a translation as OPUS-CAT's JSON, with words as its segments.

    A text that was copied is aligned word by word.
    """
    alignment = translation.alignment
    if alignment is None:
        source, target = word_spans(translation.source), word_spans(translation.text)
        links = tuple((number, number) for number in range(min(len(source), len(target))))
    else:
        source, target, links = list(alignment.source), list(alignment.target), alignment.links
    segments = _segments(translation.text, target)
    return {
        "translation": translation.text,
        "Translation": translation.text,
        "SegmentedSourceSentence": _segments(translation.source, source),
        "SegmentedTranslation": segments,
        "SegmentedAlignmentSourceToTarget": _linked(links),
        "SegmentedAlignmentTargetToSource": _linked((target, source) for source, target in links),
        "AlignmentString": " ".join(f"{source}-{target}" for source, target in links),
        "RawTranslation": " ".join(segments),
        "Segmentation": SENTENCE_PIECE,
        "AutoEditedTranslation": False,
    }


def _segments(text: str, words: Iterable[Span]) -> list[str]:
    """Return words with ``▁`` where a space, or the beginning of the text, precedes."""
    segments, last = [], -1
    for start, end in words:
        segments.append(text[start:end] if start == last else SPACE + text[start:end])
        last = end
    return segments


def _linked(links: Iterable[tuple[int, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for first, second in sorted(links):
        found.setdefault(str(first), []).append(second)
    return found


def render(problem: ApiError, number: str) -> Response:
    """Return an error as JSON, in the form of ASP.NET Web API."""
    return json_response({"Message": problem.message}, problem.status)


DIALECT = Dialect(
    "opuscat", lambda path: path.startswith((f"{PREFIX}/", f"{AS_TRADOS_WRITES}/")), routes, render
)

"""The dialect for the plugins of OPUS-CAT MT Engine in OmegaT, Trados Studio, memoQ and Wordfast.

The API is defined in Helsinki-NLP/OPUS-CAT,
``OpusCatMTEngineCore/OWIN/MachineTranslationController.cs``.
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
from uwaga.translator.request import Request as TextRequest
from uwaga_server.api_errors import ApiError
from uwaga_server.auth import Client
from uwaga_server.context import Dialect, KeyLocation, ServerContext
from uwaga_server.http import (
    Flag,
    Parameters,
    json_response,
    parse_json,
    read_body,
    read_parameters,
    validate,
)
from uwaga_server.routing import Body, ResponseDescription, Routes, error_responses
from uwaga_server.served_models import ServedLanguage
from uwaga_server.service import Service

PREFIX = "/MTRestService"
TRADOS_PREFIX = "/MtRestService"
"""Path prefix that the plugins for Trados Studio and memoQ use; OPUS-CAT ignores the case of paths."""
KEY = KeyLocation(("bearer",), parameter="tokenCode")
OMEGAT_TAG = re.compile(r"</?[a-z]{1,8}\d{1,6}/?>")
"""Pattern of OmegaT's tags, such as ``<g1>`` or ``<x2/>``; texts with tags are parsed as HTML."""
SPACE_SYMBOL = "▁"
"""SentencePiece's symbol for a space at the start of a subword."""
SENTENCE_PIECE_SEGMENTATION = 1
"""OPUS-CAT's number for segmentation by SentencePiece."""


class PairQuery(Parameters):
    """The parameters that state a language pair."""

    srcLangCode: str = Field("", max_length=32, description="Detected if empty.", examples=["en"])  # noqa: N815
    trgLangCode: str = Field(  # noqa: N815
        "",
        max_length=32,
        description="May be empty if all models translate to the same language.",
        examples=["de"],
    )
    modelTag: str = Field("", description="Ignored, since models have no tags.")  # noqa: N815
    tokenCode: str = Field("", description="API key; ignored on a server without keys.")  # noqa: N815


class TextQuery(PairQuery):
    """A text to translate."""

    input: str = Field("", examples=["A man sleeps."])
    inputIsSingleSentence: Flag = Field(  # noqa: N815
        True, description="If false, even a short text is split into sentences."
    )


class TranslationPair(BaseModel):
    """A translation, with its word alignment to the source text."""

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
    """The texts that the client will request soon."""


class OpusCatError(BaseModel):
    """The body of an error response."""

    Message: str


ERRORS = error_responses(OpusCatError, without=[404]) | {
    415: ResponseDescription("The body is neither JSON nor a form", OpusCatError)
}
STRINGS_RESPONSE = ResponseDescription(
    "Success", content={"application/json": {"schema": {"type": "array", "items": {"type": "string"}}}}
)


def routes(context: ServerContext) -> Routes:
    """Return the routes of the dialect."""
    routes = Routes("OPUS-CAT", ERRORS, PREFIX)
    trados_routes = Routes(prefix=TRADOS_PREFIX)
    for route_group in (routes, trados_routes):
        _add_translation_routes(route_group, context)
        _add_pair_routes(route_group, context)
    routes.routes += trados_routes.routes
    return routes


def _add_translation_routes(routes: Routes, context: ServerContext) -> None:
    async def translate(request: Request, client: Client, parameters: Mapping[str, Any]) -> Translation:
        query = validate(parameters, TextQuery)
        text = TextRequest(
            query.input,
            source=query.srcLangCode or AUTO,
            target=query.trgLangCode or _single_target(context.service),
            format="html" if OMEGAT_TAG.search(query.input) else "text",
            split="auto" if query.inputIsSingleSentence else "sentences",
            search={"alignment": True},
        )
        return (await context.translate(request, client, [text], "input")).translations[0]

    @routes.add(
        "GET",
        "/TranslateJson",
        "Translate a text",
        body=Body(TextQuery, "query"),
        response_model=TranslationPair,
    )
    async def translate_json(request: Request) -> Response:
        """Translate a text; the segments in the response are words, with `▁` for each space before a word."""
        client = KEY.admit(context, request)
        await read_body(request)
        return json_response(translation_pair(await translate(request, client, request.query_params)))

    @routes.add(
        "POST",
        "/TranslatePost",
        "Translate a text",
        body=Body(TextQuery, "json or form"),
        response_model=TranslationPair,
    )
    async def translate_post(request: Request) -> Response:
        """Translate a text; Wordfast Pro sends the parameters in the query or the body."""
        client = KEY.admit(context, request)
        return json_response(
            translation_pair(await translate(request, client, await read_parameters(request)))
        )

    plain_text_response = ResponseDescription(
        "The translation", content={"text/plain": {"schema": {"type": "string"}}}
    )

    async def translate_plain(request: Request) -> Response:
        """Translate a text, and return only the translation, as plain text."""
        client = KEY.admit(context, request)
        await read_body(request)
        translation = await translate(request, client, request.query_params)
        return Response(translation.text, media_type="text/plain")

    for path in ("/Translate", "/TranslateStream"):
        register = routes.add(
            "GET",
            path,
            "Translate a text to plain text",
            body=Body(TextQuery, "query"),
            responses={200: plain_text_response},
        )
        register(translate_plain)

    @routes.add("POST", "/PreOrderBatch", "Announce texts to translate", body=BatchBody)
    async def pre_order_batch(request: Request) -> Response:
        """Check the languages of announced texts; the server does not translate texts in advance."""
        KEY.admit(context, request)
        query = validate(request.query_params, PairQuery)
        if not parse_json(await read_body(request), BatchBody).root:
            raise ApiError(400, "missing", "the list of texts is empty", "input")
        if query.srcLangCode:
            context.service.language(query.srcLangCode, "source")
        context.service.language(query.trgLangCode or _single_target(context.service), "target")
        return Response()


def _add_pair_routes(routes: Routes, context: ServerContext) -> None:
    languages = context.service.languages

    @routes.add(
        "GET", "/ListSupportedLanguagePairs", "List the language pairs", responses={200: STRINGS_RESPONSE}
    )
    async def list_supported_language_pairs(request: Request) -> Response:
        """List the supported language pairs, such as `en-de`."""
        KEY.admit(context, request)
        return json_response(list(dict.fromkeys(_pairs(languages.sources))))

    @routes.add(
        "GET", "/GetLanguagePairModelTags", "List the tags of models", body=Body(PairQuery, "query"),
        responses={200: STRINGS_RESPONSE},
    )  # fmt: skip
    async def get_language_pair_model_tags(request: Request) -> Response:
        """Return an empty list, since only models that OPUS-CAT has fine-tuned have tags."""
        KEY.admit(context, request)
        validate(request.query_params, PairQuery)
        return json_response([])

    status = ResponseDescription("The status", content={"application/json": {"schema": {"type": "string"}}})

    @routes.add(
        "GET",
        "/CheckModelStatus",
        "Get the model of a language pair",
        body=Body(PairQuery, "query"),
        responses={200: status},
    )
    async def check_model_status(request: Request) -> Response:
        """Return a sentence that names the model for a language pair, or says that no model is available."""
        KEY.admit(context, request)
        query = validate(request.query_params, PairQuery)
        pair = f"{query.srcLangCode[:20]}-{query.trgLangCode[:20]}"
        source, target = languages.resolve(query.srcLangCode), languages.resolve(query.trgLangCode)
        route = languages.route(source, target) if source and target else None
        if route is None:
            return json_response(f"No model available for {pair}.")
        names = " and ".join(step.model.name for step in route)
        return json_response(f"Primary model {names} for {pair} will be used.")


def _pairs(sources: Iterable[ServedLanguage]) -> Iterator[str]:
    """Yield language pairs such as ``en-de``, without regions and scripts, since plugins split at hyphens."""
    for source in sources:
        for target in source.targets:
            yield f"{base_language(source.code)}-{base_language(target)}"


def _single_target(service: Service) -> str:
    """Return the only target language of the models; raise an ApiError if there are several languages."""
    targets = {target for source in service.languages.sources for target in source.targets}
    if len(targets) > 1:
        language_list = ", ".join(sorted(targets)[:20])
        message = f"trgLangCode is missing, and the models translate to several languages: {language_list}"
        raise ApiError(400, "missing", message, "trgLangCode")
    return targets.pop()


def translation_pair(translation: Translation) -> dict[str, object]:
    """Return a translation in OPUS-CAT's JSON format, with words as segments.

    If the translation has no alignment, as for a copied text, each word is aligned with the word at the same
    index.
    """
    alignment = translation.alignment
    if alignment is None:
        source, target = word_spans(translation.source), word_spans(translation.text)
        links = tuple((index, index) for index in range(min(len(source), len(target))))
    else:
        source, target, links = list(alignment.source), list(alignment.target), alignment.links
    segments = _word_segments(translation.text, target)
    return {
        "translation": translation.text,
        "Translation": translation.text,
        "SegmentedSourceSentence": _word_segments(translation.source, source),
        "SegmentedTranslation": segments,
        "SegmentedAlignmentSourceToTarget": _link_table(links),
        "SegmentedAlignmentTargetToSource": _link_table((target, source) for source, target in links),
        "AlignmentString": " ".join(f"{source}-{target}" for source, target in links),
        "RawTranslation": " ".join(segments),
        "Segmentation": SENTENCE_PIECE_SEGMENTATION,
        "AutoEditedTranslation": False,
    }


def _word_segments(text: str, words: Iterable[Span]) -> list[str]:
    """Return the words of a text, with ``▁`` before each word that follows a space or starts the text."""
    segments, last_end = [], -1
    for start, end in words:
        segments.append(text[start:end] if start == last_end else SPACE_SYMBOL + text[start:end])
        last_end = end
    return segments


def _link_table(links: Iterable[tuple[int, int]]) -> dict[str, list[int]]:
    table: dict[str, list[int]] = {}
    for source_word, target_word in sorted(links):
        table.setdefault(str(source_word), []).append(target_word)
    return table


def render(problem: ApiError, request_id: str) -> Response:
    """Return an error response in the JSON format of ASP.NET Web API."""
    return json_response({"Message": problem.message}, problem.status)


DIALECT = Dialect(
    "opuscat", lambda path: path.startswith((f"{PREFIX}/", f"{TRADOS_PREFIX}/")), routes, render
)

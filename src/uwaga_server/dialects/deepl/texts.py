"""``/v2/translate``: translate texts; requests with unsupported parameters are refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from uwaga.markup.formats import text_format
from uwaga.markup.xml_text import XmlOutline
from uwaga.search import SearchOverrides
from uwaga.terms import Glossary
from uwaga.tokenizers.text import LINE_BREAK
from uwaga.translator.memories import contexts_in_order
from uwaga.translator.request import Request as TextRequest
from uwaga.translator.request import Split
from uwaga_server.api_errors import ApiError, as_api_error, run_in_thread
from uwaga_server.auth import Client
from uwaga_server.context import DEEPL_KEY, ServerContext
from uwaga_server.dialects.deepl.account import deepl_code
from uwaga_server.dialects.v1_schema import DEFAULT_BEAM
from uwaga_server.http import Flag, Names, Parameters, TextList, json_response, read_fields, while_connected
from uwaga_server.routing import Body, Routes
from uwaga_server.service import TranslatedText

END_PUNCTUATION = ".!?…:;,。！？：；，"
FULL_STOPS = ".。"


def join_lines(text: str) -> str:
    """Return a text with each line break replaced by a space."""
    return LINE_BREAK.sub(" ", text)


def restore_formatting(source: str, translation: str) -> str:
    """Return a translation whose lines have the surrounding white space and full stops of the source lines.

    Args:
        source: the source text.
        translation: its translation; if the number of lines differs, both are treated as single lines.
    """
    source_parts, target_parts = LINE_BREAK.split(source), LINE_BREAK.split(translation)
    if len(source_parts) != len(target_parts):
        return _restore_line(source, translation)
    pairs = zip(source_parts, target_parts, strict=True)
    return "".join(
        source_part if index % 2 else _restore_line(source_part, translated_part)
        for index, (source_part, translated_part) in enumerate(pairs)
    )


def _restore_line(source_part: str, translated_part: str) -> str:
    words = source_part.strip()
    if not words:
        return source_part
    start = source_part[: len(source_part) - len(source_part.lstrip())]
    end = source_part[len(source_part.rstrip()) :]
    translation = translated_part.strip()
    if words[-1] not in END_PUNCTUATION and translation[-1:] in FULL_STOPS:
        translation = translation.rstrip(FULL_STOPS)
    elif words[-1] in FULL_STOPS and translation[-1:].isalnum():
        translation += words[-1]
    return f"{start}{translation}{end}"


MAX_GLOSSARIES = 5
TAG_HANDLING_VERSION = "v2"
"""The only supported version of tag handling, which refuses malformed XML."""
Formality = Literal["default", "more", "less", "prefer_more", "prefer_less"]
ModelType = Literal["quality_optimized", "prefer_quality_optimized", "latency_optimized"]


class TranslateParameters(Parameters):
    """Parameters of ``/v2/translate``, as DeepL documents them."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"text": ["Hello, World!"], "target_lang": "DE", "source_lang": "EN"}]
        },
    )

    text: TextList = Field(min_length=1, description="The texts, which are translated independently.")
    target_lang: str = Field(min_length=2, max_length=16, examples=["DE"])
    source_lang: str | None = Field(None, min_length=2, max_length=16, examples=["EN"])
    context: str | None = Field(None, description="Used to detect the language; not translated.")
    show_billed_characters: Flag = False
    split_sentences: Literal["0", "1", "nonewlines"] | None = None
    preserve_formatting: Flag = False
    formality: Formality = Field("default", description="`more` and `less` are not supported.")
    model_type: ModelType | None = None
    glossary_id: str | None = None
    glossary_ids: Names = Field([], max_length=MAX_GLOSSARIES)
    style_id: str | None = Field(None, description="Refused.")
    translation_memory_id: str | None = Field(None, max_length=64)
    translation_memory_threshold: int | None = Field(
        None, ge=0, le=100, description="Minimum similarity in percent of the pairs to use."
    )
    custom_instructions: list[str] | None = Field(None, description="Refused.")
    tag_handling: Literal["xml", "html"] | None = None
    tag_handling_version: Literal["v1", "v2"] | None = None
    outline_detection: Flag = True
    enable_beta_languages: Flag = Field(False, description="Has no effect, as with DeepL.")
    non_splitting_tags: Names = Field([], description="For XML; ignored for other texts.")
    splitting_tags: Names = Field([], description="For XML; ignored for other texts.")
    ignore_tags: Names = Field([], description="For XML and HTML; ignored for other texts.")


def add_translate_route(routes: Routes, context: ServerContext) -> None:
    """Add the route that translates texts."""

    @routes.add("POST", "/v2/translate", "Translate texts", body=Body(TranslateParameters, "json or form"))
    async def translate(request: Request) -> Response:
        """Translate texts."""
        client = DEEPL_KEY.admit(context, request)
        fields = await read_fields(request, TranslateParameters)
        refuse_unsupported(fields.formality, _unsupported_fields(fields))
        characters = context.admit_texts(client, fields.text)
        ids = check_glossary_ids(fields.glossary_id, fields.glossary_ids, fields.source_lang)
        glossary = None
        if ids:
            languages = fields.source_lang, fields.target_lang
            glossary = await run_in_thread(context.stores.cache.terms, context.owner(client), ids, *languages)
        requests = await _add_memory(context, client, fields, _build_requests(fields, glossary))
        async with context.charge_or_refund(client, characters), while_connected(request):
            requests = await _detect_sources(context, fields, requests)
            answer = await context.service.translate(
                requests, client=client.name, deadline=context.settings.limits.deadline
            )
            answer.raise_first()
        translations = [
            _translation_response(fields, text, translated_text)
            for text, translated_text in zip(fields.text, answer.texts, strict=True)
        ]
        return json_response({"translations": translations})


async def _add_memory(
    context: ServerContext, client: Client, fields: TranslateParameters, requests: list[TextRequest]
) -> list[TextRequest]:
    """Return the requests with the translation memory that ``fields`` names, if any.

    The neighbours of each text become its context for the look-up in the memory.
    """
    memory_id, threshold = fields.translation_memory_id, fields.translation_memory_threshold
    if memory_id is None and threshold is None:
        return requests
    from uwaga_server.dialects.memories import check_threshold, request_memory

    min_similarity = check_threshold(memory_id, threshold)
    languages = fields.source_lang, fields.target_lang
    memory = await request_memory(context, client, memory_id or "", *languages)
    contexts = contexts_in_order(fields.text)
    return [
        replace(request, memory=memory, threshold=min_similarity, context=context)
        for request, context in zip(requests, contexts, strict=True)
    ]


def _build_requests(fields: TranslateParameters, glossary: Glossary | None) -> list[TextRequest]:
    """Return the requests to the translation service, one for each text."""
    tags = fields.tag_handling
    breaks_at_newlines = fields.split_sentences in (None, "1") and tags != "html"
    options: SearchOverrides = {}
    if fields.model_type is not None:
        options["beam"] = 1 if fields.model_type == "latency_optimized" else DEFAULT_BEAM
    split: Split = "auto"
    if fields.split_sentences is not None:
        split = "never" if fields.split_sentences == "0" else "sentences"
    shared_request = TextRequest(
        "",
        target=fields.target_lang,
        source=fields.source_lang,
        search=options,
        glossary=glossary,
        ignore_tags=fields.ignore_tags if tags else (),
        outline=_xml_outline(fields, breaks_at_newlines) if tags == "xml" else None,
        split=split,
    )
    texts = fields.text if breaks_at_newlines or tags else [join_lines(text) for text in fields.text]
    return [
        replace(shared_request, text=text, name=f"text {text_number}", format=tags or text_format(text))
        for text_number, text in enumerate(texts, start=1)
    ]


def refuse_unsupported(formality: str | None, parameters: Mapping[str, object]) -> None:
    """Raise an ApiError if a request has an unsupported parameter.

    Args:
        formality: the formality of the request.
        parameters: the values of other unsupported parameters by name; None for omitted parameters.
    """
    if formality in ("more", "less"):
        message = "Target language does not support 'formality'; prefer_more and prefer_less are accepted."
        raise ApiError(400, "not_supported", message, "formality")
    for name, value in parameters.items():
        if value is not None and value != []:
            raise ApiError(400, "not_supported", f"Parameter '{name}' is not supported by this server.", name)


def check_glossary_ids(
    glossary_id: str | None, glossary_ids: list[str], source: str | None
) -> tuple[str, ...]:
    """Return the ids of a request's glossaries, after checking that the parameters can be combined."""
    if glossary_id is not None and glossary_ids:
        message = "Parameters 'glossary_id' and 'glossary_ids' cannot be used together."
        raise ApiError(400, "invalid_request", message, "glossary_ids")
    ids = tuple(glossary_ids) if glossary_id is None else (glossary_id,)
    if ids and source is None:
        message = "Use of a glossary requires the source_lang parameter to be specified"
        raise ApiError(400, "invalid_request", message, "source_lang")
    return ids


def _unsupported_fields(fields: TranslateParameters) -> dict[str, object]:
    return {
        "style_id": fields.style_id,
        "custom_instructions": fields.custom_instructions,
    }


def _xml_outline(fields: TranslateParameters, breaks_at_newlines: bool) -> XmlOutline:
    with as_api_error():
        return XmlOutline.from_names(
            fields.outline_detection, fields.splitting_tags, fields.non_splitting_tags, breaks_at_newlines
        )


async def _detect_sources(
    context: ServerContext, fields: TranslateParameters, requests: Sequence[TextRequest]
) -> list[TextRequest]:
    """Return the requests; add the source languages detected with ``fields.context``, if it is given."""
    if fields.source_lang is not None or not fields.context:
        return list(requests)
    resolved_requests = []
    for request in requests:
        detected_language = await context.service.detect(f"{fields.context}\n{request.text}")
        resolved_requests.append(
            replace(request, source=detected_language[0].code if detected_language else None)
        )
    return resolved_requests


def _translation_response(
    fields: TranslateParameters, text: str, translated_text: TranslatedText
) -> dict[str, object]:
    """Return a translation as a JSON object in DeepL's format."""
    translation = translated_text.translation.text
    if fields.preserve_formatting and fields.tag_handling is None:
        source = text if fields.split_sentences in (None, "1") else join_lines(text)
        translation = restore_formatting(source, translation)
    content: dict[str, object] = {
        "detected_source_language": deepl_code(translated_text.source),
        "text": translation,
    }
    if fields.show_billed_characters:
        content["billed_characters"] = len(text)
    if fields.model_type is not None:
        content["model_type_used"] = fields.model_type.removeprefix("prefer_")
    if fields.tag_handling is not None:
        content["tag_handling_version"] = TAG_HANDLING_VERSION
    return content

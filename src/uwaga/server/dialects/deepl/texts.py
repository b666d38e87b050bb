"""``/v2/translate``: every parameter is honoured, or refused by name."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from uwaga.errors import SettingsError
from uwaga.markup.xml_text import XmlOutline
from uwaga.results.translation import Translation
from uwaga.search import SearchOverrides
from uwaga.server.api_errors import ApiError, api_error, in_thread
from uwaga.server.context import DEEPL, ServerContext
from uwaga.server.dialects.deepl.account import listed_code
from uwaga.server.dialects.v1_schema import USUAL_BEAM
from uwaga.server.http import Flag, Names, Parameters, Several, json_response, read_fields, while_connected
from uwaga.server.routing import Routes
from uwaga.terms import Glossary
from uwaga.translator.request import Request as TextRequest
from uwaga.translator.request import Split

LINE_BREAK = re.compile(r"(\r\n|\n|\r)")
ENDINGS = ".!?…:;,。！？：；，"
STOPS = ".。"


def in_one_line(text: str) -> str:
    """A text whose line breaks are spaces."""
    return LINE_BREAK.sub(" ", text)


def preserved(source: str, translation: str) -> str:
    """A translation with the white space of its source around each line, and its punctuation at the end.

    Args:
        source: the text.
        translation: of it, line by line.
    """
    before, after = LINE_BREAK.split(source), LINE_BREAK.split(translation)
    if len(before) != len(after):
        return _line(source, translation)
    pairs = zip(before, after, strict=True)
    return "".join(old if at % 2 else _line(old, new) for at, (old, new) in enumerate(pairs))


def _line(old: str, new: str) -> str:
    words = old.strip()
    if not words:
        return old
    start = old[: len(old) - len(old.lstrip())]
    end = old[len(old.rstrip()) :]
    made = new.strip()
    if words[-1] not in ENDINGS and made[-1:] in STOPS:
        made = made.rstrip(STOPS)
    elif words[-1] in STOPS and made[-1:].isalnum():
        made += words[-1]
    return f"{start}{made}{end}"


MOST_GLOSSARIES = 5
VERSION = "v2"
"""The strict one: there is no other here, and XML that is not well-formed is refused."""
Formality = Literal["default", "more", "less", "prefer_more", "prefer_less"]
ModelType = Literal["quality_optimized", "prefer_quality_optimized", "latency_optimized"]


class TranslateParameters(Parameters):
    """As DeepL documents them."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"text": ["Hello, World!"], "target_lang": "DE", "source_lang": "EN"}]
        },
    )

    text: Several = Field(min_length=1, description="Texts, each translated by itself.")
    target_lang: str = Field(min_length=2, max_length=16, examples=["DE"])
    source_lang: str | None = Field(None, min_length=2, max_length=16, examples=["EN"])
    context: str | None = Field(None, description="Helps to find out the language; it is not translated.")
    show_billed_characters: Flag = False
    split_sentences: Literal["0", "1", "nonewlines"] | None = None
    preserve_formatting: Flag = False
    formality: Formality = Field("default", description="`more` and `less` are refused: no model here can.")
    model_type: ModelType | None = None
    glossary_id: str | None = None
    glossary_ids: Names = Field([], max_length=MOST_GLOSSARIES)
    style_id: str | None = Field(None, description="Refused.")
    translation_memory_id: str | None = Field(None, description="Refused.")
    translation_memory_threshold: int | None = Field(None, description="Refused.")
    custom_instructions: list[str] | None = Field(None, description="Refused.")
    tag_handling: Literal["xml", "html"] | None = None
    tag_handling_version: Literal["v1", "v2"] | None = None
    outline_detection: Flag = True
    enable_beta_languages: Flag = Field(False, description="Has no effect, as with DeepL.")
    non_splitting_tags: Names = Field([])
    splitting_tags: Names = Field([])
    ignore_tags: Names = Field([])


def add_translate(routes: Routes, context: ServerContext) -> None:
    """Add the route."""

    @routes.add("POST", "/v2/translate", "Translate texts", body=TranslateParameters, kind="json or form")
    async def translate(request: Request) -> Response:
        """Translate texts."""
        client = DEEPL.client(context, request)
        asked = await read_fields(request, TranslateParameters)
        refuse_unsupported(asked.formality, _named(asked))
        characters = context.charge(client, asked.text)
        ids = checked_glossaries(asked.glossary_id, asked.glossary_ids, asked.source_lang)
        glossary = None
        if ids:
            languages = asked.source_lang, asked.target_lang
            glossary = await in_thread(context.stores.cache.terms, context.owner(client), ids, *languages)
        made = text_requests(asked, glossary)
        async with context.spending(client, characters), while_connected(request):
            found = await _translated(context, asked, made, client.name)
        return json_response(
            {"translations": [_told(asked, *one) for one in zip(asked.text, *found, strict=True)]}
        )


def text_requests(asked: TranslateParameters, glossary: Glossary | None) -> list[TextRequest]:
    """What the parameters ask of the service.

    Raises:
        ApiError: parameters do not go together.
    """
    tags = asked.tag_handling
    newlines = asked.split_sentences in (None, "1") and tags != "html"
    options: SearchOverrides = {}
    if asked.model_type is not None:
        options["beam"] = 1 if asked.model_type == "latency_optimized" else USUAL_BEAM
    for name in ("ignore_tags", "splitting_tags", "non_splitting_tags"):
        if getattr(asked, name) and (tags is None or (tags == "html" and name != "ignore_tags")):
            raise ApiError(400, "invalid_request", f"Parameter '{name}' needs tag_handling=xml.", name)
    split: Split = "auto"
    if asked.split_sentences is not None:
        split = "never" if asked.split_sentences == "0" else "sentences"
    common = TextRequest(
        "",
        target=asked.target_lang,
        source=asked.source_lang,
        format=tags or "text",
        search=options,
        glossary=glossary,
        ignore_tags=asked.ignore_tags,
        outline=_outline(asked, newlines) if tags == "xml" else None,
        split=split,
    )
    texts = asked.text if newlines or tags else [in_one_line(text) for text in asked.text]
    return [replace(common, text=text, name=f"text {number}") for number, text in enumerate(texts, start=1)]


def refuse_unsupported(formality: str | None, named: Mapping[str, object]) -> None:
    """Refuse what no model here can.

    Args:
        formality: as asked for.
        named: further parameters, those that are not asked for with nothing.

    Raises:
        ApiError: one is asked for.
    """
    if formality in ("more", "less"):
        message = "'formality' is not supported for given 'target_lang'; prefer_more is taken."
        raise ApiError(400, "not_supported", message, "formality")
    for name, value in named.items():
        if value is not None and value != []:
            raise ApiError(400, "not_supported", f"Parameter '{name}' is not supported by this server.", name)


def checked_glossaries(
    glossary_id: str | None, glossary_ids: list[str], source: str | None
) -> tuple[str, ...]:
    """The ids of the glossaries that a request asks for.

    Raises:
        ApiError: it says both, or not the language of its texts.
    """
    if glossary_id is not None and glossary_ids:
        message = "Parameters 'glossary_id' and 'glossary_ids' cannot be used together."
        raise ApiError(400, "invalid_request", message, "glossary_ids")
    ids = tuple(glossary_ids) if glossary_id is None else (glossary_id,)
    if ids and source is None:
        message = "Use of a glossary requires the source_lang parameter to be specified"
        raise ApiError(400, "invalid_request", message, "source_lang")
    return ids


def _named(asked: TranslateParameters) -> dict[str, object]:
    return {
        "style_id": asked.style_id,
        "translation_memory_id": asked.translation_memory_id,
        "translation_memory_threshold": asked.translation_memory_threshold,
        "custom_instructions": asked.custom_instructions,
    }


def _outline(asked: TranslateParameters, newlines: bool) -> XmlOutline:
    try:
        return XmlOutline.of(
            asked.outline_detection, asked.splitting_tags, asked.non_splitting_tags, newlines
        )
    except SettingsError as error:
        raise api_error(error) from error


async def _translated(
    context: ServerContext, asked: TranslateParameters, made: Sequence[TextRequest], client: str
) -> tuple[list[Translation], list[str]]:
    """The translations, and the language of each text."""
    sources = [asked.source_lang] * len(asked.text)
    if asked.source_lang is None and asked.context:
        sources = [await _detected(context, f"{asked.context}\n{text}") for text in asked.text]
    groups: dict[str | None, list[int]] = {}
    for at, source in enumerate(sources):
        groups.setdefault(source, []).append(at)
    deadline = context.settings.limits.deadline
    parts = [
        context.service.translate(
            [replace(made[at], source=source) for at in numbers], client=client, deadline=deadline
        )
        for source, numbers in groups.items()
    ]
    answers = await asyncio.gather(*parts) if len(parts) > 1 else [await parts[0]]
    found: dict[int, tuple[Translation, str]] = {}
    for numbers, answer in zip(groups.values(), answers, strict=True):
        answer.raise_first()
        found.update(zip(numbers, zip(answer.translations, answer.sources, strict=True), strict=True))
    every = [found[at] for at in range(len(sources))]
    return [one for one, _ in every], [code for _, code in every]


async def _detected(context: ServerContext, text: str) -> str | None:
    found = await context.service.detect(text)
    return found[0].code if found else None


def _told(asked: TranslateParameters, text: str, made: Translation, source: str) -> dict[str, object]:
    """A translation as DeepL tells it."""
    keeps = asked.preserve_formatting and asked.tag_handling is None
    if keeps and asked.split_sentences not in (None, "1"):
        text = in_one_line(text)
    told: dict[str, object] = {
        "detected_source_language": listed_code(source),
        "text": preserved(text, made.text) if keeps else made.text,
    }
    if asked.show_billed_characters:
        told["billed_characters"] = len(text)
    if asked.model_type is not None:
        told["model_type_used"] = asked.model_type.removeprefix("prefer_")
    if asked.tag_handling is not None:
        told["tag_handling_version"] = VERSION
    return told

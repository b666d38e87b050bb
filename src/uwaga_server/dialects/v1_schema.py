"""Models of the request and response bodies of the native dialect, with their descriptions for OpenAPI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, create_model

from uwaga.search import SearchOptions, SearchOverrides
from uwaga.settings.options import OptionField, option_fields
from uwaga.translator.memories import DEFAULT_THRESHOLD
from uwaga_server.routing import ResponseDescription
from uwaga_server.service import DetectedLanguage

MAX_HYPOTHESES = 16
"""Maximum number of hypotheses or samples per sentence."""
MAX_TOKENS = 4096
"""Maximum value of options that are numbers of tokens."""
DEFAULT_BEAM = 5
"""Default beam size of requests that ask for several translations or for high quality."""
MAX_EXACT_INTEGER = 2**53 - 1
"""Largest integer that all JSON parsers represent exactly (RFC 8259, section 6)."""
EXCLUDED_OPTIONS = ("attention", "alignment", "entropy", "batch_tokens")
"""Search options that a request sets through other fields or cannot set."""
LanguageCode = Annotated[str, Field(min_length=1, max_length=32, examples=["en"])]


def _as_integer(value: object) -> object:
    """Return a whole number such as 7.0 as an integer, since JSON has a single number type."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Integral = BeforeValidator(_as_integer)
"""Validator that accepts 7.0 as an integer; it must follow the bounds, or the schema omits the bounds."""
STRICT_CONFIG = ConfigDict(extra="forbid", strict=True)


class ContextBody(BaseModel):
    """The context of a text in its document."""

    model_config = STRICT_CONFIG

    key: str = Field("", max_length=1024, description="Key of the text, such as a message id.")
    before: str = Field("", max_length=100_000, description="The preceding source text.")
    after: str = Field("", max_length=100_000, description="The following source text.")


class TextBody(BaseModel):
    """Fields of a translation request, except the search options."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [{"text": "The weather is nice today.", "source": "en", "target": "de"}]
        },
    )

    text: str | list[str] = Field(description="One text, or a list of texts.")
    target: LanguageCode = Field(description="Language to translate to.")
    source: LanguageCode | None = Field(
        None, description="Language of the texts; detected if `auto` or omitted."
    )
    format: Literal["text", "html", "xml", "markdown", "message"] = "text"
    prefix: str | None = Field(
        None, max_length=2000, description="Force each translation to start with this text."
    )
    draft: str | list[str] | None = Field(
        None,
        description="A probable translation, such as that of an earlier version of the text, or a list with "
        "one for each text. The model verifies it in a few passes, with greedy search.",
    )
    bias: float = Field(
        0.0,
        ge=0,
        lt=0.5,
        description="How strongly words of the draft are preferred to more probable ones; with 0, the result "
        "is the same as without a draft.",
    )
    mask: Annotated[int, Field(ge=0, le=MAX_TOKENS), Integral] = Field(
        0, description="Number of words at the end of the draft that are hidden and not preferred."
    )
    glossary: dict[str, str] | None = Field(
        None, max_length=5000, description="Required translations of terms."
    )
    glossary_id: str | None = Field(None, max_length=64, description="Id of a stored glossary.")
    glossary_mode: Literal["forced", "soft"] = Field(
        "forced", description="`forced`: always use the terms; `soft`: prefer them."
    )
    memory: str | None = Field(None, max_length=64, description="Id of a translation memory.")
    threshold: float = Field(
        DEFAULT_THRESHOLD, ge=1, le=100, description="Minimum similarity of the memory's pairs, in percent."
    )
    context: ContextBody | list[ContextBody] | None = Field(
        None,
        description="The context of the text in its document, or a list with one for each text. A pair with "
        "the same source, and the same key or neighbours, has a score of 101.",
    )
    placeholders: bool = Field(True, description="Keep {names}, %s, URLs etc. unchanged.")
    ignore_tags: list[str] = Field(
        [], max_length=100, description="Names of HTML or XML elements whose content is not translated."
    )
    split: Literal["auto", "sentences", "never"] = "auto"
    alignment: bool = Field(False, description="Return the word alignment of text and translation.")
    attention: bool | Literal["all", "view"] = Field(
        False,
        description="Return the attention weights with shape (target, source); `all`: return all matrices; "
        "`view`: return all matrices in a compact form for display.",
    )
    tokens: bool = Field(False, description="Return the subword tokens of the source and the translation.")
    scores: bool = Field(False, description="Return the probabilities of words and the scores of tokens.")
    progress: bool = Field(
        False,
        description="Send server-sent events: the number of translated sentences, then the translations.",
    )
    stream: bool = Field(
        False, description="Send the translation of a single text as server-sent events while it is decoded."
    )

    def search_options(self) -> SearchOverrides:
        """Return the requested search options; the beam is at least as large as ``nbest``."""
        names = [name for name in self.model_fields_set if name not in TextBody.model_fields]
        options = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.draft and "beam" not in options:
            options["beam"] = 1
        nbest, samples = options.get("nbest", 1), options.get("sample") or options.get("mbr")
        if not samples and ("beam" in options or nbest > 1):
            options["beam"] = max(options.get("beam", DEFAULT_BEAM), nbest)
        return options


def search_fields() -> dict[str, Any]:
    """Return the types and the pydantic fields of the search options, by the names of the options."""
    fields = option_fields(SearchOptions).values()
    return {
        field.name: (_body_type(field), Field(_body_default(field), description=f"{field.option.help}."))
        for field in fields
        if not field.option.internal and field.name not in EXCLUDED_OPTIONS
    }


def _body_default(option: OptionField) -> Any:
    return None if option.option.unset else option.default


def _body_type(option: OptionField) -> Any:
    """Return the type of the field for an option, with the bounds of the option and of the server."""
    if option.choices:
        # A Literal of False would accept 0, which equals it.
        words = tuple(choice for choice in option.choices if isinstance(choice, str))
        kind: Any = Literal[words] | bool if False in option.choices else Literal[words]
    elif option.kinds == (int,):
        minimum, maximum = option.option.minimum, option.option.maximum
        limit = (
            MAX_HYPOTHESES
            if option.name in ("beam", "nbest", "mbr")
            else MAX_TOKENS
            if maximum is None
            else maximum
        )
        bounds = Field(ge=max(int(minimum or 0), -MAX_EXACT_INTEGER), le=min(int(limit), MAX_EXACT_INTEGER))
        kind = Annotated[int, bounds, Integral]
    elif option.kinds == (float,):
        kind = Annotated[float, Field(ge=option.option.minimum, le=option.option.maximum)]
    else:
        kind = option.kinds[0]
    return kind if _body_default(option) is not None else kind | None


if TYPE_CHECKING:
    TranslateBody = TextBody
else:
    TranslateBody = create_model(
        "TranslateBody", __base__=TextBody, __doc__="A request for translations.", **search_fields()
    )


class DetectBody(BaseModel):
    """Texts whose language is to be detected."""

    model_config = STRICT_CONFIG
    text: str | list[str] = Field(examples=["Guten Morgen!"])


class Detection(BaseModel):
    """A detected language and its probability."""

    code: str
    confidence: float


def detection_response(language: DetectedLanguage) -> dict[str, object]:
    """Return a detected language as JSON."""
    return {"code": language.code, "confidence": round(language.confidence, 4)}


class ItemError(BaseModel):
    """The code and message of an error in the translation of a text."""

    code: str
    message: str


class Translated(BaseModel):
    """A translation with the requested results."""

    text: str
    score: float | None = None
    detected_source: Detection | None = None
    error: ItemError | None = None
    warnings: list[str] | None = None
    tokens: list[str] | None = None
    source_tokens: list[str] | None = None
    token_scores: list[float | None] | None = None
    words: list[dict[str, object]] | None = None
    confidence: dict[str, object] | None = None
    attention: list[list[float | None]] | None = None
    attentions: dict[str, object] | None = None
    attention_view: dict[str, object] | None = None
    alignment: dict[str, object] | None = None
    coverage: dict[str, list[object]] | None = None
    terms: list[dict[str, object]] | None = None
    memory: list[dict[str, object]] | None = None
    alternatives: list[Translated] | None = None


class TranslateAnswer(BaseModel):
    """Translations in the order of the texts."""

    translations: list[Translated]
    model: str


class DetectAnswer(BaseModel):
    """The language of each text; null for a text without letters."""

    detections: list[Detection | None]


class ServedLanguageAnswer(BaseModel):
    """A source language with its target languages, and whether it is detected in texts."""

    code: str
    name: str
    targets: list[str]
    detected: bool


class LanguagesAnswer(BaseModel):
    """The supported languages."""

    languages: list[ServedLanguageAnswer]


class ModelAnswer(BaseModel):
    """A model of the server."""

    name: str
    sources: list[str]
    targets: list[str]
    loaded: bool
    available: bool


class ModelsAnswer(BaseModel):
    """The models of the server, and whether the server has translation memories."""

    models: list[ModelAnswer]
    memories: bool


class ErrorDetail(BaseModel):
    """The code and message of an error, with the invalid parameter and the request id."""

    code: str
    message: str
    parameter: str | None = None
    request_id: str


class ErrorAnswer(BaseModel):
    """The body of an error response."""

    error: ErrorDetail


ERRORS = {
    status: ResponseDescription(description, ErrorAnswer)
    for status, description in (
        (400, "The body is not JSON, or a language or option is invalid"),
        (401, "The key is missing"),
        (403, "The key is wrong"),
        (408, "The body arrived too slowly"),
        (413, "The request is too large"),
        (415, "The body is not JSON"),
        (422, "A field is missing, unknown or of the wrong type"),
        (429, "Too many requests; see `Retry-After`"),
        (501, "A required library is not installed"),
        (503, "The server is busy or stopping, or a model is unavailable; see `Retry-After`"),
        (504, "The request timed out"),
    )
}
NOT_FOUND = ResponseDescription("The client has no glossary, document or memory with this id", ErrorAnswer)

"""What the server's own dialect takes and gives, as OpenAPI describes it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

WIDEST = 16
"""Hypotheses per sentence that a request may ask for."""
USUAL_BEAM = 5
"""Width of the search where a request asks for more than the first hypothesis, or for quality."""
LanguageCode = Annotated[str, Field(min_length=1, max_length=32, examples=["en"])]


def _whole(value: object) -> object:
    """JSON has one kind of number: 7.0 is whole."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Closed = ConfigDict(extra="forbid", strict=True)


class TranslateBody(BaseModel):
    """What is to be translated, and what is to be told of it."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
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
    nbest: Annotated[int, Field(ge=1, le=WIDEST), BeforeValidator(_whole)] = Field(
        1, description="How many translations of each text."
    )
    beam: Annotated[int, Field(ge=1, le=WIDEST), BeforeValidator(_whole)] | None = Field(
        None, description="Width of the search."
    )
    length_penalty: Annotated[float, Field(ge=-10, le=10)] | None = None
    max_length: Annotated[int, Field(ge=1, le=4096), BeforeValidator(_whole)] | None = Field(
        None, description="Most tokens of a sentence."
    )
    prefix: str | None = Field(
        None, max_length=2000, description="What the translation of each text begins with."
    )
    glossary: dict[str, str] | None = Field(None, max_length=5000, description="Terms to hold to.")
    glossary_id: str | None = Field(None, max_length=64, description="A glossary that the server keeps.")
    glossary_mode: Literal["forced", "soft"] = Field(
        "forced", description="Terms are there always, or preferred."
    )
    placeholders: bool = Field(True, description="Keep {names}, %s, URLs and their like as they are.")
    ignore_tags: list[str] = Field(
        [], max_length=100, description="Tags that are left alone, of html and xml."
    )
    split: Literal["auto", "sentences", "never"] = "auto"
    alignment: bool = Field(False, description="Link the words of text and translation.")
    attention: bool | Literal["all", "view"] = Field(
        False, description="Give attention (target, source), or all of it: numbers, or packed to be drawn."
    )
    tokens: bool = Field(False, description="Give the subword tokens of both sides.")
    scores: bool = Field(False, description="Give the words' probabilities and the tokens' scores.")
    stream: bool = Field(
        False, description="Send one text's translation as server-sent events while it grows."
    )


class DetectBody(BaseModel):
    """Texts whose languages are asked for."""

    model_config = Closed
    text: str | list[str] = Field(examples=["Guten Morgen!"])


class Detection(BaseModel):
    """A language and its probability."""

    code: str
    confidence: float


class ItemError(BaseModel):
    """Why a text has no translation."""

    code: str
    message: str


class Translated(BaseModel):
    """A translation; what was not asked for is left out."""

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
    alternatives: list[Translated] | None = None


class TranslateAnswer(BaseModel):
    """Translations in the order of the texts."""

    translations: list[Translated]
    model: str


class DetectAnswer(BaseModel):
    """The language of each text, null of one without letters."""

    detections: list[Detection | None]


class ServedLanguageAnswer(BaseModel):
    """A language that can be translated from."""

    code: str
    name: str
    targets: list[str]


class LanguagesAnswer(BaseModel):
    """The languages on offer."""

    languages: list[ServedLanguageAnswer]


class ModelAnswer(BaseModel):
    """A model on offer."""

    name: str
    sources: list[str]
    targets: list[str]
    loaded: bool
    available: bool


class ModelsAnswer(BaseModel):
    """The models on offer."""

    models: list[ModelAnswer]


class ErrorDetail(BaseModel):
    """What went wrong."""

    code: str
    message: str
    parameter: str | None = None
    request_id: str


class ErrorAnswer(BaseModel):
    """Every answer that is no success."""

    error: ErrorDetail

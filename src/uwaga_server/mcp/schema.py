"""Arguments and results of the tools, as their JSON schemas describe them to language models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from uwaga.translator.memories import DEFAULT_THRESHOLD
from uwaga_server.dialects.v1_schema import STRICT_CONFIG, ContextBody, LanguageCode

MAX_TERMS = 5000
"""Maximum number of terms of a call."""
Names = Annotated[list[str], Field(max_length=100)]
Terms = Annotated[dict[str, str | list[str]], Field(max_length=MAX_TERMS)]
ModelName = Annotated[
    str | None, Field(max_length=200, description="Model to use, as `languages` lists it; chosen if omitted.")
]
Source = Annotated[
    LanguageCode | None, Field(description="Language to translate from, as a code; detected if omitted.")
]
Target = Annotated[LanguageCode, Field(description="Language to translate to, as a code such as `de`.")]
GlossaryName = Annotated[
    str | None, Field(description="File of a glossary, as the tool `glossary` lists it.")
]
InlineTerms = Annotated[
    Terms | None,
    Field(
        description="Required translations of terms. The first of several forms is preferred; an empty "
        "translation leaves the term as it is."
    ),
]
MemoryName = Annotated[
    str | None,
    Field(description="File of a translation memory, as the tool `memory` lists it; similar texts are used."),
]
Threshold = Annotated[
    float,
    Field(ge=1, le=100, description="Minimum similarity of the memory's pairs that are used, in percent."),
]
Context = Annotated[
    ContextBody | None,
    Field(description="The location of the text; a pair from the same location has a similarity of 101."),
]
Overwrite = Annotated[bool, Field(description="Replace the file if it exists.")]


class TranslateArguments(BaseModel):
    """Texts to translate."""

    model_config = STRICT_CONFIG

    text: Annotated[str | list[str], Field(description="One text, or a list of texts.")]
    target: Target
    source: Source = None
    model: ModelName = None
    glossary: GlossaryName = None
    terms: InlineTerms = None
    glossary_mode: Annotated[
        Literal["forced", "soft"],
        Field(description="`forced`: always use the terms; `soft`: prefer them."),
    ] = "forced"
    format: Annotated[
        Literal["text", "html", "xml", "markdown", "message"],
        Field(description="Markup of the texts; tags are placed around the corresponding words."),
    ] = "text"
    ignore_tags: Annotated[
        Names, Field(description="Names of html or xml elements to leave untranslated.")
    ] = []
    placeholders: Annotated[
        bool, Field(description="Keep {names}, %s, URLs and similar parts unchanged.")
    ] = True
    memory: MemoryName = None
    threshold: Threshold = DEFAULT_THRESHOLD
    context: Annotated[
        ContextBody | list[ContextBody] | None,
        Field(
            description="The location of the text in its document, for `memory`; or a list for several texts."
        ),
    ] = None


class MemoryUse(BaseModel):
    """A pair of the memory that was used for a translation."""

    source: str
    target: str
    score: float = Field(description="Similarity in percent; 101 in the same context.")
    used: str = Field(
        description="`verbatim`, `fitted` (with other numbers or placeholders) or as the `beginning`."
    )
    origin: str = ""
    created: str = ""


class TranslatedText(BaseModel):
    """The translation of a text."""

    text: str
    source: str | None = Field(None, description="Language of the text.")
    warnings: list[str] = Field([], description="Why the translation may be wrong.")
    error: str | None = Field(None, description="Why the text was not translated.")
    memory: list[MemoryUse] | None = Field(None, description="Pairs of the memory that were used.")


class TranslateResult(BaseModel):
    """Translations in the order of the texts."""

    translations: list[TranslatedText]
    model: str = Field(description="Models used.")


class FileArguments(BaseModel):
    """A document to translate."""

    model_config = STRICT_CONFIG

    document: Annotated[str, Field(description="Path of the document inside a folder of the server.")]
    target: Target
    source: Source = None
    output: Annotated[
        str | None,
        Field(description="Path of the translated document; `NAME.TARGET.SUFFIX` beside it if omitted."),
    ] = None
    overwrite: Overwrite = False
    model: ModelName = None
    glossary: GlossaryName = None
    terms: InlineTerms = None
    columns: Annotated[Names, Field(description="For CSV and TSV: names of the columns to translate.")] = []
    keys: Annotated[
        Names,
        Field(description="For JSON and YAML: the keys to translate, such as `menu.*`; all if omitted."),
    ] = []
    retranslate: Annotated[
        bool, Field(description="For PO and XLIFF: also translate entries that have a translation.")
    ] = False
    memory: MemoryName = None
    threshold: Threshold = DEFAULT_THRESHOLD


class DoubtfulText(BaseModel):
    """A text whose translation may be wrong."""

    number: int = Field(description="Number of the text in the document, from 1.")
    text: str
    reasons: list[str]


class FileResult(BaseModel):
    """A translated document."""

    output: str = Field(description="Path of the translated document inside its folder.")
    folder: str = Field(description="Name of the folder.")
    format: str
    source: str = Field(description="Language of the document.")
    target: str
    model: str = Field(description="Models used.")
    texts: int = Field(description="Number of texts.")
    resumed: int = Field(0, description="How many of them an earlier, interrupted call translated.")
    doubtful: int = Field(0, description="Number of translations that may be wrong.")
    doubts: list[DoubtfulText] = Field([], description="The first of them.")
    untranslated: dict[str, int] = Field({}, description="Number of texts left as they are, by reason.")
    memory: dict[str, int] | None = Field(
        None, description="Number of texts translated with the memory, by how: verbatim, fitted, beginning."
    )


class LanguagesArguments(BaseModel):
    """Filters of the list of languages."""

    model_config = STRICT_CONFIG

    source: Annotated[LanguageCode | None, Field(description="List only this source language.")] = None
    target: Annotated[LanguageCode | None, Field(description="List only what translates to this.")] = None


class SourceLanguage(BaseModel):
    """A source language."""

    code: str
    name: str
    targets: list[str] | None = Field(None, description="Codes of the languages it is translated to.")


class ModelLanguages(BaseModel):
    """A model and its own codes of languages."""

    name: str
    sources: list[str]
    targets: list[str]


class LanguagesResult(BaseModel):
    """Languages and models."""

    languages: list[SourceLanguage]
    models: list[ModelLanguages]
    note: str | None = None


class GlossaryArguments(BaseModel):
    """Which glossary to list, show or create."""

    model_config = STRICT_CONFIG

    name: Annotated[
        str | None, Field(description="Path of the glossary inside a folder; lists all if omitted.")
    ] = None
    terms: Annotated[
        Terms | None,
        Field(description="Create the glossary `name`, which ends with .tsv, with these terms."),
    ] = None
    source: Annotated[LanguageCode | None, Field(description="Source language, to read a TBX file.")] = None
    target: Annotated[LanguageCode | None, Field(description="Target language, to read a TBX file.")] = None
    overwrite: Overwrite = False


class GlossaryTerms(BaseModel):
    """A glossary, and its terms if the call named it."""

    name: str
    count: int | None = Field(None, description="Number of terms.")
    terms: dict[str, list[str]] | None = Field(None, description="The first terms with their translations.")


class GlossaryResult(BaseModel):
    """Glossaries."""

    model_config = ConfigDict(
        json_schema_extra={"description": "Glossaries: all, or the one that was named."}
    )

    glossaries: list[GlossaryTerms]


class MemoryArguments(BaseModel):
    """Which translation memory to describe or to search."""

    model_config = STRICT_CONFIG

    name: Annotated[
        str | None, Field(description="Path of the memory inside a folder; lists all if omitted.")
    ] = None
    text: Annotated[str | None, Field(description="Text to look up in the memory `name`.")] = None
    threshold: Annotated[
        float, Field(ge=1, le=100, description="Minimum similarity of the pairs, in percent.")
    ] = 50.0
    limit: Annotated[int, Field(ge=1, le=100, description="Maximum number of pairs.")] = 5
    context: Context = None


class MemoryPair(BaseModel):
    """A pair that is similar to a text."""

    source: str
    target: str
    score: float = Field(description="Similarity in percent; 101 in the same context.")
    origin: str = ""
    created: str = ""


class MemoryDescription(BaseModel):
    """A translation memory; a list contains only the names."""

    name: str
    source: str | None = Field(None, description="Language of the sources.")
    target: str | None = Field(None, description="Language of the translations.")
    count: int | None = Field(None, description="Number of pairs.")
    matches: list[MemoryPair] | None = Field(None, description="Pairs similar to the text, best first.")


class MemoryResult(BaseModel):
    """Translation memories."""

    model_config = ConfigDict(
        json_schema_extra={"description": "Translation memories: all, or the one that was named."}
    )

    memories: list[MemoryDescription]


class Languages(BaseModel):
    """The languages of a memory."""

    model_config = STRICT_CONFIG

    source: LanguageCode
    target: LanguageCode


class ConfirmArguments(BaseModel):
    """A confirmed translation."""

    model_config = STRICT_CONFIG

    memory: Annotated[str, Field(description="Path of the memory inside a folder, which ends with .uwm.")]
    text: Annotated[str, Field(description="The source text.")]
    translation: Annotated[str, Field(description="Its translation, confirmed by a person.")]
    context: Context = None
    origin: Annotated[
        str, Field(max_length=1024, description="Where the translation comes from, such as a file.")
    ] = ""
    create: Annotated[
        Languages | None, Field(description="Languages of the memory, to create it if there is none.")
    ] = None


class ConfirmResult(BaseModel):
    """The result of a confirmation."""

    memory: str
    count: int = Field(description="Number of pairs of the memory.")
    known: bool = Field(description="Whether the memory had the pair; it is now preferred to others.")

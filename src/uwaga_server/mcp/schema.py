"""Arguments and results of the tools; their JSON schemas describe the tools to language models."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from uwaga.translator.memories import DEFAULT_THRESHOLD
from uwaga_server.dialects.v1_schema import STRICT_CONFIG, ContextBody, LanguageCode

MAX_TERMS = 5000
"""Maximum number of terms in a tool call."""
Names = Annotated[list[str], Field(max_length=100)]
Terms = Annotated[dict[str, str | list[str]], Field(max_length=MAX_TERMS)]
ModelName = Annotated[
    str | None,
    Field(
        max_length=200,
        description="Name of the model, as listed by `languages`; chosen automatically if omitted.",
    ),
]
Source = Annotated[
    LanguageCode | None, Field(description="Code of the source language; detected if omitted.")
]
Target = Annotated[LanguageCode, Field(description="Code of the target language, such as `de`.")]
GlossaryName = Annotated[
    str | None, Field(description="Path of a glossary file, as listed by the tool `glossary`.")
]
InlineTerms = Annotated[
    Terms | None,
    Field(
        description="Required translations of terms. Of several forms, the first is preferred; terms with an "
        "empty translation are kept unchanged."
    ),
]
MemoryName = Annotated[
    str | None,
    Field(
        description="Path of a translation memory file, as listed by the tool `memory`; translations of "
        "similar texts are reused."
    ),
]
Threshold = Annotated[
    float,
    Field(ge=1, le=100, description="Minimum similarity in percent of the memory's pairs to use."),
]
Context = Annotated[
    ContextBody | None,
    Field(description="The context of the text; a pair with the same context has a similarity of 101."),
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
        Field(description="Format of the texts; tags are placed around the corresponding words."),
    ] = "text"
    ignore_tags: Annotated[
        Names, Field(description="Names of HTML or XML elements whose content is not translated.")
    ] = []
    placeholders: Annotated[
        bool, Field(description="Keep {names}, %s, URLs and similar parts unchanged.")
    ] = True
    memory: MemoryName = None
    threshold: Threshold = DEFAULT_THRESHOLD
    context: Annotated[
        ContextBody | list[ContextBody] | None,
        Field(
            description="The context of the text in its document, for `memory`; or a list, one for each text."
        ),
    ] = None


class MemoryUse(BaseModel):
    """A memory pair that was used for a translation."""

    source: str
    target: str
    score: float = Field(description="Similarity in percent; 101 for the same text in the same context.")
    used: str = Field(
        description="How the pair was used: `verbatim`, `fitted` (with numbers or placeholders replaced), or "
        "as the `beginning` of the translation."
    )
    origin: str = ""
    created: str = ""


class TranslatedText(BaseModel):
    """The translation of a text."""

    text: str
    source: str | None = Field(None, description="Code of the source language.")
    warnings: list[str] = Field([], description="Reasons why the translation may be wrong.")
    error: str | None = Field(None, description="Reason why the text was not translated.")
    memory: list[MemoryUse] | None = Field(None, description="Pairs of the memory that were used.")


class TranslateResult(BaseModel):
    """Translations in the order of the texts."""

    translations: list[TranslatedText]
    model: str = Field(description="Names of the models that were used.")


class FileArguments(BaseModel):
    """A document to translate."""

    model_config = STRICT_CONFIG

    document: Annotated[str, Field(description="Path of the document inside a folder of the server.")]
    target: Target
    source: Source = None
    output: Annotated[
        str | None,
        Field(
            description="Path of the translated document; `NAME.TARGET.SUFFIX` in the same folder if omitted."
        ),
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
    source: str = Field(description="Code of the source language.")
    target: str
    model: str = Field(description="Names of the models that were used.")
    texts: int = Field(description="Number of texts in the document.")
    resumed: int = Field(0, description="Number of texts that an earlier, interrupted call translated.")
    doubtful: int = Field(0, description="Number of translations that may be wrong.")
    doubts: list[DoubtfulText] = Field([], description="The first translations that may be wrong.")
    untranslated: dict[str, int] = Field({}, description="Number of untranslated texts, by reason.")
    memory: dict[str, int] | None = Field(
        None,
        description="Number of texts translated with the memory, by use: verbatim, fitted, beginning.",
    )


class LanguagesArguments(BaseModel):
    """Filters for the list of languages."""

    model_config = STRICT_CONFIG

    source: Annotated[LanguageCode | None, Field(description="List only this source language.")] = None
    target: Annotated[
        LanguageCode | None, Field(description="List only languages that can be translated to this one.")
    ] = None


class SourceLanguage(BaseModel):
    """A source language."""

    code: str
    name: str
    targets: list[str] | None = Field(None, description="Codes of the languages it can be translated to.")


class ModelLanguages(BaseModel):
    """A model, with the language codes that it uses."""

    name: str
    sources: list[str]
    targets: list[str]


class LanguagesResult(BaseModel):
    """Languages and models."""

    languages: list[SourceLanguage]
    models: list[ModelLanguages]
    note: str | None = None


class GlossaryArguments(BaseModel):
    """The glossary to list, show or create."""

    model_config = STRICT_CONFIG

    name: Annotated[
        str | None,
        Field(description="Path of the glossary inside a folder; all glossaries are listed if omitted."),
    ] = None
    terms: Annotated[
        Terms | None,
        Field(description="Terms of a new glossary; its `name` must end with .tsv."),
    ] = None
    source: Annotated[LanguageCode | None, Field(description="Source language of a TBX file.")] = None
    target: Annotated[LanguageCode | None, Field(description="Target language of a TBX file.")] = None
    overwrite: Overwrite = False


class GlossaryTerms(BaseModel):
    """A glossary, with its terms if the call named the glossary."""

    name: str
    count: int | None = Field(None, description="Number of terms.")
    terms: dict[str, list[str]] | None = Field(
        None, description="The first terms of the glossary with their translations."
    )


class GlossaryResult(BaseModel):
    """The listed glossaries."""

    model_config = ConfigDict(
        json_schema_extra={"description": "All glossaries, or the glossary that the call named."}
    )

    glossaries: list[GlossaryTerms]


class MemoryArguments(BaseModel):
    """The translation memory to describe or search."""

    model_config = STRICT_CONFIG

    name: Annotated[
        str | None,
        Field(description="Path of the memory inside a folder; all memories are listed if omitted."),
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
    score: float = Field(description="Similarity in percent; 101 for the same text in the same context.")
    origin: str = ""
    created: str = ""


class MemoryDescription(BaseModel):
    """A translation memory; only the name is given in a list of all memories."""

    name: str
    source: str | None = Field(None, description="Language of the sources.")
    target: str | None = Field(None, description="Language of the translations.")
    count: int | None = Field(None, description="Number of pairs.")
    matches: list[MemoryPair] | None = Field(None, description="Pairs similar to the text, best first.")


class MemoryResult(BaseModel):
    """The listed translation memories."""

    model_config = ConfigDict(
        json_schema_extra={"description": "All translation memories, or the memory that the call named."}
    )

    memories: list[MemoryDescription]


class Languages(BaseModel):
    """The source and target language of a memory."""

    model_config = STRICT_CONFIG

    source: LanguageCode
    target: LanguageCode


class ConfirmArguments(BaseModel):
    """A confirmed translation to add to a memory."""

    model_config = STRICT_CONFIG

    memory: Annotated[str, Field(description="Path of the memory inside a folder; it ends with .uwm.")]
    text: Annotated[str, Field(description="The source text.")]
    translation: Annotated[
        str, Field(description="The translation of the text, which a person has confirmed.")
    ]
    context: Context = None
    origin: Annotated[
        str, Field(max_length=1024, description="Where the translation comes from, such as a file.")
    ] = ""
    create: Annotated[
        Languages | None,
        Field(description="Languages of a new memory, which is created if the file does not exist."),
    ] = None


class ConfirmResult(BaseModel):
    """The memory after a translation has been confirmed."""

    memory: str
    count: int = Field(description="Number of pairs in the memory.")
    known: bool = Field(
        description="Whether the memory already contained the pair, which now has preference over others."
    )

"""The schema of ``config.json`` in int8 and int4 folders. Does not import torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from uwaga.checkpoints.formats.uwaga.names import CONFIG, INT4_FORMAT, INT8_FORMAT
from uwaga.checkpoints.formats.uwaga.read import Language, SymbolIds, TokenId, Vocabulary
from uwaga.checkpoints.score_stats import ScoreStats
from uwaga.checkpoints.size_checks import MAX_BUFFER_NUMBERS, layer_count, layer_width
from uwaga.checkpoints.storage.json_file import parse_stored, read_mapping
from uwaga.engine.layout import Precision, unsupported_reason
from uwaga.errors import ModelError, SettingsError, quoted
from uwaga.search import SearchOptions
from uwaga.search.options import options_from_settings
from uwaga.settings import (
    DecoderOnlySettings,
    DecodingSettings,
    SourceSettings,
    StrictModel,
    TransformerSettings,
)
from uwaga.settings.recurrent import (
    BahdanauSettings,
    ChoSettings,
    GnmtSettings,
    LuongSettings,
    SutskeverSettings,
)
from uwaga.settings.text_options import TextOptions
from uwaga.tokenizers.chat_template import MAX_TEMPLATE_CHARACTERS
from uwaga.tokenizers.framed import TokenPosition

MIN_LAYER_BYTES = 1000
"""Lower bound on the size of a layer in bytes; the names of its weights alone take more."""
VERSIONS = {INT8_FORMAT: 4, INT4_FORMAT: 1}
"""Current version of the schema of each format."""
PRECISIONS: dict[str, Precision] = {INT8_FORMAT: "int8", INT4_FORMAT: "int4"}


class SpecialToken(StrictModel):
    """A special token that texts may contain; see :class:`uwaga.tokenizers.pretrained_files.AddedToken`."""

    id: TokenId
    text: str = Field(min_length=1, max_length=256)
    lstrip: bool
    rstrip: bool
    special: bool


class LanguageTokens(StrictModel):
    """The language tokens of a multilingual model.

    Attributes:
        tokens: ids of the language tokens by language code.
        positions: position of the language token in the source and in the target.
        selected: source and target language selected in the converted folder; None if none was selected.
    """

    tokens: dict[str, TokenId] = Field(min_length=1, max_length=4096)
    positions: tuple[TokenPosition, TokenPosition]
    selected: tuple[Language | None, Language | None]

    @model_validator(mode="after")
    def _check_selected(self) -> LanguageTokens:
        if unknown_names := set(self.selected) - {None, *self.tokens}:
            raise ValueError(f"selected: {unknown_names.pop()!r} is not a key of tokens")
        return self


class TaskPrefix(StrictModel):
    """The text that precedes each source of a language pair, as in T5."""

    source: Language
    target: Language
    prefix: str = Field(max_length=256)


class Frame(StrictModel):
    """Special tokens that a pretrained model's tokeniser adds to texts, and changes that it makes to them.

    Attributes:
        prefix, suffix: ids added before and after a text.
        clean: True to remove spaces before punctuation in decoded texts.
        strip: True to strip white space from decoded texts.
        special: the special tokens of a tokeniser of the kind ``numbered``.
        languages: the language tokens of a multilingual model.
        tasks: the texts that precede sources.
    """

    prefix: list[TokenId] = Field(max_length=64)
    suffix: list[TokenId] = Field(max_length=64)
    clean: bool
    strip: bool = False
    special: list[SpecialToken] = Field(default=[], max_length=1 << 16)
    languages: LanguageTokens | None = None
    tasks: list[TaskPrefix] = Field(default=[], max_length=4096)


class Chat(StrictModel):
    """The chat template of a decoder-only model; see :class:`uwaga.tokenizers.chat_template.ChatTemplate`."""

    template: str = Field(max_length=MAX_TEMPLATE_CHARACTERS)
    special: dict[str, str] = Field(max_length=64)
    family: str


class WeightFile(StrictModel):
    """The weight file.

    Attributes:
        levels: largest absolute value in the int8 matrices.
        kept: names of the matrices that are bfloat16 in an int8 model, or int8 in an int4 model.
        spread: True if the inputs of int8 matrices are spread (:mod:`uwaga.engine.packing`), which only
            decoder-only models permit.
        bytes: size of the file in bytes.
        sha256: checksum of the file.
    """

    levels: int = Field(ge=1, le=127)
    kept: list[str] = Field(max_length=4096)
    spread: bool | None = None
    bytes: int = Field(ge=1)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class QuantisedConfig(StrictModel):
    """The schema of ``config.json``.

    uwaga's models have the group ``decoding``, models of other libraries the group ``search``. The group
    ``frame`` is required for three kinds of tokenisers: ``tokenizers``, a tokeniser of that library;
    ``sentencepiece``, a SentencePiece model whose control pieces are special tokens; and ``numbered``, a
    SentencePiece model whose ids are given in ``source.vocab.json``.
    """

    format: Literal["uwaga int8 model", "uwaga int4 model"]
    version: int = Field(ge=1)
    languages: tuple[Language, Language]
    tokenisers: Literal["uwaga", "marian", "tokenizers", "sentencepiece", "numbered"]
    frame: Frame | None = None
    chat: Chat | None = None
    vocabulary: Vocabulary
    symbols: SymbolIds
    model: Annotated[
        TransformerSettings
        | DecoderOnlySettings
        | ChoSettings
        | SutskeverSettings
        | BahdanauSettings
        | LuongSettings
        | GnmtSettings,
        Field(discriminator="family"),
    ]
    decoding: DecodingSettings | None = None
    search: dict[str, Any] | None = None
    text: SourceSettings = Field(default_factory=SourceSettings)
    weights: WeightFile
    usual_score: ScoreStats | None = None

    @model_validator(mode="after")
    def _check_consistency(self) -> QuantisedConfig:
        if (self.decoding is None) == (self.search is None):
            raise ValueError("exactly one of decoding and search is required")
        if self.weights.spread and not isinstance(self.model, DecoderOnlySettings):
            raise ValueError("weights.spread is allowed only for decoder-only models")
        if (self.tokenisers in ("uwaga", "marian")) != (self.frame is None):
            raise ValueError(
                "a frame is required for all tokenisers except uwaga's and Marian's, which have none"
            )
        if self.frame is not None and not self.vocabulary.joint:
            raise ValueError("a frame requires a joint vocabulary")
        if isinstance(self.model, DecoderOnlySettings) and not self.vocabulary.joint:
            raise ValueError("a decoder-only model has one vocabulary, but vocabulary.joint is false")
        self.symbols.check(self.vocabulary.target)
        reason = unsupported_reason(self.model)
        if reason is not None:
            raise ValueError(f"the native engine runs {reason}")
        position_families = (TransformerSettings, DecoderOnlySettings)
        is_unlimited = isinstance(self.model, position_families) and self.model.positions in (
            "relative",
            "rotary",
        )
        if not is_unlimited and self.model.max_length * layer_width(self.model) > MAX_BUFFER_NUMBERS:
            raise ValueError(f"model.max_length {self.model.max_length} is too large")
        return self

    @property
    def sizes(self) -> tuple[int, int]:
        """Sizes of the source and target vocabularies."""
        return self.vocabulary.source, self.vocabulary.target

    @property
    def tasks(self) -> list[TaskPrefix]:
        """The texts that precede sources, by language pair."""
        return [] if self.frame is None else self.frame.tasks

    @property
    def precision(self) -> Precision:
        """Number format of the matrices, except those listed in ``weights.kept``."""
        return PRECISIONS[self.format]


def read_quantised_config(folder: Path) -> QuantisedConfig:
    """Read ``config.json`` of an int8 or int4 folder."""
    path = folder / CONFIG
    values = read_mapping(path)
    format_name, version = values.get("format"), values.get("version")
    if not isinstance(format_name, str) or format_name not in VERSIONS:
        raise ModelError(
            f'{path}: not the configuration of an int8 or int4 model ("format": "{INT8_FORMAT}")'
        )
    supported_version = VERSIONS[format_name]
    if isinstance(version, int) and version != supported_version:
        hint = (
            "install a newer version of uwaga" if version > supported_version else "convert the model again"
        )
        raise ModelError(
            f"{path}: written in version {version} of the {PRECISIONS[format_name]} format, but the "
            f"installed uwaga reads version {supported_version}; {hint}"
        )
    return check_quantised_config(values, str(path))


def check_quantised_config(values: object, location: str) -> QuantisedConfig:
    """Return the configuration after checking its values against the schema."""
    return parse_stored(QuantisedConfig, values, location)


def check_layers(path: Path, config: QuantisedConfig) -> None:
    """Raise ModelError if the weight file is too small for the number of layers.

    This is checked before the weights of the layers are listed.
    """
    check_size(path, config, layer_count(config.model) * max(MIN_LAYER_BYTES, 4 * layer_width(config.model)))


def check_size(path: Path, config: QuantisedConfig, minimum: int) -> None:
    """Raise ModelError if the size of the weight file is not the stated size or is less than ``minimum``."""
    if not path.is_file():
        raise ModelError(f"{path}: no such file, so {path.parent} is not a complete model folder")
    size = path.stat().st_size
    if size != config.weights.bytes or minimum > size:
        raise ModelError(
            f"{path}: has {size} bytes, but {CONFIG} requires {max(config.weights.bytes, minimum)}; the "
            "file is truncated or belongs to another model: convert the model again"
        )


def read_decoding(config: QuantisedConfig, path: Path) -> tuple[SearchOptions, TextOptions]:
    """Return the default options of search and of text preprocessing that a configuration states."""
    try:
        if config.decoding is not None:
            return options_from_settings(config.decoding)
        return _search_options(config.search or {}, path), TextOptions(**dict(config.text))
    except SettingsError as error:
        raise ModelError(f"{path}: {error}") from None


def _search_options(values: Mapping[str, Any], path: Path) -> SearchOptions:
    names = {field.name for field in fields(SearchOptions)}
    unknown_names = sorted(set(values) - names)
    if unknown_names:
        raise ModelError(f"{path}: search.{unknown_names[0][:60]} is not a known option")
    options = dict(values)
    for name, value in options.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ModelError(f"{path}: search.{name} is {value}, not a number")
        is_boolean = isinstance(getattr(SearchOptions, name), bool) and name != "early_stopping"
        if is_boolean and not isinstance(value, bool):
            raise ModelError(f"{path}: search.{name} must be true or false, not {quoted(value)}")
    if options.get("max_ratio", 0) is None:
        options["max_ratio"] = math.inf
    if isinstance(options.get("banned"), list):
        options["banned"] = tuple(options["banned"])
    try:
        return SearchOptions(**options)
    except (SettingsError, TypeError, ValueError) as error:
        raise ModelError(f"{path}: search: {error}") from None

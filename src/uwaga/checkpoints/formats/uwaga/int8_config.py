"""``config.json`` of an int8 or int4 folder: a closed schema with a version. Nothing here needs torch."""

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
from uwaga.checkpoints.size_checks import LARGEST_BUFFERS, layer_count, layer_width
from uwaga.checkpoints.storage.json_file import parse_stored, read_mapping
from uwaga.engine.layout import engine_refusal
from uwaga.engine.packing import KEPT, Precision
from uwaga.errors import ModelError, SettingsError, shown
from uwaga.search import SearchOptions
from uwaga.search.options import from_settings
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
from uwaga.tokenizers.chat_template import MAX_TEMPLATE

LEAST_LAYER = 1000
"""Bytes of a layer, whatever its width: the names of its weights alone take more."""
VERSIONS = {INT8_FORMAT: 4, INT4_FORMAT: 1}
"""Of the schema of each format."""
PRECISIONS: dict[str, Precision] = {INT8_FORMAT: "int8", INT4_FORMAT: "int4"}


class Frame(StrictModel):
    """The ids around a text for a pretrained model's tokeniser; ``clean``: tidy decoded text."""

    prefix: list[TokenId] = Field(max_length=64)
    suffix: list[TokenId] = Field(max_length=64)
    clean: bool


class Chat(StrictModel):
    """The chat template of a decoder-only model; see :class:`uwaga.tokenizers.chat_template.ChatTemplate`."""

    template: str = Field(max_length=MAX_TEMPLATE)
    special: dict[str, str] = Field(max_length=64)
    family: str


class WeightFile(StrictModel):
    """The weight file.

    ``levels`` is the largest number of the int8 matrices, ``kept`` the matrices in bfloat16; in an int4 model
    those in int8. ``spread``: the inputs of int8 matrices are spread (:mod:`uwaga.engine.packing`); only
    in decoder-only models, and not in those of older versions.
    """

    levels: int = Field(ge=1, le=127)
    kept: list[str] = Field(max_length=4096)
    spread: bool | None = None
    bytes: int = Field(ge=1)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class QuantisedConfig(StrictModel):
    """The schema of ``config.json``; uwaga's models have ``decoding``, those of other libraries ``search``.

    ``frame`` belongs to pretrained models' tokenisers: of the ``tokenizers`` library, or a SentencePiece
    model whose control pieces are special tokens.
    """

    format: Literal["uwaga int8 model", "uwaga int4 model"]
    version: int = Field(ge=1)
    languages: tuple[Language, Language]
    tokenisers: Literal["uwaga", "marian", "tokenizers", "sentencepiece"]
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
    def _fits(self) -> QuantisedConfig:
        if (self.decoding is None) == (self.search is None):
            raise ValueError("exactly one of decoding and search is wanted")
        if self.weights.spread and not isinstance(self.model, DecoderOnlySettings):
            raise ValueError("weights.spread is for decoder-only models")
        if (self.tokenisers in ("tokenizers", "sentencepiece")) != (self.frame is not None):
            raise ValueError("a frame goes with the tokenisers of tokenizers and sentencepiece alone")
        if isinstance(self.model, DecoderOnlySettings) and not self.vocabulary.joint:
            raise ValueError("a decoder-only model has one vocabulary")
        self.symbols.check(self.vocabulary.target)
        refusal = engine_refusal(self.model)
        if refusal is not None:
            raise ValueError(f"the native engine runs {refusal}")
        untabled = (TransformerSettings, DecoderOnlySettings)
        unlimited = isinstance(self.model, untabled) and self.model.positions in ("relative", "rotary")
        if not unlimited and self.model.max_length * layer_width(self.model) > LARGEST_BUFFERS:
            raise ValueError(f"model.max_length {self.model.max_length} is too much")
        return self

    @property
    def sizes(self) -> tuple[int, int]:
        """Vocabulary sizes of source and target."""
        return self.vocabulary.source, self.vocabulary.target

    @property
    def precision(self) -> Precision:
        """Number format of the matrices that are not kept in another."""
        return PRECISIONS[self.format]

    def form(self, matrix: str) -> Precision:
        """Return the number format of a matrix."""
        return KEPT[self.precision] if matrix in self.weights.kept else self.precision


def read_quantised_config(folder: Path) -> QuantisedConfig:
    """Read ``config.json`` of an int8 or int4 folder."""
    path = folder / CONFIG
    values = read_mapping(path)
    stated, version = values.get("format"), values.get("version")
    if not isinstance(stated, str) or stated not in VERSIONS:
        raise ModelError(
            f'{path}: not the configuration of an int8 or int4 model ("format": "{INT8_FORMAT}")'
        )
    ours = VERSIONS[stated]
    if isinstance(version, int) and version != ours:
        way = "install a newer uwaga" if version > ours else "convert the model again"
        raise ModelError(
            f"{path}: written in {PRECISIONS[stated]} format {version}, this uwaga reads {ours}; {way}"
        )
    return check_quantised_config(values, str(path))


def check_quantised_config(values: object, where: str) -> QuantisedConfig:
    """Check raw values against the schema."""
    return parse_stored(QuantisedConfig, values, where)


def check_layers(path: Path, config: QuantisedConfig) -> None:
    """Check the number of layers against the size of the weight file, before their weights are listed."""
    check_size(path, config, layer_count(config.model) * max(LEAST_LAYER, 4 * layer_width(config.model)))


def check_size(path: Path, config: QuantisedConfig, least: int) -> None:
    """Compare the size of the weight file with the stated and the required size."""
    if not path.is_file():
        raise ModelError(f"{path}: no such file, so {path.parent} is not a complete model folder")
    size = path.stat().st_size
    if size != config.weights.bytes or least > size:
        raise ModelError(
            f"{path}: has {size} bytes, {CONFIG} asks for {max(config.weights.bytes, least)}; it is "
            "cut short or of another model: convert the model again"
        )


def read_decoding(config: QuantisedConfig, path: Path) -> tuple[SearchOptions, TextOptions]:
    """Return the default options of a model with this configuration."""
    try:
        if config.decoding is not None:
            return from_settings(config.decoding)
        return _search_options(config.search or {}, path), TextOptions(**dict(config.text))
    except SettingsError as error:
        raise ModelError(f"{path}: {error}") from None


def _search_options(values: Mapping[str, Any], path: Path) -> SearchOptions:
    known = {field.name for field in fields(SearchOptions)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise ModelError(f"{path}: search.{unknown[0][:60]} is unknown")
    given = dict(values)
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ModelError(f"{path}: search.{name} is {value}, not a number")
        truth = isinstance(getattr(SearchOptions, name), bool) and name != "early_stopping"
        if truth and not isinstance(value, bool):
            raise ModelError(f"{path}: search.{name} must be true or false, not {shown(value)}")
    if given.get("max_ratio", 0) is None:
        given["max_ratio"] = math.inf
    if isinstance(given.get("banned"), list):
        given["banned"] = tuple(given["banned"])
    try:
        return SearchOptions(**given)
    except (SettingsError, TypeError, ValueError) as error:
        raise ModelError(f"{path}: search: {error}") from None

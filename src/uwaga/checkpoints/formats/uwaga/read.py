"""Reader of uwaga's model folders, and the schema of ``config.json``. Does not import torch."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.checkpoint import Checkpoint, Memory, StoredDtype, WeightSummary
from uwaga.checkpoints.formats.uwaga.names import CONFIG, FORMAT, SOURCE, TARGET, WEIGHTS
from uwaga.checkpoints.languages import Languages
from uwaga.checkpoints.score_stats import ScoreStats
from uwaga.checkpoints.size_checks import MAX_BUFFER_NUMBERS, layer_count, weight_shapes
from uwaga.checkpoints.storage.json_file import parse_stored
from uwaga.checkpoints.storage.safetensors_files import (
    WEIGHT_FORMATS,
    check_header,
    count_tensors,
    open_tensors,
)
from uwaga.checkpoints.storage.tensors import SCALES, StoredTensor, join_scales
from uwaga.checkpoints.weight_map import Table, Weights, identity_table
from uwaga.decoder import Symbols
from uwaga.engine.layout import unsupported_reason
from uwaga.errors import ModelError, SettingsError, printable, quoted
from uwaga.files.regular import read_regular
from uwaga.search import SearchOptions
from uwaga.search.options import options_from_settings
from uwaga.settings import (
    FAMILIES,
    DecoderOnlySettings,
    DecodingSettings,
    ModelSettings,
    StrictModel,
    TransformerSettings,
    parse,
)
from uwaga.settings.recurrent import RecurrentSettings
from uwaga.settings.text_options import TextOptions
from uwaga.tokenizers.tokeniser import Tokeniser

VERSION, RECURRENT_VERSION, SCORE_STATS_VERSION, FIRST_VERSION = 4, 3, 2, 1
"""Format versions.

Version 2 added score statistics, version 3 decoders without self-attention, and version 4 decoder-only
models. A model is written in the oldest version that can represent it.
"""
AVERAGE_SETTINGS = tuple(name for name in TransformerSettings.model_fields if name.startswith("aan_"))
"""Names of a Transformer's settings that apply only to average attention."""

MAX_CONFIG_BYTES = 1 << 20
"""Maximum size of a configuration in bytes; a typical file has about 2,000."""

Language = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_\-]+$")]
TokenId = Annotated[int, Field(ge=0, lt=1 << 24)]


class SymbolIds(StrictModel):
    """The ids of the special tokens; see :class:`uwaga.decoder.Symbols`."""

    start: TokenId
    end: TokenId
    pad: TokenId
    unknown: TokenId
    other_ends: list[TokenId] | None = Field(None, min_length=1, max_length=64)

    @classmethod
    def from_symbols(cls, symbols: Symbols) -> SymbolIds:
        """Return the ids in the form that is stored in ``config.json``."""
        values = {name: getattr(symbols, name) for name in cls.model_fields}
        return cls.model_validate(values | {"other_ends": list(symbols.other_ends) or None})

    def symbols(self) -> Symbols:
        """Return the ids as :class:`uwaga.decoder.Symbols`, which the search uses."""
        return Symbols(self.start, self.end, self.pad, self.unknown, tuple(self.other_ends or ()))

    def check(self, vocabulary: int) -> None:
        """Raise ValueError if an id is not less than the size of the vocabulary."""
        for name, value in self.model_dump().items():
            for token in value if isinstance(value, list) else [value]:
                if token is not None and token >= vocabulary:
                    raise ValueError(f"symbols.{name} is {token}, but the vocabulary has {vocabulary} pieces")


class Vocabulary(StrictModel):
    """Vocabulary sizes of both sides; ``joint`` is True if both sides share ``source.spm``."""

    source: int = Field(ge=4, lt=1 << 24)
    target: int = Field(ge=4, lt=1 << 24)
    joint: bool

    @model_validator(mode="after")
    def _check_joint_sizes(self) -> Vocabulary:
        if self.joint and self.source != self.target:
            raise ValueError(f"a joint vocabulary must have one size, not {self.source} and {self.target}")
        return self


class FolderConfig(StrictModel):
    """The schema of ``config.json``."""

    format: Literal["uwaga model"]
    version: int = Field(ge=1)
    languages: tuple[Language, Language]
    normalisation: Literal["nfkc", "identity"] = Field(
        description="text normalisation of the tokenisers, which must agree"
    )
    weights: StoredDtype = Field(
        description="number format of the stored weights; an int8 matrix is stored as integers and, as "
        "NAME:scales, one factor per row; factors and all weights that are not matrices are float32"
    )
    sha256: str | None = Field(
        None,
        pattern=r"^[0-9a-f]{64}$",
        description="SHA-256 of model.safetensors; None in folders written before it was introduced",
    )
    vocabulary: Vocabulary
    symbols: SymbolIds
    model: ModelSettings
    decoding: DecodingSettings
    usual_score: ScoreStats | None = None

    @model_validator(mode="after")
    def _check_symbols(self) -> FolderConfig:
        self.symbols.check(self.vocabulary.target)
        if isinstance(self.model, DecoderOnlySettings) and not self.vocabulary.joint:
            raise ValueError("a decoder-only model has one vocabulary, but vocabulary.joint is false")
        return self


def read_config(folder: Path) -> FolderConfig:
    """Return the checked contents of a folder's ``config.json``."""
    path = folder / CONFIG
    values = _read_json(path)
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ModelError(f"{path}: {_describe_other_format(values)}")
    version = values.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ModelError(
            f"{path}: written in version {version} of the model format, but the installed uwaga reads "
            f"versions up to {VERSION}; install a newer version of uwaga"
        )
    model = values.get("model")
    family = model.get("family") if isinstance(model, dict) else None
    if family is not None and not (isinstance(family, str) and family in FAMILIES):
        raise ModelError(
            f"{path}: model.family {quoted(family)} is not supported; the installed uwaga supports "
            f"{', '.join(FAMILIES)}"
        )
    return check_config(values, str(path))


def check_config(values: object, location: str) -> FolderConfig:
    """Return the configuration after checking its values against the schema."""
    return parse_stored(FolderConfig, values, location)


def decoding_settings(search: SearchOptions, text: TextOptions) -> DecodingSettings | None:
    """Return options as the group ``decoding`` of ``config.json``; None if the group cannot express them."""
    values = {**vars(search), **vars(text)}
    try:
        settings = parse(
            DecodingSettings, {name: values[name] for name in DecodingSettings.model_fields}, "decoding"
        )
    except SettingsError:
        return None
    return (
        settings
        if math.isfinite(settings.max_ratio) and options_from_settings(settings) == (search, text)
        else None
    )


def has_self_attention(settings: StrictModel) -> bool:
    """Return False for a decoder without self-attention, which format versions 1 and 2 cannot represent."""
    return not isinstance(settings, TransformerSettings) or settings.self_attention == "attention"


def expand_model(settings: StrictModel) -> dict[str, Any]:
    """Return a model's settings as JSON values, without unused settings that older versions would reject."""
    values = settings.model_dump(mode="json")
    omitted: tuple[str, ...] = AVERAGE_SETTINGS if values.get("self_attention") != "aan" else ()
    omitted += ("self_attention",) if has_self_attention(settings) else ()
    return {name: value for name, value in values.items() if name not in omitted}


def config_bytes(config: FolderConfig) -> bytes:
    """Return a configuration as the contents of ``config.json``."""
    values = config.model_dump(mode="json") | {"model": expand_model(config.model)}
    values["symbols"] = config.symbols.model_dump(exclude_none=True)
    if config.usual_score is None:
        del values["usual_score"]  # unknown to version 1
    return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()


def _read_json(path: Path) -> object:
    if not path.is_file():
        raise ModelError(f"{path}: no such file, so {path.parent} is not a complete model folder")
    try:
        content = read_regular(path, MAX_CONFIG_BYTES).decode("utf-8")
        values: object = json.loads(content, parse_constant=_refuse_constant)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not valid JSON: {error}; fetch or save the model again") from None
    return values


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _describe_other_format(values: object) -> str:
    """Return a description, for messages, of a configuration that is not uwaga's."""
    if isinstance(values, dict) and isinstance(values.get("model_type"), str):
        return (
            f"a Hugging Face configuration of the family {quoted(values['model_type'])}, not of a uwaga "
            "model; give a folder written by `uwaga train`"
        )
    return (
        f'not the configuration of a uwaga model (no "format": "{FORMAT}"); give a folder written by '
        "`uwaga train`"
    )


def read_tokeniser(path: Path) -> Tokeniser:
    """Return the tokeniser stored in a file of a model folder."""
    if not path.is_file():
        raise ModelError(f"{path}: no such file, so {path.parent} is not a complete model folder")
    return Tokeniser.load(path)


def check_tokenisers(folder: Path, config: FolderConfig, source: Tokeniser, target: Tokeniser) -> None:
    """Raise ModelError if the tokenisers do not match ``config.json``."""
    expected_symbols = config.symbols.symbols()
    sides = ((SOURCE, source, config.vocabulary.source), (TARGET, target, config.vocabulary.target))
    for name, tokeniser, size in sides:
        path = folder / (SOURCE if config.vocabulary.joint else name)
        if tokeniser.size != size:
            raise ModelError(
                f"{path}: has {tokeniser.size} pieces, but config.json states {size}; "
                "the tokeniser belongs to another model"
            )
        if tokeniser.symbols != expected_symbols:
            raise ModelError(
                f"{path}: declares {tokeniser.symbols}, but config.json states {expected_symbols}; "
                "the tokeniser belongs to another model"
            )
        if tokeniser.normalisation != config.normalisation:
            raise ModelError(
                f"{path}: has the text normalisation {tokeniser.normalisation}, but config.json states "
                f"{config.normalisation}; the tokeniser belongs to another model"
            )


def check_plausible(folder: Path, config: FolderConfig) -> None:
    """Raise ModelError if the weight file is too small for the settings.

    This is checked before memory for the model is allocated.
    """
    tensors, size = count_tensors(folder / WEIGHTS)
    settings, vocabulary = config.model, config.vocabulary
    if isinstance(settings, RecurrentSettings):
        _check_plausible_recurrent(folder, settings, max(vocabulary.source, vocabulary.target), tensors, size)
        return
    positions = getattr(settings, "positions", "learned")
    learned = settings.max_length if positions == "learned" else 0
    rows = max(vocabulary.source, vocabulary.target, settings.feed_forward, settings.width, learned)
    layers = layer_count(settings)
    if layers > tensors:
        raise ModelError(
            f"{folder / CONFIG}: the model has {layers} layers, but {WEIGHTS} contains only {tensors} "
            "weights; the two files belong to different models"
        )
    if rows * settings.width > size:
        raise ModelError(
            f"{folder / CONFIG}: requires a weight of {rows} x {settings.width} numbers, but {WEIGHTS} has "
            f"only {size} bytes; the two files belong to different models, or {WEIGHTS} is truncated"
        )
    if positions != "rotary" and settings.max_length * settings.width > MAX_BUFFER_NUMBERS:
        raise ModelError(
            f"{folder / CONFIG}: model.max_length {settings.max_length} at width {settings.width} needs a "
            f"position table of more than {MAX_BUFFER_NUMBERS} numbers"
        )


def _check_plausible_recurrent(
    folder: Path, settings: RecurrentSettings, pieces: int, tensors: int, size: int
) -> None:
    if settings.total_layers > tensors:
        raise ModelError(
            f"{folder / CONFIG}: the model has {settings.total_layers} layers, but {WEIGHTS} contains only "
            f"{tensors} weights; the two files belong to different models"
        )
    rows, columns = max(
        (pieces, settings.embedding),
        (settings.hidden, settings.hidden),
        key=lambda shape: shape[0] * shape[1],
    )
    if max(rows * columns, settings.features) > size:
        raise ModelError(
            f"{folder / CONFIG}: requires a weight of {rows} x {columns} numbers, but {WEIGHTS} has "
            f"only {size} bytes; the two files belong to different models, or {WEIGHTS} is truncated"
        )


NAME = "uwaga"


def read_folder(folder: Path, memory: Memory = "fast") -> Checkpoint:
    """Read a model folder.

    Args:
        folder: path of the folder.
        memory: ``none`` to read no weights; see :class:`uwaga.checkpoints.registry.Format`.
    """
    folder = Path(folder)
    config = read_config(folder)
    source = read_tokeniser(folder / SOURCE)
    target = source if config.vocabulary.joint else read_tokeniser(folder / TARGET)
    check_tokenisers(folder, config, source, target)
    weights, summary = None, None
    problems: tuple[str, ...] = ()
    if memory == "none":
        summary, problems = _summary(folder, config)
    else:
        check_plausible(folder, config)
        weights = _weights(folder / WEIGHTS, config)
    sizes, card = config.vocabulary, read_card(folder)
    decoding, text = options_from_settings(config.decoding)
    return Checkpoint(
        path=folder,
        format=NAME,
        family=config.model.family,
        settings=config.model,
        symbols=config.symbols.symbols(),
        source_vocabulary=sizes.source,
        target_vocabulary=sizes.target,
        vocabulary=(sizes.source, sizes.target),
        source=source,
        target=target,
        languages=Languages(source, target, config.languages, card=card, location=str(folder)),
        decoding=decoding,
        text=text,
        card=card,
        weights=weights,
        score_stats=config.usual_score,
        summary=summary,
        problems=problems,
        trained_to_translate=isinstance(config.model, DecoderOnlySettings),
    )


def _summary(folder: Path, config: FolderConfig) -> tuple[WeightSummary, tuple[str, ...]]:
    """Return the size of the weights according to the file's header, and the file's problems."""
    path = folder / WEIGHTS
    try:
        check_plausible(folder, config)
        return WeightSummary.from_tensors(_open(path, config, check=False).values()), ()
    except ModelError as error:
        return WeightSummary(None, 0, ()), (str(error),)


def _weights(path: Path, config: FolderConfig) -> Weights:
    """Return the weights after checking their shapes and formats.

    The shapes of a model with a custom attention score are checked later, by PyTorch.
    """
    if not isinstance(config.model, RecurrentSettings) or unsupported_reason(config.model) is None:
        sizes = config.vocabulary.source, config.vocabulary.target
        shapes = weight_shapes(config.model, *sizes, printable(path.parent / CONFIG))
        formats = {name: _stored_format(config, shape) for name, shape in shapes.items()}
        scales = {name + SCALES: shapes[name][:1] for name, form in formats.items() if form == "I8"}
        check_header(path, shapes | scales, formats | dict.fromkeys(scales, "F32"))
    stored_tensors = _open(path, config)
    for name, tensor in stored_tensors.items():
        expected_format = _stored_format(config, tensor.shape)
        if tensor.format != expected_format:
            raise ModelError(
                f"{path}: {name!r} is stored as {tensor.format}, but config.json requires {expected_format}; "
                "the two files belong to different models"
            )
    shapes = {name: tensor.shape for name, tensor in stored_tensors.items()}
    return Weights(shapes, Table(identity_table({name: name for name in stored_tensors})), stored_tensors)


def _open(path: Path, config: FolderConfig, check: bool = True) -> dict[str, StoredTensor]:
    """Return the tensors of the weight file; if ``check`` is True, verify the checksum of the full file."""
    stored_tensors = open_tensors(path, config.sha256 if check else None)
    return join_scales(stored_tensors) if config.weights == "int8" else stored_tensors


def _stored_format(config: FolderConfig, shape: tuple[int, ...]) -> str:
    """Return the number format in which a weight is stored, by its safetensors name."""
    if config.weights == "int8":
        return "I8" if len(shape) == 2 else "F32"
    return WEIGHT_FORMATS[config.weights]

"""``config.json`` of a model folder: a closed schema with a format version. Nothing here needs torch."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from uwaga.checkpoints.checkpoint import Dtype
from uwaga.checkpoints.formats.uwaga.names import CONFIG, FORMAT
from uwaga.checkpoints.score_stats import ScoreStats
from uwaga.checkpoints.storage.json_file import parse_stored
from uwaga.decoder import Symbols
from uwaga.errors import ModelError, SettingsError, shown
from uwaga.files.regular import read_regular
from uwaga.search import SearchOptions
from uwaga.search.options import from_settings
from uwaga.settings import FAMILIES, DecodingSettings, ModelSettings, StrictModel, TransformerSettings, parse
from uwaga.tokenizers.text import TextOptions

VERSION, USUAL_VERSION, FIRST_VERSION = 3, 2, 1
"""Version 2 knows a model's usual score, version 3 decoders without self-attention; whatever an older version
can say is written as that."""
AVERAGE = ("aan_layers", "aan_feed_forward", "aan_activation", "aan_gate")
"""Settings of a Transformer that mean nothing without an average attention network."""

LARGEST_CONFIG = 1 << 20
"""Bytes. A real one has about two thousand."""

Language = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_\-]+$")]
TokenId = Annotated[int, Field(ge=0, lt=1 << 24)]


class SymbolIds(StrictModel):
    """The special token ids of one side, as :class:`uwaga.decoder.Symbols`."""

    start: TokenId
    end: TokenId
    pad: TokenId
    unknown: TokenId

    def symbols(self) -> Symbols:
        """The same ids as search wants them."""
        return Symbols(start=self.start, end=self.end, pad=self.pad, unknown=self.unknown)


class Vocabulary(StrictModel):
    """The pieces of both sides; ``joint``: ``source.spm`` serves the target too and is stored once."""

    source: int = Field(ge=4, lt=1 << 24)
    target: int = Field(ge=4, lt=1 << 24)
    joint: bool

    @model_validator(mode="after")
    def _joint_means_equal(self) -> Vocabulary:
        if self.joint and self.source != self.target:
            raise ValueError(f"a joint vocabulary has one size, not {self.source} and {self.target}")
        return self


class FolderConfig(StrictModel):
    """All of ``config.json``."""

    format: Literal["uwaga model"]
    version: int = Field(ge=1)
    languages: tuple[Language, Language]
    normalisation: Literal["nfkc", "identity"] = Field(
        description="what the tokenisers do to text; checked against them"
    )
    weights: Dtype = Field(description="number format of the stored floating-point weights")
    sha256: str | None = Field(
        None,
        pattern=r"^[0-9a-f]{64}$",
        description="checksum of model.safetensors; None in folders that were written before there was one",
    )
    vocabulary: Vocabulary
    symbols: SymbolIds
    model: ModelSettings
    decoding: DecodingSettings
    usual_score: ScoreStats | None = None

    @model_validator(mode="after")
    def _symbols_fit(self) -> FolderConfig:
        for name, value in self.symbols.model_dump().items():
            if value >= self.vocabulary.target:
                raise ValueError(
                    f"symbols.{name} is {value}, the vocabulary has {self.vocabulary.target} pieces"
                )
        return self


def read_config(folder: Path) -> FolderConfig:
    """Read and check ``folder/config.json``.

    Raises:
        ModelError: missing, unreadable, not this format, a newer version, an unknown family or setting,
            an impossible value. The message names the file, the key and the way out.
    """
    path = folder / CONFIG
    values = _read_json(path)
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ModelError(f"{path}: {_foreign(values)}")
    version = values.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ModelError(
            f"{path}: written in model format {version}, this uwaga reads up to {VERSION}; "
            "install a newer uwaga"
        )
    model = values.get("model")
    family = model.get("family") if isinstance(model, dict) else None
    if family is not None and not (isinstance(family, str) and family in FAMILIES):
        raise ModelError(
            f"{path}: model.family {shown(family)} is unknown; this uwaga knows {', '.join(FAMILIES)}"
        )
    return check_config(values, str(path))


def check_config(values: object, where: str) -> FolderConfig:
    """Check raw values against the schema.

    Raises:
        ModelError: names ``where``, the key and what is wrong.
    """
    return parse_stored(FolderConfig, values, where)


def decoding_settings(search: SearchOptions, text: TextOptions) -> DecodingSettings | None:
    """The group ``decoding`` of a ``config.json`` that says these options, None where it cannot say them."""
    values = {**vars(search), **vars(text)}
    try:
        made = parse(
            DecodingSettings, {name: values[name] for name in DecodingSettings.model_fields}, "decoding"
        )
    except SettingsError:
        return None
    return made if math.isfinite(made.max_ratio) and from_settings(made) == (search, text) else None


def has_self_attention(settings: StrictModel) -> bool:
    """Whether versions that know of no other decoder can say these settings of a model."""
    return not isinstance(settings, TransformerSettings) or settings.self_attention == "attention"


def model_values(settings: StrictModel) -> dict[str, Any]:
    """Settings of a model for JSON, without those that older versions do not know and that say nothing."""
    values = settings.model_dump(mode="json")
    left_out: tuple[str, ...] = AVERAGE if values.get("self_attention") != "aan" else ()
    left_out += ("self_attention",) if has_self_attention(settings) else ()
    return {name: value for name, value in values.items() if name not in left_out}


def config_bytes(config: FolderConfig) -> bytes:
    """``config`` as the bytes of ``config.json``."""
    values = config.model_dump(mode="json") | {"model": model_values(config.model)}
    if config.usual_score is None:
        del values["usual_score"]  # which version 1 does not know
    return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()


def _read_json(path: Path) -> object:
    if not path.is_file():
        raise ModelError(f"{path}: no such file, so {path.parent} is not a complete model folder")
    try:
        content = read_regular(path, LARGEST_CONFIG).decode("utf-8")
        values: object = json.loads(content, parse_constant=_refuse_constant)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not valid JSON: {error}; fetch or save the model again") from None
    return values


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _foreign(values: object) -> str:
    """What a configuration that is not ours seems to be."""
    if isinstance(values, dict) and isinstance(values.get("model_type"), str):
        return (
            f"a Hugging Face configuration of the family {shown(values['model_type'])}, which this uwaga "
            "cannot read; it reads folders that `uwaga train` has written"
        )
    return (
        f'not the configuration of a uwaga model (no "format": "{FORMAT}"); give a folder `uwaga train` wrote'
    )

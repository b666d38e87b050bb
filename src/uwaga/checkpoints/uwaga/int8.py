"""The int8 model folder: weights packed for the native engine, memory-mapped, checked before they are used.

``config.json`` (closed, with a format version of its own), ``engine.safetensors``, the tokenisers' files and
``card.md``. It is made from another folder by ``uwaga convert --int8`` and runs without torch.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.checkpoints.files.atomic import write_folder
from uwaga.checkpoints.files.json_file import read_mapping
from uwaga.checkpoints.files.safetensors_read import check_header, open_tensors
from uwaga.checkpoints.files.safetensors_write import NAMES, aligned_bytes
from uwaga.checkpoints.files.stored_tensor import StoredTensor
from uwaga.checkpoints.languages import Languages
from uwaga.checkpoints.uwaga import int8_tokenisers
from uwaga.checkpoints.uwaga.card import read_card
from uwaga.checkpoints.uwaga.checks import LARGEST_BUFFERS
from uwaga.checkpoints.uwaga.int8_tokenisers import (
    Frame,
    frame_of,
    library_of,
    read_tokenisers,
    tokeniser_files,
)
from uwaga.checkpoints.uwaga.schema import (
    CARD,
    CONFIG,
    TARGET,
    Language,
    SymbolIds,
    Vocabulary,
    decoding_settings,
)
from uwaga.checkpoints.uwaga.schema import INT8_FORMAT as FORMAT
from uwaga.checkpoints.uwaga.schema import INT8_WEIGHTS as WEIGHTS
from uwaga.decoding import SearchOptions
from uwaga.decoding.from_settings import from_settings
from uwaga.engine.layout import Sizes, products, vectors
from uwaga.engine.packing import PARTS, Matrix, Packed, Precision
from uwaga.errors import ModelError, SettingsError
from uwaga.settings import DecoderOnlySettings, DecodingSettings, StrictModel, TransformerSettings, parse
from uwaga.text.options import TextOptions

VERSION, FIRST_VERSION = 2, 1
"""Version 2 knows decoder-only models by their settings; whatever version 1 can say is written as that."""
FILES = frozenset({CONFIG, WEIGHTS, CARD, *int8_tokenisers.FILES})
NAME = "uwaga int8"
PANEL, DEPTH = 32, 64
"""Outputs of a panel, and what int8 inputs are padded to."""


class Weights(StrictModel):
    """The weight file: ``levels`` is the largest quantised number, ``kept`` the matrices in bfloat16."""

    levels: int = Field(ge=1, le=127)
    kept: list[str] = Field(max_length=4096)
    bytes: int = Field(ge=1)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class QuantisedConfig(StrictModel):
    """All of ``config.json``; ``decoding`` is of a model of ours, ``search`` of another library's.

    ``frame`` is of the tokenisers of the ``tokenizers`` library. Version 1 wrote a decoder-only model as a
    Transformer's settings and ``"kind": "decoder"``; it is read as what it means.
    """

    format: Literal["uwaga int8 model"]
    version: int = Field(ge=1)
    languages: tuple[Language, Language]
    tokenisers: Literal["uwaga", "marian", "tokenizers"]
    frame: Frame | None = None
    vocabulary: Vocabulary
    symbols: SymbolIds
    model: Annotated[TransformerSettings | DecoderOnlySettings, Field(discriminator="family")]
    decoding: DecodingSettings | None = None
    search: dict[str, Any] | None = None
    weights: Weights

    @model_validator(mode="after")
    def _one_way_to_decode(self) -> QuantisedConfig:
        if (self.decoding is None) == (self.search is None):
            raise ValueError("exactly one of decoding and search is wanted")
        if (self.tokenisers == "tokenizers") != (self.frame is not None):
            raise ValueError("a frame goes with the tokenisers of tokenizers, and with no others")
        if isinstance(self.model, DecoderOnlySettings) and (self.search is None or not self.vocabulary.joint):
            raise ValueError("a decoder-only model has search settings and one vocabulary")
        for name, value in self.symbols.model_dump().items():
            if value >= self.vocabulary.target:
                raise ValueError(f"symbols.{name} is {value}, beyond the vocabulary")
        relative = isinstance(self.model, TransformerSettings) and self.model.positions == "relative"
        if self.model.max_length * self.model.width > LARGEST_BUFFERS and not relative:
            raise ValueError(f"model.max_length {self.model.max_length} is too much")
        return self

    @property
    def sizes(self) -> tuple[int, int]:
        """The vocabularies of source and target."""
        return self.vocabulary.source, self.vocabulary.target


NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "positions": ("learned",),
    "decoder_heads": (None,),
    "decoder_feed_forward": (None,),
    "output_scale": (False,),
}
"""Of a decoder-only model in version 1: settings that only a translator has, with what they must be."""
WITHOUT_MEANING = ("encoder_layers", "sinusoids", "relative_buckets", "relative_distance")


def write_quantised(folder: Path, checkpoint: Checkpoint, packed: Packed, card: str) -> None:
    """Write an int8 folder in one step, replacing an older one of the same name.

    Args:
        folder: the folder to make.
        checkpoint: the model.
        packed: its weights in int8.
        card: Markdown, for people.

    Raises:
        ModelError: the tokenisers are of a kind that such a folder cannot hold, ``folder`` holds something
            else, or it cannot be written. Nothing has changed then.
    """
    _check_replaceable(folder)
    settings, source, target = checkpoint.settings, checkpoint.source, checkpoint.target
    files = tokeniser_files(source, target)
    content = aligned_bytes(_tensors(packed))
    matrices = packed.matrices
    values: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION if isinstance(settings, DecoderOnlySettings) else FIRST_VERSION,
        "languages": checkpoint.languages.stated,
        "tokenisers": library_of(source),
        "frame": frame_of(source),
        "vocabulary": {
            "source": checkpoint.source_vocabulary,
            "target": checkpoint.target_vocabulary,
            "joint": TARGET not in files,
        },
        "symbols": vars(checkpoint.symbols),
        "model": settings.model_dump(),
        "weights": {
            "levels": max((m.levels for m in matrices.values() if m.format == "int8"), default=127),
            "kept": [name for name, matrix in matrices.items() if matrix.format == "bfloat16"],
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        },
    } | _decoding_values(checkpoint)
    config = _checked(values, str(folder / CONFIG))
    text = json.dumps(config.model_dump(mode="json", exclude_none=True), indent=2, ensure_ascii=False)
    write_folder(folder, files | {CONFIG: text.encode() + b"\n", CARD: card.encode(), WEIGHTS: content})


def read_quantised(folder: Path) -> Checkpoint:
    """Map an int8 folder, checking everything that is in it.

    Raises:
        ModelError: a file is missing, cut short, damaged or of another model, or the format is newer. The
            message names the file.
    """
    config = read_quantised_config(folder)
    source, target = read_tokenisers(folder, config)
    path = folder / WEIGHTS
    # Layers are held against the file before they are listed: each has a vector of this width.
    layers = Sizes.of(config.model)
    _check_size(path, config, (layers.encoder_layers + layers.decoder_layers) * config.model.width)
    wanted = _wanted(config)
    _check_size(path, config, sum(_bytes(shape, kind) for shape, kind in wanted.values()))
    check_header(
        path,
        {name: shape for name, (shape, _) in wanted.items()},
        {name: kind for name, (_, kind) in wanted.items()},
    )
    _check_sum(path, config.weights.sha256)
    packed = _packed(path, config, open_tensors(path))
    decoding, text = read_decoding(config, folder / CONFIG)
    return Checkpoint(
        place=folder,
        format=NAME,
        family=config.model.family,
        settings=config.model,
        symbols=config.symbols.symbols(),
        source_vocabulary=config.vocabulary.source,
        target_vocabulary=config.vocabulary.target,
        vocabulary=config.sizes,
        source=source,
        target=target,
        languages=Languages(source, target, config.languages, decoding.first, where=str(folder)),
        decoding=decoding,
        text=text,
        card=read_card(folder),
        packed=packed,
    )


def read_quantised_config(folder: Path) -> QuantisedConfig:
    """``config.json`` of an int8 folder.

    Raises:
        ModelError: it is not of one, of a newer version, or damaged.
    """
    path = folder / CONFIG
    values = read_mapping(path)
    if values.get("format") != FORMAT:
        raise ModelError(f'{path}: not the configuration of an int8 model ("format": "{FORMAT}")')
    version = values.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ModelError(
            f"{path}: written in int8 format {version}, this uwaga reads up to {VERSION}; "
            "install a newer uwaga"
        )
    return _checked(_as_meant(values, path), str(path))


def _as_meant(values: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """Version 1 with its decoder-only model under today's names."""
    model = values.get("model")
    if values.get("kind") != "decoder" or not isinstance(model, dict):
        return values
    old = dict(model)
    try:
        parse(TransformerSettings, old, f"{path}: model")
    except SettingsError as error:
        raise ModelError(str(error)) from None
    for name, neutral in NEUTRAL.items():
        value = old.pop(name, neutral[0] if name != "positions" else "sinusoidal")
        if value not in neutral:
            raise ModelError(f"{path}: model.{name} is {value!r}, which a decoder-only model does not have")
    for name in WITHOUT_MEANING:
        old.pop(name, None)
    old |= {"family": "decoder-only", "layers": old.pop("decoder_layers", 6)}
    old["tie_output"] = old.pop("tie", "all") in ("all", "decoder")
    return {name: value for name, value in values.items() if name != "kind"} | {"model": old}


def _checked(values: object, where: str) -> QuantisedConfig:
    try:
        return parse(QuantisedConfig, values, where)
    except SettingsError as error:
        raise ModelError(str(error)) from None


def _tensors(packed: Packed) -> dict[str, NDArray[Any]]:
    """The tensors of the file, panels first: they must lie on multiples of 64 bytes."""
    panels: dict[str, NDArray[Any]] = {}
    others: dict[str, NDArray[Any]] = {}
    for name, matrix in packed.matrices.items():
        for part, array in zip(PARTS[matrix.format], matrix.arrays, strict=True):
            (panels if part == "panels" else others)[f"{name}:{part}"] = array
    return panels | others | packed.vectors


def _wanted(config: QuantisedConfig) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape and number format of every tensor of the file."""
    kept = set(config.weights.kept)
    found: dict[str, tuple[tuple[int, ...], str]] = {}
    for product in products(config.model, *config.sizes):
        rows = _rounded(sum(product.outputs), PANEL)
        if product.name in kept:
            found[f"{product.name}:panels"] = ((rows * _rounded(product.inputs, 2),), "U16")
        else:
            found[f"{product.name}:panels"] = ((rows * _rounded(product.inputs, DEPTH),), "I8")
            found[f"{product.name}:scales"] = ((rows,), "F32")
            found[f"{product.name}:sums"] = ((rows,), "I32")
        if product.bias:
            found[f"{product.name}.bias"] = ((sum(product.outputs),), "F32")
    for name, shape in vectors(config.model, config.vocabulary.target).items():
        found["output.bias" if name == "output_bias" else name] = (shape, "F32")
    return found


def _packed(path: Path, config: QuantisedConfig, tensors: Mapping[str, StoredTensor]) -> Packed:
    matrices: dict[str, Matrix] = {}
    for product in products(config.model, *config.sizes):
        form: Precision = "bfloat16" if product.name in config.weights.kept else "int8"
        arrays = tuple(tensors[f"{product.name}:{part}"].values for part in PARTS[form])
        if form == "int8" and not np.isfinite(arrays[1]).all():
            raise ModelError(f"{path}: scales of {product.name!r} are not finite; convert the model again")
        matrices[product.name] = Matrix(
            sum(product.outputs), product.inputs, form, config.weights.levels, arrays
        )
    others = {name: tensor.floats() for name, tensor in tensors.items() if ":" not in name}
    for name, values in others.items():
        if not np.isfinite(values).all():
            raise ModelError(f"{path}: {name!r} holds numbers that are not finite; convert the model again")
    return Packed(matrices, others, "int8")


def _check_size(path: Path, config: QuantisedConfig, least: int) -> None:
    if not path.is_file():
        raise ModelError(f"{path}: no such file, so {path.parent} is not a complete model folder")
    size = path.stat().st_size
    if size != config.weights.bytes or least > size:
        raise ModelError(
            f"{path}: has {size} bytes, {CONFIG} asks for {max(config.weights.bytes, least)}; it is "
            "cut short or of another model: convert the model again"
        )


def _check_sum(path: Path, wanted: str) -> None:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        found = hashlib.sha256(content).hexdigest()
    if found != wanted:
        raise ModelError(f"{path}: damaged, its checksum is not what {CONFIG} says; convert the model again")


def _check_replaceable(folder: Path) -> None:
    """Refuse to replace anything but an older int8 folder."""
    if not folder.exists():
        return
    present = [path.name for path in folder.iterdir()] if folder.is_dir() else [folder.name]
    if not present:
        return
    foreign = sorted(set(present) - FILES)
    if foreign or WEIGHTS not in present:
        raise ModelError(
            f"{folder}: holds {(foreign or present)[0]!r}, which is not of an int8 model, so it is not "
            "overwritten; give another folder"
        )


def read_decoding(config: QuantisedConfig, path: Path) -> tuple[SearchOptions, TextOptions]:
    """How a model of this configuration translates unless told otherwise.

    Raises:
        ModelError: a value is unknown or impossible; the message names ``path``.
    """
    try:
        if config.decoding is not None:
            return from_settings(config.decoding)
        return _search_options(config.search or {}, path), TextOptions()
    except SettingsError as error:
        raise ModelError(f"{path}: {error}") from None


def _decoding_values(checkpoint: Checkpoint) -> dict[str, Any]:
    """The group ``decoding`` where it can say the checkpoint's defaults, and ``search`` for all others."""
    stated = decoding_settings(checkpoint.decoding, checkpoint.text)
    if stated is not None and not isinstance(checkpoint.settings, DecoderOnlySettings):
        return {"decoding": stated.model_dump()}
    if checkpoint.text != TextOptions():
        raise ModelError(
            f"{checkpoint.place}: an int8 folder cannot say split_above and lower_capitals beside these "
            "decoding defaults"
        )
    return {"search": _search_values(checkpoint.decoding)}


def _search_values(options: SearchOptions) -> dict[str, Any]:
    """Options as JSON, which knows no infinity: null stands for it."""
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    return {
        name: None if isinstance(value, float) and math.isinf(value) else value
        for name, value in values.items()
        if name not in ("seed", "attention", "batch_tokens") and (name, value) != ("start", None)
    }


def _search_options(values: Mapping[str, Any], path: Path) -> SearchOptions:
    known = {field.name for field in fields(SearchOptions)}
    unknown = sorted(set(values) - known)
    if unknown:
        raise ModelError(f"{path}: search.{unknown[0]} is unknown")
    given = dict(values)
    if given.get("max_ratio", 0) is None:
        given["max_ratio"] = math.inf
    if isinstance(given.get("banned"), list):
        given["banned"] = tuple(given["banned"])
    try:
        return SearchOptions(**given)
    except (SettingsError, TypeError) as error:
        raise ModelError(f"{path}: search: {error}") from None


def _rounded(count: int, unit: int) -> int:
    return -(-count // unit) * unit


def _bytes(shape: tuple[int, ...], kind: str) -> int:
    widths = {name: np.dtype(numpy_name).itemsize for numpy_name, name in NAMES.items()}
    return math.prod(shape) * widths[kind]

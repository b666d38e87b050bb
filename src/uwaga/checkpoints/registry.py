"""The registry of formats: how a format is recognized, who reads it, and which files the hub fetches.

A new format is one file that ends in ``register(Format(...))``. Readers are imported at first use.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.checkpoints.alignment_head import HEAD_FILE, read_head
from uwaga.checkpoints.card import CARD, README
from uwaga.checkpoints.formats.uwaga.names import (
    CONFIG,
    FORMAT,
    INT4_FORMAT,
    INT8_FORMAT,
    INT8_WEIGHTS,
    SOURCE,
    TARGET,
    WEIGHTS,
)
from uwaga.checkpoints.storage.json_file import peek
from uwaga.errors import ModelError, SettingsError
from uwaga.settings import TransformerSettings

if TYPE_CHECKING:
    from uwaga.checkpoints.checkpoint import Checkpoint, Memory
    from uwaga.checkpoints.description import Description


@dataclass(frozen=True)
class Files:
    """The files of a format, as patterns of their names; none of them can hold code.

    Attributes:
        beside: settings, vocabularies and cards, which are fetched from the hub in any case.
        weights: the weights.
        rather_not: weights that are fetched only if a repository has no others.
        suffixes: suffixes of a model that is a single file.
    """

    beside: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    rather_not: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Format:
    """A way to store models.

    Attributes:
        name: shown by ``uwaga info``.
        detect: returns True if a folder or file is of this format, sound or not. It must be fast.
        read: returns the model of a folder or file, or the dotted name of a function that does. It checks
            everything before it takes memory and raises ModelError. With the memory ``none`` it should read
            no weights, give :attr:`~uwaga.checkpoints.checkpoint.Checkpoint.summary` instead, and put faults
            of the weight files alone into ``problems``.
        files: what the hub fetches.
        shares: True if the weights can be memory-mapped.
    """

    name: str
    detect: Callable[[Path], bool]
    read: Callable[[Path, Memory], Checkpoint] | str
    files: Files
    shares: bool = False

    def load(self, place: Path, memory: Memory) -> Checkpoint:
        """Call :attr:`read`, imported if it is a name."""
        if not isinstance(self.read, str):
            return self.read(place, memory)
        module, _, function = self.read.rpartition(".")
        checkpoint: Checkpoint = getattr(importlib.import_module(module), function)(place, memory)
        return checkpoint


FORMATS: list[Format] = []
"""In the order in which they are tried."""


def register(added: Format) -> Format:
    """Add a format, which is tried before those registered; one of the same name is replaced."""
    FORMATS[:] = [added, *(other for other in FORMATS if other.name != added.name)]
    return added


def detect(place: Path) -> Format | None:
    """Return the format of a folder or file, None if it is in no known format."""
    return next((candidate for candidate in FORMATS if candidate.detect(place)), None)


def read(place: Path, shared: bool = False) -> Checkpoint:
    """Read a model of any format, checking everything before memory is taken.

    Args:
        place: a folder or file.
        shared: memory-map the weights, so that processes share them.

    Raises:
        SettingsError: ``shared`` with a format whose weights cannot be memory-mapped.
        ModelError: it is in no known format, incomplete, damaged, of an unknown family or with a feature that
            uwaga lacks. The message names the file.
        MissingExtraError: its files need a library that is not installed.
    """
    model_format = _format(place)
    if shared and not model_format.shares:
        raise SettingsError(
            f"{place}: memory 'shared' works only with int8 and int4 folders, whose weights can be "
            "memory-mapped: create one with `uwaga convert --int8`, or omit the option"
        )
    checkpoint = model_format.load(place, "shared" if shared else "fast")
    return _with_head(place, checkpoint)


def _with_head(place: Path, checkpoint: Checkpoint) -> Checkpoint:
    head, settings = read_head(place), checkpoint.settings
    if head is None:
        return checkpoint
    if isinstance(settings, TransformerSettings):
        layers, heads = settings.decoder_layers, settings.decoder_heads or settings.heads
        if head.layer > layers or (head.head or 1) > heads:
            raise ModelError(
                f"{place}: the stored alignment head is {head}, but the decoder has {layers} layers of "
                f"{heads} heads; choose one with `uwaga align --choose`"
            )
    return replace(checkpoint, alignment_head=head)


def describe(place: Path) -> Description:
    """Describe a model of any format without reading its weights.

    Faults of the weight files, and a damaged alignment head, are among the description's problems.

    Raises:
        ModelError: it is in no known format, or cannot be loaded for another reason.
        MissingExtraError: its files need a library that is not installed.
    """
    from uwaga.checkpoints.description import describe_checkpoint

    checkpoint = _format(place).load(place, "none")
    try:
        checkpoint = _with_head(place, checkpoint)
    except ModelError as error:
        checkpoint = replace(checkpoint, problems=(*checkpoint.problems, str(error)))
    return describe_checkpoint(checkpoint)


def files() -> Files:
    """Return the files of all formats together."""
    every = [candidate.files for candidate in FORMATS]
    return Files(
        tuple(dict.fromkeys(name for each in every for name in each.beside)),
        tuple(dict.fromkeys(name for each in every for name in each.weights)),
        tuple(dict.fromkeys(name for each in every for name in each.rather_not)),
        tuple(dict.fromkeys(name for each in every for name in each.suffixes)),
    )


def _format(place: Path) -> Format:
    model_format = detect(place)
    if model_format is not None:
        return model_format
    if (place / CONFIG).is_file():
        UWAGA.load(place, "none")  # raises an error that says what is wrong with it
    raise ModelError(
        f"{place}: not a recognised model: found no uwaga or Hugging Face {CONFIG}, CTranslate2 model, Argos "
        "package, Marian model or GGUF file"
    )


# The formats


def _states_format(name: str) -> Callable[[Path], bool]:
    return lambda place: peek(place / CONFIG).get("format") == name


UWAGA = Format(
    "uwaga",
    _states_format(FORMAT),
    "uwaga.checkpoints.formats.uwaga.read.read_folder",
    Files((CONFIG, SOURCE, TARGET, CARD, HEAD_FILE), (WEIGHTS,)),
)
UWAGA_INT8, UWAGA_INT4 = (
    Format(
        name,
        _states_format(stated),
        "uwaga.checkpoints.formats.uwaga.int8.read_quantised",
        Files(
            (CONFIG, SOURCE, TARGET, CARD, "source.vocab.json", "target.vocab.json", HEAD_FILE),
            (INT8_WEIGHTS,),
        ),
        shares=True,
    )
    for name, stated in (("uwaga int8", INT8_FORMAT), ("uwaga int4", INT4_FORMAT))
)


def _is_hugging_face(place: Path) -> bool:
    return isinstance(peek(place / CONFIG).get("model_type"), str)


HUGGING_FACE = Format(
    "Hugging Face",
    _is_hugging_face,
    "uwaga.checkpoints.formats.huggingface.registry.read_folder",
    Files(
        beside=(
            *(CONFIG, "generation_config.json", "tokenizer_config.json", "tokenizer.json", "vocab.json"),
            *("target_vocab.json", "source.spm", "target.spm", "merges.txt", "vocab.txt", "spiece.model"),
            *("sentencepiece.bpe.model", "sentencepiece.model", "tokenizer.model"),
            *("special_tokens_map.json", "added_tokens.json", "prophetnet.tokenizer", README, HEAD_FILE),
        ),
        weights=("model.safetensors", "model.safetensors.index.json", "model-*.safetensors"),
        rather_not=("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*.bin"),
    ),
)


def _is_ctranslate2(place: Path) -> bool:
    return (place / "model.bin").is_file()


CTRANSLATE2 = Format(
    "CTranslate2",
    _is_ctranslate2,
    "uwaga.checkpoints.formats.ctranslate2.folder.read_folder",
    Files(
        (
            CONFIG,
            *(
                f"{side}_vocabulary.{kind}"
                for side in ("shared", "source", "target")
                for kind in ("json", "txt")
            ),
            *("vocabulary.json", "vocabulary.txt"),
            *(SOURCE, TARGET, "sentencepiece.model", README),
        ),
        rather_not=("model.bin",),
    ),
)


def _is_argos(place: Path) -> bool:
    if place.is_dir():  # an unpacked package
        return (place / "metadata.json").is_file() and (place / "model" / "model.bin").is_file()
    return place.suffix == ".argosmodel"


ARGOS = Format(
    "Argos Translate",
    _is_argos,
    "uwaga.checkpoints.formats.argos.package.read_package",
    Files(suffixes=(".argosmodel",)),
)

NPZ, BINARY = ".npz", ".bin"
BINARY_MAGIC = struct.pack("<Q", 1)
"""The first bytes of Marian's binary models: their version."""


def _is_marian(place: Path) -> bool:
    if place.is_dir():
        if (place / CONFIG).exists():
            return False
        return any(place.glob(f"*{NPZ}")) or any(map(_is_marian_binary, place.glob(f"model*{BINARY}")))
    return place.suffix == NPZ or _is_marian_binary(place)


def _is_marian_binary(path: Path) -> bool:
    return path.suffix == BINARY and _begins_with(path, BINARY_MAGIC)


def _begins_with(path: Path, magic: bytes) -> bool:
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except OSError:
        return False


MARIAN = Format(
    "Marian",
    _is_marian,
    "uwaga.checkpoints.formats.marian.read.read_marian",
    Files(
        (
            *("decoder.yml", "config*.yml", "*vocab*.yml", "*vocab*.spm", "lex*.bin"),
            *(SOURCE, TARGET, README),
        ),
        weights=(f"model.*{BINARY}",),
        rather_not=(f"*{NPZ}",),
        suffixes=(NPZ, BINARY),
    ),
)

GGUF_MAGIC = b"GGUF"


def _is_gguf(place: Path) -> bool:
    return place.suffix == ".gguf" or _begins_with(place, GGUF_MAGIC)


GGUF = Format(
    "GGUF",
    _is_gguf,
    "uwaga.checkpoints.formats.gguf.read.read_gguf",
    Files(suffixes=(".gguf",)),
)

FORMATS += [UWAGA, UWAGA_INT8, UWAGA_INT4, HUGGING_FACE, ARGOS, CTRANSLATE2, MARIAN, GGUF]

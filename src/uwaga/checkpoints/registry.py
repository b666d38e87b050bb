"""The registry of model formats: their detection, their readers, and their files on the Hugging Face Hub.

A plugin adds a format with ``FORMATS.register(name)(Format(...))``. Readers are imported when first used.
"""

from __future__ import annotations

import importlib
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from uwaga.checkpoints.alignment_head import HEAD_FILE, read_head
from uwaga.checkpoints.card import CARD, README
from uwaga.checkpoints.formats.uwaga.names import (
    ADAPTER,
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
from uwaga.plugins import Registry
from uwaga.settings import TransformerSettings

if TYPE_CHECKING:
    from uwaga.checkpoints.checkpoint import Checkpoint, Memory
    from uwaga.checkpoints.description import Description


class Files(NamedTuple):
    """File name patterns of a format; none of the files can contain code that is executed.

    Attributes:
        auxiliary: settings, vocabularies and cards, which are always downloaded from the hub.
        weights: weight files.
        fallback_weights: weight files that are downloaded only if a repository contains no other weights.
        suffixes: suffixes of single-file models.
    """

    auxiliary: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    fallback_weights: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()


class Format(NamedTuple):
    """A format of model files.

    Attributes:
        name: name shown by ``uwaga info``.
        detect: function that returns True if a folder or file has this format, even if it is damaged. It must
            be fast.
        read: function that reads the model of a folder or file, or the dotted name of such a function. It
            must check everything before allocating memory, and raises ModelError. For the memory ``none``, it
            should read no weights, set :attr:`~uwaga.checkpoints.checkpoint.Checkpoint.summary` instead, and
            report problems with the weight files only in ``problems``.
        files: patterns of the files to download from the hub.
        shares: True if the weights can be memory-mapped and shared by processes.
    """

    name: str
    detect: Callable[[Path], bool]
    read: Callable[[Path, Memory], Checkpoint] | str
    files: Files
    shares: bool = False

    def load(self, path: Path, memory: Memory) -> Checkpoint:
        """Read the model of a folder or file, importing the function :attr:`read` first if necessary."""
        if not isinstance(self.read, str):
            return self.read(path, memory)
        module, _, function = self.read.rpartition(".")
        checkpoint: Checkpoint = getattr(importlib.import_module(module), function)(path, memory)
        return checkpoint


FORMATS: Registry[Format] = Registry(
    "model format",
    "uwaga.model_formats",
    {
        "uwaga": "uwaga.checkpoints.registry:UWAGA",
        "uwaga int8": "uwaga.checkpoints.registry:UWAGA_INT8",
        "uwaga int4": "uwaga.checkpoints.registry:UWAGA_INT4",
        "Hugging Face": "uwaga.checkpoints.registry:HUGGING_FACE",
        "Argos Translate": "uwaga.checkpoints.registry:ARGOS",
        "CTranslate2": "uwaga.checkpoints.registry:CTRANSLATE2",
        "Marian": "uwaga.checkpoints.registry:MARIAN",
        "GGUF": "uwaga.checkpoints.registry:GGUF",
    },
)
"""The formats, in the order in which they are detected."""


def detect(path: Path) -> Format | None:
    """Return the format of a folder or file, or None if it is unknown."""
    return next((candidate for candidate in FORMATS.values() if candidate.detect(path)), None)


def read(path: Path, memory_mapped: bool = False) -> Checkpoint:
    """Read a model of any format, checking everything before allocating memory.

    Args:
        path: folder or file of the model.
        memory_mapped: True to memory-map the weights, so that several processes share them.

    Raises:
        SettingsError: if ``memory_mapped`` is True but weights in this format cannot be memory-mapped.
        ModelError: if the format or family is unknown, the model is incomplete or damaged, or it has a
            feature that uwaga does not support. The message names the file.
        MissingExtraError: if the model's files require a library that is not installed.
    """
    model_format = _require_format(path)
    if memory_mapped and not model_format.shares:
        raise SettingsError(
            f"{path}: memory 'shared' is supported only for int8 and int4 folders, whose weights can be "
            "memory-mapped; create one with `uwaga convert --int8`, or omit the option"
        )
    checkpoint = model_format.load(path, "shared" if memory_mapped else "fast")
    return _with_alignment_head(path, checkpoint)


def _with_alignment_head(path: Path, checkpoint: Checkpoint) -> Checkpoint:
    head, settings = read_head(path), checkpoint.settings
    if head is None:
        return checkpoint
    if isinstance(settings, TransformerSettings):
        layers, heads = settings.decoder_layers, settings.decoder_heads or settings.heads
        if head.layer > layers or (head.head or 1) > heads:
            raise ModelError(
                f"{path}: the stored alignment head is {head}, but the decoder has {layers} layers of "
                f"{heads} heads; choose one with `uwaga align --choose`"
            )
    return replace(checkpoint, alignment_head=head)


def describe(path: Path) -> Description:
    """Return a description of a model of any format without reading its weights.

    Problems with the weight files, and a damaged alignment head, are listed in the description's
    ``problems``.

    Raises:
        ModelError: if the format is unknown, or the model cannot be loaded for another reason.
        MissingExtraError: if the model's files require a library that is not installed.
    """
    from uwaga.checkpoints.description import describe_checkpoint

    checkpoint = _require_format(path).load(path, "none")
    try:
        checkpoint = _with_alignment_head(path, checkpoint)
    except ModelError as error:
        checkpoint = replace(checkpoint, problems=(*checkpoint.problems, str(error)))
    return describe_checkpoint(checkpoint)


def has_shortlist(path: Path) -> bool:
    """Return True if a vocabulary shortlist is stored next to a model, as for Firefox's models."""
    return _require_format(path).load(path, "none").shortlist is not None


def files() -> Files:
    """Return the file name patterns of all formats combined."""
    all_files = [candidate.files for candidate in FORMATS.values()]
    return Files(
        tuple(dict.fromkeys(name for group in all_files for name in group.auxiliary)),
        tuple(dict.fromkeys(name for group in all_files for name in group.weights)),
        tuple(dict.fromkeys(name for group in all_files for name in group.fallback_weights)),
        tuple(dict.fromkeys(name for group in all_files for name in group.suffixes)),
    )


def _require_format(path: Path) -> Format:
    model_format = detect(path)
    if model_format is not None:
        return model_format
    if (path / ADAPTER).is_file():
        raise ModelError(
            f"{path}: this is an adapter; give it with --adapter, and its base model with --model"
        )
    if (path / CONFIG).is_file():
        UWAGA.load(path, "none")  # raises an error that names the fault
    raise ModelError(
        f"{path}: not a known model format: found no uwaga or Hugging Face {CONFIG}, CTranslate2 model, "
        "Argos package, Marian model or GGUF file"
    )


# The formats


def _has_format(name: str) -> Callable[[Path], bool]:
    return lambda path: peek(path / CONFIG).get("format") == name


UWAGA = Format(
    "uwaga",
    _has_format(FORMAT),
    "uwaga.checkpoints.formats.uwaga.read.read_folder",
    Files((CONFIG, SOURCE, TARGET, CARD, HEAD_FILE), (WEIGHTS,)),
)
UWAGA_INT8, UWAGA_INT4 = (
    Format(
        name,
        _has_format(format_name),
        "uwaga.checkpoints.formats.uwaga.int8.read_quantised",
        Files(
            (CONFIG, SOURCE, TARGET, CARD, "source.vocab.json", "target.vocab.json", HEAD_FILE),
            (INT8_WEIGHTS,),
        ),
        shares=True,
    )
    for name, format_name in (("uwaga int8", INT8_FORMAT), ("uwaga int4", INT4_FORMAT))
)


HUGGING_FACE = Format(
    "Hugging Face",
    lambda path: isinstance(peek(path / CONFIG).get("model_type"), str),
    "uwaga.checkpoints.formats.huggingface.registry.read_folder",
    Files(
        auxiliary=(
            *(CONFIG, "generation_config.json", "tokenizer_config.json", "tokenizer.json", "vocab.json"),
            *("target_vocab.json", "source.spm", "target.spm", "merges.txt", "vocab.txt", "spiece.model"),
            *("sentencepiece.bpe.model", "sentencepiece.model", "tokenizer.model"),
            *("special_tokens_map.json", "added_tokens.json", "prophetnet.tokenizer", README, HEAD_FILE),
        ),
        weights=("model.safetensors", "model.safetensors.index.json", "model-*.safetensors"),
        fallback_weights=("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*.bin"),
    ),
)


CTRANSLATE2 = Format(
    "CTranslate2",
    lambda path: (path / "model.bin").is_file(),
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
        fallback_weights=("model.bin",),
    ),
)


def _is_argos(path: Path) -> bool:
    if path.is_dir():  # an unpacked package
        return (path / "metadata.json").is_file() and (path / "model" / "model.bin").is_file()
    return path.suffix == ".argosmodel"


ARGOS = Format(
    "Argos Translate",
    _is_argos,
    "uwaga.checkpoints.formats.argos.read_package",
    Files(suffixes=(".argosmodel",)),
)

NPZ, BINARY = ".npz", ".bin"
BINARY_MAGIC = struct.pack("<Q", 1)
"""The first bytes of Marian's binary models, which state the format version 1."""


def _is_marian(path: Path) -> bool:
    if path.is_dir():
        if (path / CONFIG).exists():
            return False
        return any(path.glob(f"*{NPZ}")) or any(map(_is_marian_binary, path.glob(f"model*{BINARY}")))
    return path.suffix == NPZ or _is_marian_binary(path)


def _is_marian_binary(path: Path) -> bool:
    return path.suffix == BINARY and _starts_with(path, BINARY_MAGIC)


def _starts_with(path: Path, magic: bytes) -> bool:
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
        fallback_weights=(f"*{NPZ}",),
        suffixes=(NPZ, BINARY),
    ),
)

GGUF_MAGIC = b"GGUF"


GGUF = Format(
    "GGUF",
    lambda path: path.suffix == ".gguf" or _starts_with(path, GGUF_MAGIC),
    "uwaga.checkpoints.formats.gguf.read.read_gguf",
    Files(suffixes=(".gguf",)),
)

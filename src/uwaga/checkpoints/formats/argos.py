"""Argos Translate's packages: zip files with a CTranslate2 folder and a SentencePiece model.

Only the required files are unpacked, under fixed names, into a temporary folder that is removed once the
model has been loaded.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.checkpoint import Checkpoint, Memory
from uwaga.checkpoints.formats.ctranslate2.folder import read_folder
from uwaga.checkpoints.formats.ctranslate2.vocabulary import PIECES
from uwaga.checkpoints.languages import UNSTATED_LANGUAGES
from uwaga.errors import ModelError, quoted
from uwaga.files.regular import read_regular
from uwaga.files.zip import Archive, open_archive
from uwaga.search import SearchOptions

NAME = "Argos Translate"
METADATA = "metadata.json"
BPE_CODES = "bpe.model"
MODEL_FILES = (
    *("model.bin", "config.json", "shared_vocabulary.json", "shared_vocabulary.txt"),
    *("source_vocabulary.json", "source_vocabulary.txt", "target_vocabulary.json", "target_vocabulary.txt"),
)
MAX_BYTES = {"model.bin": 1 << 33, PIECES: 1 << 28}
MAX_OTHER_BYTES = 1 << 26
"""Maximum unpacked size in bytes of a file that is not listed in ``MAX_BYTES``."""

SEARCH_OPTIONS = SearchOptions(
    beam=4, length_penalty=0.2, max_length=256, max_ratio=math.inf, min_length=1, unknown=False
)
"""Search options as in Argos Translate, except for unknown tokens: Argos Translate replaces them with the
source piece, uwaga with the next-best token."""


def read_package(path: Path, memory: Memory = "fast") -> Checkpoint:
    """Read an Argos package or an unpacked package.

    Args:
        path: the package file, or the folder of an unpacked package.
        memory: ``none`` to read no weights; see :class:`uwaga.checkpoints.registry.Format`. A package file is
            unpacked in any case.
    """
    if path.is_dir():
        return _read(path, path, memory)
    with tempfile.TemporaryDirectory(prefix="uwaga-argos-") as name:
        _unpack(path, Path(name))
        try:
            checkpoint = _read(Path(name), path, memory)
        except ModelError as error:
            raise ModelError(str(error).replace(f"{name}/", f"{path}:")) from None
    if checkpoint.weights is None:
        return checkpoint
    return replace(checkpoint, weights=checkpoint.weights.with_path(Path(f"{path}:model/model.bin")))


def _read(folder: Path, path: Path, memory: Memory) -> Checkpoint:
    values = read_metadata(folder / METADATA, str(path))
    kind = values.get("type", "translate")
    if kind != "translate":
        raise ModelError(f"{path}: the package is of type {quoted(kind)}, not a translation model")
    pieces = folder / PIECES
    if not pieces.is_file():
        tokeniser = (
            f"{BPE_CODES} (Moses' tokeniser and byte-pair codes), which uwaga does not support"
            if (folder / BPE_CODES).is_file()
            else "none"
        )
        raise ModelError(
            f"{path}: a package must contain {PIECES} as its tokeniser, but this one has {tokeniser}"
        )
    checkpoint = read_folder(
        folder / "model", memory, pieces=pieces, options=SEARCH_OPTIONS, languages=language_codes(values)
    )
    languages = replace(checkpoint.languages, location=str(path))
    return replace(checkpoint, path=path, format=NAME, card=read_card(folder), languages=languages)


def language_codes(values: Mapping[str, Any]) -> tuple[str, str]:
    """Return the codes of the source and target languages that a package's metadata state."""
    return str(values.get("from_code") or UNSTATED_LANGUAGES[0]), str(
        values.get("to_code") or UNSTATED_LANGUAGES[1]
    )


def read_metadata(path: Path, name: str) -> Mapping[str, Any]:
    """Return the metadata of a package; ``name`` is the name of the package, for messages."""
    try:
        values = json.loads(read_regular(path, MAX_OTHER_BYTES).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        raise ModelError(f"{name}: not an Argos package, because it has no readable {METADATA}") from None
    if not isinstance(values, dict):
        raise ModelError(f"{name}: {METADATA} is not a JSON object")
    return values


def _unpack(path: Path, folder: Path) -> None:
    """Unpack the required files into ``folder`` under fixed names."""
    (folder / "model").mkdir()
    with open_archive(path, "an Argos package") as package:
        for name, member in select_members(package).items():
            target = folder / name
            package.check_size(member, MAX_BYTES.get(target.name, MAX_OTHER_BYTES))
            with package.open(member) as packed, target.open("xb") as file:
                shutil.copyfileobj(packed, file, 1 << 20)


def select_members(package: Archive) -> dict[str, str]:
    """Return the archive members that uwaga reads, by their paths within the package's only folder."""
    path = package.path
    names = {METADATA, PIECES, BPE_CODES, *(f"model/{name}" for name in MODEL_FILES)}
    members: dict[str, str] = {}
    roots: set[str] = set()
    for member in package.members:
        parts = PurePosixPath(member).parts
        if ".." in parts or "\\" in member or member.startswith("/"):
            raise ModelError(
                f"{path}: the member {quoted(member)} has a path outside the package; the package is refused"
            )
        inner_name = "/".join(parts[1:])
        if inner_name not in names:
            continue
        if inner_name in members:
            raise ModelError(f"{path}: contains {inner_name!r} twice; the package is refused")
        roots.add(parts[0])
        members[inner_name] = member
    if len(roots) != 1:
        raise ModelError(
            f"{path}: not an Argos package, which must contain exactly one folder with {METADATA} and model/"
        )
    return members

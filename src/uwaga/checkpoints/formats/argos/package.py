"""Argos Translate's packages: a zip file with a CTranslate2 folder and a SentencePiece model in it.

Only the files that are needed are unpacked, into a folder that is gone when the model is loaded, and none
under the name that the package gives it.
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
from uwaga.checkpoints.languages import UNKNOWN
from uwaga.errors import ModelError, shown
from uwaga.files.regular import read_regular
from uwaga.files.zip import Archive, open_archive
from uwaga.search import SearchOptions

NAME = "Argos Translate"
METADATA = "metadata.json"
CODES = "bpe.model"
MODEL_FILES = (
    *("model.bin", "config.json", "shared_vocabulary.json", "shared_vocabulary.txt"),
    *("source_vocabulary.json", "source_vocabulary.txt", "target_vocabulary.json", "target_vocabulary.txt"),
)
LARGEST = {"model.bin": 1 << 33, PIECES: 1 << 28}
LARGEST_OTHER = 1 << 26
"""Bytes of any other file, unpacked."""

OPTIONS = SearchOptions(
    beam=4, length_penalty=0.2, max_length=256, max_ratio=math.inf, min_length=1, unknown=False
)
"""As Argos Translate searches, except that it puts the source's piece for an unknown token, and this the next
best token."""


def read_package(path: Path, memory: Memory = "fast") -> Checkpoint:
    """Read an Argos package, or the folder that one was unpacked into.

    Args:
        path: the file or folder.
        memory: ``none`` reads no weights, see :class:`uwaga.checkpoints.registry.Format`; a package is
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
    return replace(checkpoint, weights=checkpoint.weights.moved(Path(f"{path}:model/model.bin")))


def _read(folder: Path, place: Path, memory: Memory) -> Checkpoint:
    values = read_metadata(folder / METADATA, str(place))
    kind = values.get("type", "translate")
    if kind != "translate":
        raise ModelError(f"{place}: a package of the type {shown(kind)}, not of a translation")
    pieces = folder / PIECES
    if not pieces.is_file():
        found = (
            f"{CODES} (Moses' tokeniser and byte-pair codes), which uwaga lacks"
            if (folder / CODES).is_file()
            else "none"
        )
        raise ModelError(f"{place}: a package needs {PIECES} as its tokeniser; it has {found}")
    inner = read_folder(folder / "model", memory, pieces=pieces, options=OPTIONS, languages=codes(values))
    languages = replace(inner.languages, where=str(place))
    return replace(inner, place=place, format=NAME, card=read_card(folder), languages=languages)


def codes(values: Mapping[str, Any]) -> tuple[str, str]:
    """Return the language codes in the metadata of a package."""
    return str(values.get("from_code") or UNKNOWN[0]), str(values.get("to_code") or UNKNOWN[1])


def read_metadata(path: Path, name: str) -> Mapping[str, Any]:
    """Return the metadata of a package; ``name`` is the package's, for messages."""
    try:
        values = json.loads(read_regular(path, LARGEST_OTHER).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        raise ModelError(f"{name}: no readable {METADATA}, so it is not an Argos package") from None
    if not isinstance(values, dict):
        raise ModelError(f"{name}: {METADATA} is not a mapping")
    return values


def _unpack(path: Path, folder: Path) -> None:
    """Unpack the required files into ``folder`` under fixed names."""
    (folder / "model").mkdir()
    with open_archive(path, "an Argos package") as package:
        for name, member in needed_members(package).items():
            target = folder / name
            package.check_size(member, LARGEST.get(target.name, LARGEST_OTHER))
            with package.open(member) as packed, target.open("xb") as file:
                shutil.copyfileobj(packed, file, 1 << 20)


def needed_members(package: Archive) -> dict[str, str]:
    """Return the required and optional members of a package by their names inside its folder."""
    path = package.path
    wanted = {METADATA, PIECES, CODES, *(f"model/{name}" for name in MODEL_FILES)}
    found: dict[str, str] = {}
    roots: set[str] = set()
    for member in package.members:
        parts = PurePosixPath(member).parts
        if ".." in parts or "\\" in member or member.startswith("/"):
            raise ModelError(f"{path}: holds {shown(member)}, a file outside of it; refused")
        inside = "/".join(parts[1:])
        if inside not in wanted:
            continue
        if inside in found:
            raise ModelError(f"{path}: holds {inside!r} twice; refused")
        roots.add(parts[0])
        found[inside] = member
    if len(roots) != 1:
        raise ModelError(f"{path}: not an Argos package, which is one folder with {METADATA} and model/")
    return found

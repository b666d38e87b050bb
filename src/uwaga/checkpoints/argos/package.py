"""Argos Translate's packages: a zip file with a CTranslate2 folder and a SentencePiece model in it.

Only the files that are needed are unpacked, into a folder that is gone when the model is loaded, and none
under the name that the package gives it.
"""

from __future__ import annotations

import json
import math
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from uwaga.checkpoints.ctranslate2.folder import load_ctranslate2
from uwaga.checkpoints.ctranslate2.vocabulary import PIECES
from uwaga.checkpoints.huggingface.registry import Pretrained
from uwaga.checkpoints.uwaga.schema import Dtype
from uwaga.decoding import SearchOptions
from uwaga.errors import ModelError

SUFFIX = ".argosmodel"
METADATA = "metadata.json"
CODES = "bpe.model"
MODEL_FILES = (
    *("model.bin", "config.json", "shared_vocabulary.json", "shared_vocabulary.txt"),
    *("source_vocabulary.json", "source_vocabulary.txt", "target_vocabulary.json", "target_vocabulary.txt"),
)
MOST_FILES = 10_000
LARGEST = {"model.bin": 1 << 33, PIECES: 1 << 28}
LARGEST_OTHER = 1 << 26
"""Bytes of any other file, unpacked."""
DENSEST = 200
"""Bytes out of one byte in; weights give less than 10."""

OPTIONS = SearchOptions(
    beam=4, length_penalty=0.2, max_length=256, max_ratio=math.inf, min_length=1, unknown=False
)
"""As Argos Translate searches, except that it puts the source's piece for an unknown token, and this the next
best token."""


def is_argos(path: Path) -> bool:
    """Whether the path names an Argos package, or a folder that one was unpacked into."""
    if path.is_dir():
        return (path / METADATA).is_file() and (path / "model" / "model.bin").is_file()
    return path.suffix == SUFFIX


def load_argos(path: Path, device: str = "cpu", dtype: Dtype = "float32") -> Pretrained:
    """Load an Argos package, or the folder that one was unpacked into.

    Args:
        path: ``.argosmodel`` file, or folder.
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        dtype: number format to compute in.

    Raises:
        ModelError: no package, damaged, unsafe to unpack, of another type than a translation's, or its
            model has a feature that uwaga lacks.
    """
    if path.is_dir():
        return _load(path, str(path), device, dtype)
    with tempfile.TemporaryDirectory(prefix="uwaga-argos-") as name:
        _unpack(path, Path(name))
        try:
            return _load(Path(name), str(path), device, dtype)
        except ModelError as error:
            raise ModelError(str(error).replace(f"{name}/", f"{path}:")) from None


def _load(folder: Path, name: str, device: str, dtype: Dtype) -> Pretrained:
    values = _metadata(folder / METADATA, name)
    kind = values.get("type", "translate")
    if kind != "translate":
        raise ModelError(f"{name}: a package of the type {kind!r}, not of a translation")
    pieces = folder / PIECES
    if not pieces.is_file():
        found = (
            f"{CODES} (Moses' tokeniser and byte-pair codes), which uwaga lacks"
            if (folder / CODES).is_file()
            else "none"
        )
        raise ModelError(f"{name}: a package needs {PIECES} as its tokeniser; it has {found}")
    codes = (str(values.get("from_code") or "src"), str(values.get("to_code") or "tgt"))
    return load_ctranslate2(folder / "model", device, dtype, pieces=pieces, options=OPTIONS, languages=codes)


def _metadata(path: Path, name: str) -> Mapping[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise ModelError(f"{name}: no readable {METADATA}, so it is not an Argos package") from None
    if not isinstance(values, dict):
        raise ModelError(f"{name}: {METADATA} is not a mapping")
    return values


def _unpack(path: Path, folder: Path) -> None:
    """Put the needed files into ``folder`` under names of our own."""
    (folder / "model").mkdir()
    try:
        with zipfile.ZipFile(path) as package:
            for name, member in _needed(path, package).items():
                _copy(path, package, member, folder / name)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise ModelError(f"{path}: damaged or not an Argos package ({error}); fetch it again") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot be unpacked: {error.strerror or error}") from None


def _needed(path: Path, package: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members to unpack, by the names that they get."""
    members = package.infolist()
    if len(members) > MOST_FILES:
        raise ModelError(f"{path}: holds {len(members)} files, not a package that uwaga unpacks")
    wanted = {METADATA, PIECES, CODES, *(f"model/{name}" for name in MODEL_FILES)}
    found: dict[str, zipfile.ZipInfo] = {}
    roots: set[str] = set()
    for member in members:
        parts = PurePosixPath(member.filename).parts
        if ".." in parts or "\\" in member.filename or member.filename.startswith("/"):
            raise ModelError(f"{path}: holds {member.filename!r}, a file outside of it; refused")
        inside = "/".join(parts[1:])
        if member.is_dir() or inside not in wanted:
            continue
        if stat.S_ISLNK(member.external_attr >> 16) or member.flag_bits & 1:
            raise ModelError(f"{path}: {member.filename!r} is a link or encrypted; refused")
        if inside in found:
            raise ModelError(f"{path}: holds {inside!r} twice; refused")
        roots.add(parts[0])
        found[inside] = member
    if len(roots) != 1:
        raise ModelError(f"{path}: not an Argos package, which is one folder with {METADATA} and model/")
    return found


def _copy(path: Path, package: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    """Unpack one file; zipfile gives no more bytes than the package states, and checks their sum."""
    most = LARGEST.get(target.name, LARGEST_OTHER)
    if member.file_size > min(most, DENSEST * member.compress_size + 4096):
        raise ModelError(
            f"{path}: {member.filename!r} would unpack from {member.compress_size} to {member.file_size} "
            "bytes; refused"
        )
    with package.open(member) as packed, target.open("xb") as file:
        shutil.copyfileobj(packed, file, 1 << 20)

"""Marian's own files, binary and ``.npz``, as the registry of formats knows them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.checkpoints.format import Files, Format
from uwaga.checkpoints.formats.marian.files import BINARY, NPZ
from uwaga.checkpoints.formats.uwaga.names import CONFIG, SOURCE, TARGET

if TYPE_CHECKING:
    from uwaga.checkpoints.checkpoint import Checkpoint
    from uwaga.checkpoints.description import Description

MAGIC = struct.pack("<Q", 1)
"""A binary model's first bytes: its version."""


def _is_marian(place: Path) -> bool:
    """Whether it is a model's file, or a folder with one and without a ``config.json``."""
    if place.is_dir():
        if (place / CONFIG).exists():
            return False
        return any(place.glob(f"*{NPZ}")) or any(map(_is_binary, place.glob(f"model*{BINARY}")))
    return place.suffix == NPZ or _is_binary(place)


def _is_binary(path: Path) -> bool:
    if path.suffix != BINARY or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _read(place: Path) -> Checkpoint:
    from uwaga.checkpoints.formats.marian.read import read_marian

    return read_marian(place)


def _describe(place: Path) -> Description:
    from uwaga.checkpoints.formats.marian.describe import describe_marian

    return describe_marian(place)


MARIAN = Format(
    "Marian",
    _is_marian,
    _read,
    _describe,
    Files(
        (
            *("decoder.yml", "config*.yml", "*vocab*.yml", "*vocab*.spm", "lex*.bin"),
            *(SOURCE, TARGET, "README.md"),
        ),
        weights=(f"model.*{BINARY}",),
        rather_not=(f"*{NPZ}",),
        suffixes=(NPZ, BINARY),
    ),
)

"""uwaga's own model folders, float and int8, as the registry knows them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.checkpoints.alignment_head import HEAD_FILE
from uwaga.checkpoints.card import CARD
from uwaga.checkpoints.files.json_file import peek
from uwaga.checkpoints.format import Files, Format
from uwaga.checkpoints.formats.uwaga.names import (
    CONFIG,
    FORMAT,
    INT8_FORMAT,
    INT8_WEIGHTS,
    SOURCE,
    TARGET,
    WEIGHTS,
)

if TYPE_CHECKING:
    from uwaga.checkpoints.checkpoint import Checkpoint
    from uwaga.checkpoints.description import Description


def _is_float(place: Path) -> bool:
    return peek(place / CONFIG).get("format") == FORMAT


def _is_int8(place: Path) -> bool:
    return peek(place / CONFIG).get("format") == INT8_FORMAT


def _read(place: Path) -> Checkpoint:
    from uwaga.checkpoints.formats.uwaga.read import read_folder

    return read_folder(place)


def _describe(place: Path) -> Description:
    from uwaga.checkpoints.formats.uwaga.describe import describe_folder

    return describe_folder(place)


def _read_int8(place: Path) -> Checkpoint:
    from uwaga.checkpoints.formats.uwaga.int8 import read_quantised

    return read_quantised(place)


def _share_int8(place: Path) -> Checkpoint:
    from uwaga.checkpoints.formats.uwaga.int8 import read_quantised

    return read_quantised(place, shared=True)


def _describe_int8(place: Path) -> Description:
    from uwaga.checkpoints.formats.uwaga.describe import describe_int8

    return describe_int8(place)


UWAGA = Format(
    "uwaga", _is_float, _read, _describe, Files((CONFIG, SOURCE, TARGET, CARD, HEAD_FILE), (WEIGHTS,))
)
UWAGA_INT8 = Format(
    "uwaga int8",
    _is_int8,
    _read_int8,
    _describe_int8,
    Files(
        (CONFIG, SOURCE, TARGET, CARD, "source.vocab.json", "target.vocab.json", HEAD_FILE), (INT8_WEIGHTS,)
    ),
    _share_int8,
)

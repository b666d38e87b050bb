"""Marian's own ``.npz``, as the registry of formats knows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.checkpoints.format import Files, Format
from uwaga.checkpoints.uwaga.schema import CONFIG, SOURCE, TARGET

if TYPE_CHECKING:
    from uwaga.checkpoints.checkpoint import Checkpoint
    from uwaga.checkpoints.description import Description

SUFFIX = ".npz"


def _is_marian(place: Path) -> bool:
    """Whether it is a ``.npz`` file, or a folder with one and without a ``config.json``."""
    if place.is_dir():
        return not (place / CONFIG).exists() and any(place.glob(f"*{SUFFIX}"))
    return place.suffix == SUFFIX


def _read(place: Path) -> Checkpoint:
    from uwaga.checkpoints.marian.npz import read_marian

    return read_marian(place)


def _describe(place: Path) -> Description:
    from uwaga.checkpoints.marian.describe import describe_marian

    return describe_marian(place)


MARIAN = Format(
    "Marian",
    _is_marian,
    _read,
    _describe,
    Files(
        ("decoder.yml", "*vocab*.yml", "*vocab*.spm", SOURCE, TARGET, "README.md"),
        rather_not=(f"*{SUFFIX}",),
        suffixes=(SUFFIX,),
    ),
)

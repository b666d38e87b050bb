"""Argos Translate's packages, as the registry of formats knows them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.checkpoints.format import Files, Format

if TYPE_CHECKING:
    from uwaga.checkpoints.checkpoint import Checkpoint
    from uwaga.checkpoints.description import Description

SUFFIX = ".argosmodel"


def _is_argos(place: Path) -> bool:
    """Whether a file is called a package, or a folder is one unpacked."""
    if place.is_dir():
        return (place / "metadata.json").is_file() and (place / "model" / "model.bin").is_file()
    return place.suffix == SUFFIX


def _read(place: Path) -> Checkpoint:
    from uwaga.checkpoints.formats.argos.package import read_package

    return read_package(place)


def _describe(place: Path) -> Description:
    from uwaga.checkpoints.formats.argos.describe import describe_package

    return describe_package(place)


ARGOS = Format("Argos Translate", _is_argos, _read, _describe, Files(suffixes=(SUFFIX,)))

"""The registry of formats: what a folder or file is, who reads it, who describes it, what the hub fetches.

A new format is one file that ends in ``register(Format(...))``. Nothing else asks what a folder is.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.checkpoints.alignment_head import read_head
from uwaga.checkpoints.format import Files, Format
from uwaga.checkpoints.formats.argos.format import ARGOS
from uwaga.checkpoints.formats.ctranslate2.format import CTRANSLATE2
from uwaga.checkpoints.formats.huggingface.format import HUGGING_FACE
from uwaga.checkpoints.formats.marian.format import MARIAN
from uwaga.checkpoints.formats.uwaga.format import UWAGA, UWAGA_INT8
from uwaga.errors import ModelError, SettingsError

if TYPE_CHECKING:
    from uwaga.checkpoints.checkpoint import Checkpoint
    from uwaga.checkpoints.description import Description

FORMATS: list[Format] = [UWAGA, UWAGA_INT8, HUGGING_FACE, ARGOS, CTRANSLATE2, MARIAN]
"""In the order in which they are asked."""


def register(added: Format) -> Format:
    """Add a format, which is asked before those that are there; one of the same name is replaced."""
    FORMATS[:] = [added, *(one for one in FORMATS if one.name != added.name)]
    return added


def detect(place: Path) -> Format | None:
    """The format of a folder or file, None where it is in none that is known."""
    return next((one for one in FORMATS if one.detect(place)), None)


def read(place: Path, shared: bool = False) -> Checkpoint:
    """Read a model of any format, checking everything before memory is taken.

    Args:
        place: a folder or file.
        shared: leave the weights in their file, mapped, so that processes share them.

    Raises:
        SettingsError: ``shared``, of a format whose weights are not used as they lie in their file.
        ModelError: it is in no known format, incomplete, damaged, of an unknown family or with a feature that
            uwaga lacks. The message names the file.
        MissingExtraError: its files need a library that is not installed.
    """
    found = _format(place)
    if not shared:
        return _with_head(found.read(place), place)
    if found.read_shared is None:
        raise SettingsError(
            f"{place}: memory 'shared' needs weights that are used as they lie in their file, which is so of "
            "int8 folders alone: make one with `uwaga convert --int8`, or leave it out"
        )
    return _with_head(found.read_shared(place), place)


def _with_head(checkpoint: Checkpoint, place: Path) -> Checkpoint:
    return replace(checkpoint, alignment_head=read_head(place))


def describe(place: Path) -> Description:
    """Describe a model of any format; what is wrong with it is among its notes.

    Raises:
        ModelError: it is in no known format, or its settings cannot be read.
    """
    found = _format(place).describe(place)
    try:
        head = read_head(place)
    except ModelError as error:
        return replace(found, problems=(*found.problems, str(error)))
    return replace(found, alignment_head=None if head is None else str(head))


def files() -> Files:
    """The files of all formats together."""
    every = [one.files for one in FORMATS]
    return Files(
        tuple(dict.fromkeys(name for one in every for name in one.beside)),
        tuple(dict.fromkeys(name for one in every for name in one.weights)),
        tuple(dict.fromkeys(name for one in every for name in one.rather_not)),
        tuple(dict.fromkeys(name for one in every for name in one.suffixes)),
    )


def _format(place: Path) -> Format:
    found = detect(place)
    if found is not None:
        return found
    if (place / "config.json").is_file():
        UWAGA.read(place)  # which says what is wrong with it
    raise ModelError(
        f"{place}: no model that uwaga knows: no config.json of uwaga's or Hugging Face's, no CTranslate2 "
        "folder, Argos package or Marian .npz"
    )

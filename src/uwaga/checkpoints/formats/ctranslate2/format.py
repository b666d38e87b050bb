"""CTranslate2's folders, as the registry of formats knows them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.checkpoints.format import Files, Format
from uwaga.checkpoints.formats.uwaga.names import CONFIG, SOURCE, TARGET

if TYPE_CHECKING:
    from uwaga.checkpoints.checkpoint import Checkpoint
    from uwaga.checkpoints.description import Description

MODEL = "model.bin"
VOCABULARIES = tuple(
    f"{side}_vocabulary.{ending}" for side in ("shared", "source", "target") for ending in ("json", "txt")
)


def _is_ctranslate2(place: Path) -> bool:
    return (place / MODEL).is_file()


def _read(place: Path) -> Checkpoint:
    from uwaga.checkpoints.formats.ctranslate2.folder import read_folder

    return read_folder(place)


def _describe(place: Path) -> Description:
    from uwaga.checkpoints.formats.ctranslate2.describe import describe_folder

    return describe_folder(place)


CTRANSLATE2 = Format(
    "CTranslate2",
    _is_ctranslate2,
    _read,
    _describe,
    Files((CONFIG, *VOCABULARIES, SOURCE, TARGET, "sentencepiece.model", "README.md"), rather_not=(MODEL,)),
)

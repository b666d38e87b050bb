"""Where an installed model came from: ``origin.json`` beside its files, and the folder of such models."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from uwaga.checkpoints.files.json_file import peek, read_mapping
from uwaga.errors import ModelError, SettingsError
from uwaga.settings import StrictModel, parse

ORIGIN = "origin.json"
HOME = "UWAGA_HOME"

Line = Annotated[str, Field(max_length=500, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""A text that may be printed: no line breaks, nothing that moves a terminal's cursor."""
Code = Annotated[str, Field(pattern=r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8}){0,3}$")]
FileName = Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]


class InstalledFile(StrictModel):
    """A file of a model as it was installed: bytes, SHA-256 in hexadecimal, and where it was fetched."""

    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    location: Line = ""


class Origin(StrictModel):
    """Where a model came from and what it is.

    Attributes:
        format: version of this record.
        name: of the model, which is its folder's.
        source: the catalogue that named it, or ``package``.
        version: as its maker counts, empty where nothing is stated.
        source_languages: codes of those it translates from.
        target_languages: codes of those it translates to.
        architecture: ``tiny``, ``base`` and so on, empty where nothing is stated.
        licence: its name, empty where nothing is stated.
        status: how far it is released, in its maker's words.
        model: the file that is the model, of one that is a single file; empty: the folder is.
        files: by their names.
        metrics: scores by their names, such as ``flores200-plus bleu``.
        parameters: how many, None where nothing is stated.
    """

    format: Literal[1] = 1
    name: FileName
    source: FileName
    version: Line = ""
    source_languages: tuple[Code, ...] = ()
    target_languages: tuple[Code, ...] = ()
    architecture: Line = ""
    licence: Line = ""
    status: Line = ""
    model: FileName | Literal[""] = ""
    files: dict[FileName, InstalledFile] = Field(default_factory=dict)
    metrics: dict[Line, float] = Field(default_factory=dict)
    parameters: int | None = Field(default=None, ge=0)


def models_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of models that ``uwaga models download`` installs.

    ``$UWAGA_HOME/models``, else ``$XDG_DATA_HOME/uwaga/models``, else ``~/.local/share/uwaga/models``.
    """
    if environment.get(HOME):
        return Path(environment[HOME]).expanduser().absolute() / "models"
    data = Path(environment.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    if not data.is_absolute():  # which is to be ignored, by the XDG specification
        data = Path("~/.local/share").expanduser()
    return data / "uwaga" / "models"


def read_origin(folder: Path) -> Origin:
    """The record in a folder.

    Raises:
        ModelError: it is missing, damaged, or of another folder's model.
    """
    path = folder / ORIGIN
    try:
        found = parse(Origin, read_mapping(path), str(path))
    except SettingsError as error:
        raise ModelError(f"{error}; remove the model and download it again") from None
    if found.model and found.model not in found.files:
        raise ModelError(f"{path}: model {found.model!r} is none of its files; download the model again")
    return found


def installed_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """The folders of installed models by name; those that begin with a dot are at work or for uwaga's own."""
    try:
        places = sorted(models_home(environment).iterdir())
    except OSError:
        return
    yield from (place for place in places if place.is_dir() and not place.name.startswith("."))


def find_installed_folder(name: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The model of a name in the folder of models, None where there is none.

    Raises:
        ModelError: its record is damaged.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", name, re.ASCII):
        return None
    place = models_home(environment) / name
    if not place.is_dir():
        return None
    return place / read_origin(place).model if (place / ORIGIN).is_file() else place


def is_firefox_folder(place: Path) -> bool:
    """Whether a folder holds the files of a Firefox Translations model: Marian's binary and SentencePiece."""
    return _first(place, "model.*.bin") is not None and _first(place, "*vocab.*.spm") is not None


def infer_origin(place: Path, name: str, source: str) -> Origin:
    """What the names in a folder say of a model that has no record.

    ``model_info.json``, which translateLocally's folders hold, is looked at first, then the languages in the
    name of the weights, such as ``model.enpt.intgemm.alphas.bin``.
    """
    stated = peek(place / "model_info.json") if (place / "model_info.json").is_file() else {}
    pattern = r"([a-z]{2,3})-([a-z]{2,3})(?:-([a-z0-9.-]{1,30}))?"
    found = re.fullmatch(pattern, str(stated.get("shortName", "")))
    if found is None:
        weights = _first(place, "model.*.bin")
        found = re.match(r"model\.([a-z]{2})([a-z]{2})(\.)", weights.name) if weights else None
    if found is None:
        return Origin(name=name, source=source)
    architecture = found[3] if found[3] and found[3] != "." else ""
    return Origin(
        name=name,
        source=source,
        source_languages=(found[1],),
        target_languages=(found[2],),
        architecture=architecture,
    )


def _first(place: Path, pattern: str) -> Path | None:
    return min(place.glob(pattern), default=None)

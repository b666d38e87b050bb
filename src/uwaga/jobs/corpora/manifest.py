"""``manifest.json`` of a job: what it is, what it reads, and which shards are done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.files.json_file import read_mapping
from uwaga.errors import DataError, ModelError, SettingsError, shown
from uwaga.files.atomic import new_file
from uwaga.settings import StrictModel, parse

MANIFEST = "manifest.json"
Setting = str | int | float | bool | None


class StoredModel(StrictModel):
    """A model that works: what it was called, and the SHA-256 of its files."""

    name: str
    sha256: str


class StoredInput(StrictModel):
    """What is read: the files as they were called, how many lines, and their SHA-256, decompressed."""

    files: tuple[str, ...]
    lines: PositiveInt
    sha256: str


class ShardRecord(StrictModel):
    """A shard that is done.

    Attributes:
        lines: in it, as many as it has of the input.
        sha256: of the file.
        empty: lines whose source is empty.
        failed: lines that could not be worked on; their synthetic side is empty.
        cut: lines whose translation a limit cut.
        failures: numbers of the first lines that failed, and why.
    """

    lines: PositiveInt
    sha256: str
    empty: NonNegativeInt = 0
    failed: NonNegativeInt = 0
    cut: NonNegativeInt = 0
    failures: tuple[tuple[int, str], ...] = ()


class Manifest(StrictModel):
    """A job and how far it is.

    Attributes:
        format: version of this record.
        uwaga: version that does the work.
        kind: which job.
        settings: what was asked for and bears on the result.
        models: in the order in which they were named.
        input: what is read.
        shard_size: lines of a shard, but for the last.
        shards: those that are done, by their file names.
    """

    format: Literal[1] = 1
    uwaga: str
    kind: Literal["distil", "backtranslate"]
    settings: dict[str, Setting] = Field(default_factory=dict)
    models: tuple[StoredModel, ...]
    input: StoredInput
    shard_size: PositiveInt
    shards: dict[str, ShardRecord] = Field(default_factory=dict)

    @property
    def shard_names(self) -> tuple[str, ...]:
        """The files of the whole job, in order."""
        return tuple(f"part-{number:05d}.tsv.gz" for number in range(-(-self.input.lines // self.shard_size)))

    def total(self, what: Literal["lines", "empty", "failed", "cut"]) -> int:
        """The sum of a count over the shards that are done."""
        return sum(int(getattr(one, what)) for one in self.shards.values())

    def write(self, folder: Path) -> None:
        """Write it into the folder of the job, whole or not at all.

        Raises:
            DataError: it cannot be written.
        """
        with new_file(folder / MANIFEST) as file:
            file.write((self.model_dump_json(indent=1) + "\n").encode())


def read_manifest(folder: Path) -> Manifest | None:
    """The record in a folder, None where there is none yet.

    Raises:
        DataError: it is damaged, or of a later version.
    """
    path = folder / MANIFEST
    if not path.exists():
        return None
    cure = "delete the folder to start anew"
    try:
        values = read_mapping(path)
        if values.get("format") != 1:
            raise DataError(f"{path}: format {shown(values.get('format'))}, not 1; {cure}")
        return parse(Manifest, values, str(path))
    except SettingsError as error:
        raise DataError(f"{error}; {cure}") from None
    except ModelError as error:
        raise DataError(f"{str(error).partition(';')[0]}; {cure}") from None


def check_same_job(folder: Path, begun: Manifest, asked: Manifest) -> None:
    """Refuse to go on with a job under other settings, with another model, or over another input.

    Raises:
        SettingsError: names the folder, the first key that differs, and both values.
    """
    check_alike(str(folder), _compared(begun), _compared(asked), "choose another folder with --output")


def check_alike(place: str, begun: Mapping[str, Any], asked: Mapping[str, Any], elsewhere: str) -> None:
    """Refuse to go on with a job whose record says something else than what is asked for.

    Args:
        place: where the job's record lies.
        begun: what the record says.
        asked: what is asked for.
        elsewhere: how another place is chosen, for the message.

    Raises:
        SettingsError: names the place, the first key that differs, and both values.
    """
    before, now = dict(_keys(begun)), dict(_keys(asked))
    for key in [*now, *before]:
        if before.get(key) != now.get(key):
            raise SettingsError(
                f"{place}: its job was begun with {key} = {json.dumps(before.get(key))}, not "
                f"{json.dumps(now.get(key))}; ask for the same to go on with it, {elsewhere}, or delete "
                "this one"
            )


def _compared(manifest: Manifest) -> Mapping[str, Any]:
    """What must stay the same: not the names of files and models, which may have moved."""
    values = manifest.model_dump(mode="json", exclude={"shards": True, "input": {"files"}})
    values["models"] = [one["sha256"] for one in values["models"]]
    return values


def _keys(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Every leaf of nested mappings and lists, with its dotted key."""
    if isinstance(value, list):
        value = {str(at): one for at, one in enumerate(value)}
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, one in value.items():
        yield from _keys(one, f"{name}.{key}" if name else key)


def model_identity(place: Path) -> str:
    """The SHA-256 of a model: of its one file, or of the names and contents of its folder's.

    Args:
        place: as :func:`uwaga.library.hub.find_model` gives it.

    Raises:
        ModelError: a file cannot be read.
    """
    digest = hashlib.sha256()
    try:
        for path in _model_files(place):
            with path.open("rb") as file:
                content = hashlib.file_digest(file, "sha256").hexdigest()
            digest.update(f"{path.name if path != place else ''}\0{content}\n".encode())
    except OSError as error:
        raise ModelError(f"{error.filename}: cannot be read: {error.strerror}") from None
    return digest.hexdigest()


def _model_files(place: Path) -> list[Path]:
    if place.is_file():
        return [place]
    files = formats.files()
    patterns = (*files.beside, *files.weights, *files.rather_not)
    texts = (".md",)  # a card says things of a model and does nothing
    known = {
        path for one in patterns for path in place.glob(one) if path.is_file() and path.suffix not in texts
    }
    return sorted(known or {path for path in place.iterdir() if path.is_file()})

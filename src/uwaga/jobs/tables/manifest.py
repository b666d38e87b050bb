"""``manifest.json`` of a batch job: what it is, what it reads, and which parts are done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, NonNegativeInt

from uwaga.errors import DataError, SettingsError, shown
from uwaga.files.store import FileStore, StoredFile
from uwaga.jobs.corpora.manifest import Setting, StoredModel, check_alike
from uwaga.settings import StrictModel, parse

MANIFEST = "manifest.json"
LARGEST = 1 << 28  # bytes


class BatchInput(StrictModel):
    """What is read: its name, how many files and bytes, and the SHA-256 of their names and sizes."""

    name: str
    format: str
    files: NonNegativeInt
    bytes: NonNegativeInt
    sha256: str


class DamagedFile(StrictModel):
    """The file at which a job has stopped: its index and name, and the sums of those before and behind it."""

    file: NonNegativeInt
    name: str
    before: str
    behind: str

    @classmethod
    def of(cls, files: Sequence[StoredFile], at: int) -> DamagedFile:
        """The file of an index, among all."""
        sums = listing_sum(files[:at]), listing_sum(files[at + 1 :])
        return cls(file=at, name=files[at].name, before=sums[0], behind=sums[1])


class PartRecord(StrictModel):
    """A part that is done.

    Attributes:
        file: index of the file that its rows are of, in the order of names.
        first: index of its first row in that file.
        rows: in it, one for each row of the input.
        bytes: of the part.
        sha256: likewise.
        empty: texts that were null or empty, and stay so.
        failed: texts that could not be translated.
        cut: translations that a limit cut.
        failures: rows of the first texts that failed, and why.
    """

    file: NonNegativeInt
    first: NonNegativeInt
    rows: NonNegativeInt
    bytes: NonNegativeInt
    sha256: str
    empty: NonNegativeInt = 0
    failed: NonNegativeInt = 0
    cut: NonNegativeInt = 0
    failures: tuple[tuple[int, str], ...] = ()


class BatchManifest(StrictModel):
    """A job and how far it is.

    Attributes:
        format: version of this record.
        kind: of job.
        uwaga: version that does the work.
        settings: what was asked for and bears on the result.
        models: in the order in which they were named.
        input: what is read.
        finished: whether all parts are there.
        damaged: the file that could not be read, which may be mended.
        parts: those that are done, by their file names.
    """

    format: Literal[1] = 1
    kind: Literal["batch"] = "batch"
    uwaga: str
    settings: dict[str, Setting | tuple[str, ...]] = Field(default_factory=dict)
    models: tuple[StoredModel, ...]
    input: BatchInput
    finished: bool = False
    damaged: DamagedFile | None = None
    parts: dict[str, PartRecord] = Field(default_factory=dict)

    def total(self, what: Literal["rows", "empty", "failed", "cut", "bytes"]) -> int:
        """The sum of a count over the parts that are done."""
        return sum(int(getattr(one, what)) for one in self.parts.values())

    def write(self, store: FileStore) -> None:
        """Write it into the folder of the job, whole or not at all.

        Raises:
            DataError: it cannot be written.
        """
        store.write(MANIFEST, (self.model_dump_json(indent=1) + "\n").encode())


def listing_sum(files: Sequence[StoredFile]) -> str:
    """The SHA-256 of the names and sizes of files."""
    digest = hashlib.sha256()
    for one in files:
        digest.update(f"{one.name}\0{one.size}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def part_name(number: int, ending: str) -> str:
    """The file of a part: ``part-00000.parquet``."""
    return f"part-{number:05d}{ending}"


def read_manifest(store: FileStore, files: Sequence[StoredFile]) -> BatchManifest | None:
    """The record among the files of a folder, None of a folder that is empty.

    Raises:
        DataError: it is damaged, or of a later version; or the folder has files and no record.
        SettingsError: it is of a job of another kind.
    """
    others = [one.name for one in files if not one.name.startswith(".") and one.name != "lock"]
    if not others:
        return None
    path, cure = f"{store.name}/{MANIFEST}", "choose another folder, or delete this one to start anew"
    if MANIFEST not in others:
        raise DataError(
            f"{store.name}: no job's folder: it holds {others[0]} and no {MANIFEST}; choose a new one"
        )
    with store.open(MANIFEST) as file:
        content = file.read(LARGEST)
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        raise DataError(f"{path}: damaged, no JSON; {cure}") from None
    if not isinstance(values, dict) or values.get("kind") != "batch":
        raise SettingsError(f"{store.name}: holds a job of another kind; {cure}")
    if values.get("format") != 1:
        raise DataError(f"{path}: format {shown(values.get('format'))}, not 1; {cure}")
    try:
        return parse(BatchManifest, values, path)
    except SettingsError as error:
        raise DataError(f"{error}; {cure}") from None


def with_mended(begun: BatchManifest, asked: BatchManifest, files: Sequence[StoredFile]) -> BatchManifest:
    """The record of a job over an input of which only the damaged file is another now: without its parts.

    Args:
        begun: the record as it was.
        asked: what is asked for.
        files: of the input as it is.
    """
    damaged, read = begun.damaged, asked.input.sha256
    if damaged is None or read == begun.input.sha256 or damaged.file >= len(files):
        return begun
    if damaged != DamagedFile.of(files, damaged.file):
        return begun
    kept = {name: one for name, one in begun.parts.items() if one.file < damaged.file}
    return begun.model_copy(update={"input": asked.input, "parts": kept, "finished": False})


def check_same_job(place: str, begun: BatchManifest, asked: BatchManifest) -> None:
    """Refuse to go on with a job under other settings, with another model, or over another input.

    Raises:
        SettingsError: names the folder, the first key that differs, and both values.
    """
    check_alike(place, _compared(begun), _compared(asked), "choose another folder")


def _compared(manifest: BatchManifest) -> Mapping[str, Any]:
    """What must stay the same: not the names of input and models, which may have moved."""
    values = manifest.model_dump(mode="json", exclude={"parts", "finished", "damaged"})
    del values["input"]["name"]
    values["models"] = [one["sha256"] for one in values["models"]]
    return values

"""Resumable jobs: each row of an input is written exactly once, in parts that survive a crash.

A job writes numbered parts (``part-00000.parquet``, …) and a record of them, ``manifest.json``, into a folder
or an object store. A part is written atomically, and its bytes depend only on its rows, the models and the
settings, so a job that was killed and resumed produces the same bytes as an uninterrupted one.

This module depends on neither tables nor corpora. A front end (:mod:`uwaga_corpora.jobs.table`,
:mod:`uwaga_corpora.jobs.corpus`) subclasses :class:`Job` to read the input in blocks of rows and to encode a
translated block as a part.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from pydantic import Field, NonNegativeInt, PositiveInt

from uwaga.errors import DataError, SettingsError, quoted
from uwaga.files.lock import LOCK_NAME, RunLock
from uwaga.files.resume import check_same_job
from uwaga.files.store import FileStore, LocalStore
from uwaga.settings import StrictModel, parse
from uwaga_corpora.jobs.translation import Setting, Task, TranslatedText, TranslationSpec, worker_fingerprint
from uwaga_corpora.jobs.workers import TaskResult, WorkerPool, Workers

MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 1 << 28  # bytes
BLOCKS_PER_WORKER = 2
"""Number of blocks in memory per worker: the block being translated and the next block."""
MAX_LISTED_FAILURES = 100
"""Maximum number of failed rows that the record of a part lists; further failed rows are only counted."""
FIRST_PART_ROWS = 500
"""Number of rows of the first part, which takes seconds to translate."""
SAVE_INTERVAL = 50
"""Minimum time between two writes of the manifest, as a multiple of the duration of a write."""
JobKind = Literal["batch", "distil", "backtranslate"]
PART_NAME = re.compile(r"part-\d{5,}\.[a-z.]+")


class StoredModel(StrictModel):
    """A model: its name as given by the user, and the SHA-256 of its files."""

    name: str
    sha256: str


class InputRecord(StrictModel):
    """The input of a job: its name as given by the user, its format and size, and an identifying SHA-256.

    The SHA-256 is computed from the names and sizes of a table's files, or from a corpus's decompressed
    lines.
    """

    name: str
    format: str
    files: NonNegativeInt | None = None
    bytes: NonNegativeInt | None = None
    lines: NonNegativeInt | None = None
    sha256: str


class DamagedFile(StrictModel):
    """The file that stopped a job: its index and name, and SHA-256 sums of the files before and after it."""

    file: NonNegativeInt
    name: str
    before: str
    after: str


class SkippedFile(StrictModel):
    """A file of the input that could not be read to its end: its index and name, and the reason."""

    file: NonNegativeInt
    name: str
    reason: str


class PartRecord(StrictModel):
    """A finished part.

    Attributes:
        file: index of the input file that the rows come from.
        first: index of the part's first row in that file.
        rows: number of rows, one for each row of the input.
        bytes: size of the part.
        sha256: the SHA-256 of the part.
        empty: number of texts that are null or empty, in the input as in the part.
        failed: number of texts that could not be translated.
        cut: number of translations that reached the length limit.
        cut_rows: the first rows with truncated translations, counted from 1 within the input file.
        failures: row and reason of the first failed texts; rows are counted from 1 within the input file.
    """

    file: NonNegativeInt = 0
    first: NonNegativeInt
    rows: NonNegativeInt
    bytes: NonNegativeInt
    sha256: str
    empty: NonNegativeInt = 0
    failed: NonNegativeInt = 0
    cut: NonNegativeInt = 0
    cut_rows: tuple[int, ...] = ()
    failures: tuple[tuple[int, str], ...] = ()


class Manifest(StrictModel):
    """The record of a job: its inputs and settings, and the finished parts.

    Attributes:
        format: version of this record.
        kind: command that started the job.
        uwaga: version of uwaga that runs the job.
        settings: the options that affect the result.
        models: the models, in the order in which they were named.
        input: the input.
        part_rows: maximum number of rows of a part; see :func:`part_sizes`.
        finished: whether all parts are written.
        damaged: the unreadable file that stopped the job; it may be repaired, replaced or removed.
        skipped: files that could not be read to their end, if the job skips them.
        parts: finished parts by file name.
    """

    format: Literal[1] = 1
    kind: JobKind
    uwaga: str
    settings: dict[str, Setting] = Field(default_factory=dict)
    models: tuple[StoredModel, ...]
    input: InputRecord
    part_rows: PositiveInt
    finished: bool = False
    damaged: DamagedFile | None = None
    skipped: tuple[SkippedFile, ...] = ()
    parts: dict[str, PartRecord] = Field(default_factory=dict)

    def total(self, count: Literal["rows", "empty", "failed", "cut", "bytes"]) -> int:
        """Return the sum of a count over all finished parts."""
        return sum(int(getattr(part, count)) for part in self.parts.values())

    def identity(self) -> Mapping[str, Any]:
        """Return the values that must not change when a job is resumed: all except progress and names.

        Files and models may have been moved or renamed; their checksums identify them.
        """
        values = self.model_dump(mode="json", exclude={"parts", "finished", "damaged", "skipped"})
        del values["input"]["name"]
        values["models"] = [model["sha256"] for model in values["models"]]
        return values


class DamagedInputError(DataError):
    """A file of the input cannot be read as its format; ``damaged`` identifies it."""

    def __init__(self, error: DataError, damaged: DamagedFile) -> None:
        super().__init__(
            f"{error}. All rows before the damage are translated: repair, replace or remove the file, then "
            "run the same command to resume; or add --on-error skip"
        )
        self.damaged = damaged


def part_sizes(part_number: int, maximum: int) -> Iterator[int]:
    """Yield the number of rows of each part, starting with part ``part_number``.

    The numbers double from :data:`FIRST_PART_ROWS` to ``maximum``, so that the first results are soon stored
    and shown.
    """
    while True:
        yield min(maximum, FIRST_PART_ROWS << min(part_number, 30))
        part_number += 1


class Position(NamedTuple):
    """Start of a part: its number, and the indices of its input file and of its first row in that file."""

    number: int = 0
    file: int = 0
    row: int = 0


class Block(NamedTuple):
    """The rows of one part as read.

    ``progress`` is the share of the input that has been read at the end of these rows; ``content`` is used
    only by the front end.
    """

    position: Position
    rows: int
    task: Task
    progress: float
    content: Any


class EncodedPart(NamedTuple):
    """A part in the format of the job.

    Attributes:
        content: the bytes of the part.
        empty: number of empty texts.
        cut: the rows of truncated translations.
        failures: row and reason of each failed text.
    """

    content: bytes
    empty: int
    cut: list[int]
    failures: list[tuple[int, str]]


class JobProgress(Protocol):
    """A receiver of the progress of a job."""

    def start(self, rows: int, share: float, total: int | None) -> None:
        """Start reporting; an earlier run finished ``rows`` rows, a ``share`` of the input.

        ``total`` is the number of rows of the input; None if unknown.
        """
        ...

    def finish_part(self, name: str, record: PartRecord, share: float) -> None:
        """Report a written part, after which ``share`` of the input is finished."""
        ...


class Job(ABC):
    """A job: its target, the specification of its workers, and its manifest before the first part.

    Args:
        target: folder or object store of the parts.
        spec: how the workers translate.
        kind: the command that starts the job.
        settings: options besides those of ``spec`` that affect the result.
        source: identifies the input.
        part_rows: maximum number of rows of a part.
    """

    suffix: str
    """The file name suffix of the parts."""

    def __init__(
        self,
        target: FileStore,
        spec: TranslationSpec,
        kind: JobKind,
        settings: dict[str, Setting],
        source: InputRecord,
        part_rows: int,
    ) -> None:
        self.target, self.spec = target, spec
        self.skipped: dict[int, SkippedFile] = {}
        self.fingerprint = worker_fingerprint(spec)
        self.manifest = Manifest(
            kind=kind,
            uwaga=self.fingerprint.uwaga,
            settings={**settings, **spec.settings()},
            models=tuple(
                StoredModel(name=name, sha256=sha256)
                for (name, _), sha256 in zip(
                    spec.select_models().locations(), self.fingerprint.models, strict=True
                )
            ),
            input=source,
            part_rows=part_rows,
        )

    @abstractmethod
    def read(self, start: Position) -> Iterator[Block]:
        """Yield the blocks of the input, starting with the block at a position."""

    @abstractmethod
    def encode(self, block: Block, translated_texts: list[TranslatedText]) -> EncodedPart:
        """Return the part for a block, given the translations of the texts in its task."""

    @abstractmethod
    def share_before(self, start: Position) -> float:
        """Return the share of the input before a position."""

    def check_unchanged(self) -> None:  # noqa: B027 (an input that is read once needs no check)
        """Raise an error if the input changed while it was read."""

    def with_repairs(self, started_manifest: Manifest) -> Manifest:
        """Return a started job's manifest without the parts of a damaged file that has been repaired."""
        return started_manifest

    def part_name(self, part_number: int) -> str:
        """Return the name of a part: ``part-00000.parquet``."""
        return f"part-{part_number:05d}{self.suffix}"


@dataclass
class _State:
    """A job in progress.

    Attributes:
        manifest: the manifest as last written.
        parts: the records of the finished parts, by file name.
        save_time: monotonic time at which the manifest was last written.
        save_seconds: number of seconds that writing the manifest took.
    """

    manifest: Manifest
    parts: dict[str, PartRecord] = field(default_factory=dict)
    save_time: float = 0.0
    save_seconds: float = 0.0


def run_job(job: Job, workers: Workers, progress: JobProgress) -> Manifest:
    """Write the missing parts and return the manifest of the complete job.

    Args:
        job: from :func:`uwaga_corpora.jobs.table.batch_job`, :func:`uwaga_corpora.jobs.corpus.distil_job` or
            :func:`uwaga_corpora.jobs.corpus.backtranslate_job`.
        workers: started only if texts remain to be translated.
        progress: receives the progress.
    """
    with _lock(job.target):
        state = _load_state(job)
        start = _first_missing_position(job, state.parts)
        progress.start(state.manifest.total("rows"), job.share_before(start), job.manifest.input.lines)
        if state.manifest.finished:
            return state.manifest
        try:
            _write_missing(job, state, start, workers, progress)
            job.check_unchanged()
            _save(job, state, is_finished=True)
        except BaseException as error:
            if isinstance(error, DamagedInputError):
                state.manifest = state.manifest.model_copy(update={"damaged": error.damaged})
            if state.parts:  # a job that failed before its first part leaves nothing
                with contextlib.suppress(Exception):  # report the first error
                    _save(job, state)
            raise
        return state.manifest


def read_manifest(target: FileStore) -> Manifest | None:
    """Return the manifest of a target, or None if the target is empty."""
    names = [file.name for file in target.files() if not file.name.startswith(".") and file.name != LOCK_NAME]
    if not names:
        return None
    if MANIFEST not in names:
        raise DataError(
            f"{target.name}: not the folder of a job: it holds {names[0]} but no {MANIFEST}; choose a new one"
        )
    path, remedy = f"{target.name}/{MANIFEST}", "delete the folder to start over, or choose another one"
    with target.open(MANIFEST) as file:
        content = file.read(MAX_MANIFEST_BYTES)
    try:
        values = json.loads(content)
    except (ValueError, RecursionError):
        raise DataError(f"{path}: damaged (not JSON); {remedy}") from None
    if not isinstance(values, dict) or values.get("format") != 1:
        version = values.get("format") if isinstance(values, dict) else None
        raise DataError(f"{path}: format {quoted(version)}, not 1; {remedy}")
    try:
        return parse(Manifest, values, path)
    except SettingsError as error:
        raise DataError(f"{error}; {remedy}") from None


def _lock(target: FileStore) -> contextlib.AbstractContextManager[object]:
    """Return a lock on a local folder, or a context manager without effect for an object store."""
    if not isinstance(target, LocalStore):
        return contextlib.nullcontext()
    if target.path.exists() and not target.path.is_dir():
        raise DataError(f"{target.name}: this is a file; give a folder for the parts")
    try:
        target.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{target.name}: cannot be written: {error.strerror}") from None
    return RunLock(target.path, "writing parts", "another output folder")


def _load_state(job: Job) -> _State:
    """Return the state recorded in the target's manifest, or a new state."""
    sizes = {file.name: file.size for file in job.target.files()}
    started_manifest = read_manifest(job.target)
    if started_manifest is None or not (started_manifest.parts or any(map(PART_NAME.fullmatch, sizes))):
        return _State(job.manifest)  # ignore a job that failed before its first part
    recorded_manifest, started_manifest = started_manifest, job.with_repairs(started_manifest)
    check_same_job(
        job.target.name,
        started_manifest.identity(),
        job.manifest.identity(),
        "choose another folder or delete this one",
    )
    if started_manifest is not recorded_manifest:  # a repaired file may give fewer parts than before
        for name in [
            name for name in sizes if PART_NAME.fullmatch(name) and name not in started_manifest.parts
        ]:
            job.target.remove(name)
            del sizes[name]
    job.skipped = {skipped.file: skipped for skipped in started_manifest.skipped}
    parts = {name: record for name, record in started_manifest.parts.items() if name in sizes}
    _check_parts(job.target, parts, sizes)
    is_finished = started_manifest.finished and len(parts) == len(started_manifest.parts)
    return _State(started_manifest.model_copy(update={"parts": parts, "finished": is_finished}), parts)


def _check_parts(target: FileStore, parts: Mapping[str, PartRecord], sizes: Mapping[str, int]) -> None:
    """Check that parts have not changed since they were written; in an object store, by their size only."""
    for name, record in parts.items():
        is_changed = not PART_NAME.fullmatch(name) or sizes[name] != record.bytes
        if not is_changed and isinstance(target, LocalStore):
            with target.open(name) as file:
                is_changed = hashlib.file_digest(file, "sha256").hexdigest() != record.sha256
        if is_changed:
            raise DataError(
                f"{target.name}/{name}: the part changed since it was written; delete it and run the same "
                "command to translate its rows again"
            )


def _first_missing_position(job: Job, parts: Mapping[str, PartRecord]) -> Position:
    """Return the position of the first missing part."""
    position = Position()
    while (part := parts.get(job.part_name(position.number))) is not None:
        position = Position(position.number + 1, part.file, part.first + part.rows)
    return position


def _write_missing(job: Job, state: _State, start: Position, workers: Workers, progress: JobProgress) -> None:
    """Write all missing parts from a position on; if reading fails, first write the blocks that were read."""
    pool: WorkerPool | None = None
    in_flight: dict[int, Block] = {}
    read_error: DataError | None = None
    try:
        try:
            for block in job.read(start):
                part_number = block.position.number
                if job.part_name(part_number) in state.parts:
                    continue
                if not block.task.texts:
                    _write_part(job, state, block, [], progress)
                    continue
                pool = pool or workers.pool(job.spec, job.fingerprint)
                while len(in_flight) >= BLOCKS_PER_WORKER * pool.count:
                    _write_result(job, state, in_flight, pool.get_result(), progress)
                in_flight[part_number] = block
                pool.put(block.task)
        except DataError as error:
            read_error = error
        while pool is not None and in_flight:
            _write_result(job, state, in_flight, pool.get_result(), progress)
    finally:
        if pool is not None:
            pool.close()
    if read_error is not None:
        raise read_error


def _write_result(
    job: Job, state: _State, in_flight: dict[int, Block], result: TaskResult, progress: JobProgress
) -> None:
    """Write the part of a translated block; if two workers translated the block, write it only once."""
    block = in_flight.pop(result.number, None)
    if block is not None:
        _write_part(job, state, block, result.translations, progress)


def _write_part(
    job: Job, state: _State, block: Block, translated_texts: list[TranslatedText], progress: JobProgress
) -> None:
    part, name = job.encode(block, translated_texts), job.part_name(block.position.number)
    _check_replaceable(job.target, name)
    if not state.parts:
        _save(job, state)  # marks the folder as this job's
    job.target.write(name, part.content)
    record = PartRecord(
        file=block.position.file,
        first=block.position.row,
        rows=block.rows,
        bytes=len(part.content),
        sha256=hashlib.sha256(part.content).hexdigest(),
        empty=part.empty,
        failed=len(part.failures),
        cut=len(part.cut),
        cut_rows=tuple(part.cut[:MAX_LISTED_FAILURES]),
        failures=tuple(part.failures[:MAX_LISTED_FAILURES]),
    )
    state.parts[name] = record
    if time.monotonic() - state.save_time > max(1.0, SAVE_INTERVAL * state.save_seconds):
        _save(job, state)
    progress.finish_part(name, record, block.progress)


def _check_replaceable(target: FileStore, name: str) -> None:
    if isinstance(target, LocalStore):
        path = target.path / name
        if path.exists() and not path.is_file():
            raise DataError(f"{path}: not a regular file; delete it, and the next run writes it again")


def _save(job: Job, state: _State, is_finished: bool = False) -> None:
    """Write the manifest atomically."""
    start = time.monotonic()
    parts = dict(sorted(state.parts.items(), key=lambda item: (len(item[0]), item[0])))
    damaged = None if is_finished else state.manifest.damaged
    state.manifest = state.manifest.model_copy(
        update={
            "parts": parts,
            "finished": is_finished,
            "damaged": damaged,
            "skipped": tuple(job.skipped.values()),
        }
    )
    job.target.write(MANIFEST, (state.manifest.model_dump_json(indent=1) + "\n").encode())
    state.save_time = time.monotonic()
    state.save_seconds = state.save_time - start

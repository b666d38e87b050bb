"""A job over a lake: every row that goes in comes out once, in parts that a stopped job goes on with.

A part holds the rows of one block of one file, in order; what is in it depends on them, the models and the
settings alone. It takes its name when it is whole, so that a job that was killed, or lost workers on the way,
ends with the same bytes as one that did not.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from uwaga.errors import DataError, SettingsError
from uwaga.files.lock import RunLock
from uwaga.files.store import FileStore, LocalStore, StoredFile, StoreRefusedError, open_store
from uwaga.jobs.corpora.manifest import StoredModel
from uwaga.jobs.tables.formats import find_format, is_named
from uwaga.jobs.tables.manifest import (
    BatchInput,
    BatchManifest,
    DamagedFile,
    PartRecord,
    check_same_job,
    listing_sum,
    part_name,
    read_manifest,
    with_mended,
)
from uwaga.jobs.tables.pool import Done, WorkerPool
from uwaga.jobs.tables.rows import (
    BlockLimit,
    BlockRows,
    Columns,
    RowFormat,
    SourceFile,
    TextColumn,
    TranslatedCell,
)
from uwaga.jobs.tables.work import Identity, Task, Work, identity
from uwaga.jobs.tables.workers import Workers
from uwaga.languages.detection import AUTO

IN_HAND = 2
"""Blocks in memory a worker: one that it works on, and one that waits for it."""
LISTED_FAILURES = 20
"""Texts of a part whose failure its record names; the others are counted."""
BLOCK_BYTES = 1 << 24
"""Bytes of rows after which a part ends, however few they are."""
RECORD_SHARE = 50
"""The record is written again after so many times as long as that took, at the soonest."""


class DamagedInputError(DataError):
    """A file of the input, the one of the index ``file``, cannot be read as what it should be."""

    def __init__(self, error: DataError, file: int) -> None:
        super().__init__(
            f"{error}. The rows before it are done: mend this file, and the same command goes on"
        )
        self.file = file


class BatchProgress(Protocol):
    """What a job tells on its way."""

    def begin(self, rows: int, total: int, done: float) -> None:
        """So many rows, and of all bytes so many, were done before."""
        ...

    def advance(self, rows: int, done: float) -> None:
        """So many rows more are done; of all bytes so many."""
        ...


@dataclass(frozen=True)
class BatchJob:
    """What is to be done.

    Attributes:
        source, target: the places.
        format: of both.
        files: of the input, by name.
        columns: what is translated, and what is written of it.
        part_rows: rows of a part, at most.
        work: what each worker does.
        manifest: the record of the job before its first part.
        part_bytes: bytes of rows after which a part ends.
    """

    source: FileStore
    target: FileStore
    format: RowFormat
    files: tuple[StoredFile, ...]
    columns: Columns
    part_rows: int
    work: Work
    manifest: BatchManifest
    own: Identity
    part_bytes: int = BLOCK_BYTES


class Place(NamedTuple):
    """Where the next block begins: its number, its file's index, and its first row's in that file."""

    number: int = 0
    file: int = 0
    row: int = 0


class RowBlock(NamedTuple):
    """The rows of a part, and where they are."""

    place: Place
    rows: BlockRows


@dataclass
class _State:
    """A job on its way."""

    manifest: BatchManifest
    parts: dict[str, PartRecord] = field(default_factory=dict)
    written: float = 0.0
    pause: float = 0.0


def batch_job(
    source: str,
    target: str,
    work: Work,
    columns: Columns,
    *,
    format_name: str | None = None,
    part_rows: int = 10_000,
) -> BatchJob:
    """A job that translates columns of all rows of a place into parts in another.

    Args:
        source: a file, a folder or a URL.
        target: a folder or a URL, new or of the same job.
        work: how to translate.
        columns: none of them for plain text.
        format_name: ``parquet``, ``jsonl`` or ``text``; None for what the names of files say.
        part_rows: rows of a part, at most.

    Raises:
        DataError: nothing is there to read, or it lacks a column.
        SettingsError: one place is in the other, or columns are asked for of what has none.
        ModelError: there is no such model.
        MissingExtraError: what is needed is not installed.
    """
    if work.models.load.source_language == AUTO:
        raise SettingsError("a lake may hold several languages: name that of its texts with --from, not auto")
    reads, writes = open_store(source), open_store(target)
    if reads.contains(writes) or writes.contains(reads):
        raise SettingsError(
            f"{writes.name} and {reads.name}: one is in the other; write the parts to another folder"
        )
    if isinstance(writes, LocalStore) and writes.path.exists() and not writes.path.is_dir():
        raise DataError(f"{writes.name}: a file; OUT is the folder for the parts")
    format_, files = find_format(reads.name, reads.files(), format_name)
    wanted = _columns_of(format_, columns)
    format_.check(_source_file(reads, files[0]), wanted)
    own = identity(work)
    manifest = _manifest(work, own, wanted, part_rows, (reads.name, format_.name, files))
    return BatchJob(reads, writes, format_, tuple(files), wanted, part_rows, work, manifest, own)


def _manifest(
    work: Work, own: Identity, wanted: Columns, part_rows: int, read: tuple[str, str, list[StoredFile]]
) -> BatchManifest:
    """The record of a job before its first part; ``read``: the input's name, its format and its files."""
    name, kind, files = read
    return BatchManifest(
        uwaga=own.uwaga,
        settings={
            **work.models.settings(),
            **own.beside,
            "glossary_mode": None if work.glossary is None else work.glossary_mode,
            "via": " ".join(work.via) or None,
            "columns": tuple(f"{one.source}={one.target}" for one in wanted.columns),
            "score": wanted.score,
            "alignment": wanted.alignment,
            "part_rows": part_rows,
        },
        models=tuple(
            StoredModel(name=name, sha256=sha256)
            for (name, _), sha256 in zip(work.places(), own.models, strict=True)
        ),
        input=BatchInput(
            name=name,
            format=kind,
            files=len(files),
            bytes=sum(one.size for one in files),
            sha256=listing_sum(files),
        ),
    )


def run_batch(job: BatchJob, workers: Workers, progress: BatchProgress) -> BatchManifest:
    """Write the parts that are not yet there; returns the record of the whole.

    Args:
        job: from :func:`batch_job`.
        workers: begun only if there is something left to do.
        progress: is told how far it is.

    Raises:
        SettingsError: the folder's job is another: names the key.
        DataError: the folder is no job's, or a file cannot be read or written. The parts that are done stay.
        DamagedInputError: a file is not whole, or not of its format; what was read before it is translated.
        RunInUseError: another process works in the local folder.
        UwagaError: no worker can do the work.
    """
    with _locked(job.target):
        state = _begun(job)
        start = _next(job, state.parts)
        total = job.manifest.input.bytes
        progress.begin(state.manifest.total("rows"), total, _bytes_before(job, start.file))
        if state.manifest.finished:
            return state.manifest
        state.manifest.write(job.target)
        try:
            _work(job, state, start, workers, progress)
            _check_still(job)
            _record(job, state, finished=True)
        except BaseException as error:
            if isinstance(error, DamagedInputError):
                damaged = DamagedFile.of(job.files, error.file)
                state.manifest = state.manifest.model_copy(update={"damaged": damaged})
            with contextlib.suppress(Exception):  # what went wrong first is what is told
                _record(job, state)
            raise
        return state.manifest


def _work(job: BatchJob, state: _State, start: Place, workers: Workers, progress: BatchProgress) -> None:
    """Write all parts from a place on that are not there."""
    pool: WorkerPool | None = None
    in_hand: dict[int, RowBlock] = {}
    damage: DamagedInputError | None = None
    try:
        try:
            for block in read_blocks(job, start):
                if part_name(block.place.number, job.format.ending) in state.parts:
                    continue
                task = _task(block)
                if not task.texts:
                    _finish(job, state, {block.place.number: block}, Done(task.number, []), progress)
                    continue
                pool = pool or workers.pool(job.work, job.own)
                while len(in_hand) >= IN_HAND * pool.count:
                    _finish(job, state, in_hand, pool.take(), progress)
                in_hand[block.place.number] = block
                pool.put(task)
        except DamagedInputError as error:
            damage = error
        while pool is not None and in_hand:
            _finish(job, state, in_hand, pool.take(), progress)
    finally:
        if pool is not None:
            pool.close()
    if damage is not None:
        raise damage


def read_blocks(job: BatchJob, start: Place) -> Iterator[RowBlock]:
    """The blocks of all files from a place on, where a block begins.

    Raises:
        DamagedInputError: a file cannot be read, or lacks a column.
        StoreRefusedError: the object store does not answer.
    """
    number, first_file, first_row = start
    for at in range(first_file, len(job.files)):
        file = _source_file(job.source, job.files[at])
        first = first_row if at == first_file else 0
        limit = BlockLimit(job.part_rows, job.part_bytes)
        try:
            for rows in job.format.read(file, job.columns, first, limit):
                yield RowBlock(Place(number, at, rows.first), rows)
                number += 1
        except StoreRefusedError:
            raise
        except DataError as error:
            raise DamagedInputError(error, at) from None


def _columns_of(format_: RowFormat, columns: Columns) -> Columns:
    """The columns, where a text has its one.

    Raises:
        SettingsError: a text is asked for columns, or rows are not asked for any.
    """
    if format_.name != "text":
        if not columns.columns:
            raise SettingsError(f"{format_.name} has columns: say which to translate, with --column NAME")
        columns.names()
        return columns
    if columns.columns or columns.score or columns.alignment:
        raise SettingsError(
            "plain text has lines alone: leave out --column, --score and --alignment, or give JSON Lines"
        )
    return Columns((TextColumn("line", "translation"),))


def _source_file(store: FileStore, file: StoredFile) -> SourceFile:
    name = store.name if is_named(store.name, file) else f"{store.name}/{file.name}"
    return SourceFile(name, file.size, lambda: store.open(file.name))


def _locked(target: FileStore) -> contextlib.AbstractContextManager[object]:
    """The lock of a local folder; between those who write to one place in an object store there is none."""
    if not isinstance(target, LocalStore):
        return contextlib.nullcontext()
    try:
        target.path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"{target.name}: cannot be written: {error.strerror}") from None
    return RunLock(target.path, "writes parts", "another OUT")


def _begun(job: BatchJob) -> _State:
    """The record in the folder, with the parts that are really there; or a new one."""
    there = {one.name: one.size for one in job.target.files()}
    begun = read_manifest(job.target, [StoredFile(*one) for one in there.items()])
    if begun is None or not (begun.parts or any(name.startswith("part-") for name in there)):
        return _State(job.manifest)  # one that ended before its first part binds nobody
    before, begun = begun, with_mended(begun, job.manifest, job.files)
    check_same_job(job.target.name, begun, job.manifest)
    if begun is not before:  # it may become fewer parts than it was
        for name in there:
            if name.startswith("part-") and name not in begun.parts:
                job.target.remove(name)
    parts = {name: one for name, one in begun.parts.items() if there.get(name) == one.bytes}
    whole = begun.finished and len(parts) == len(begun.parts)
    return _State(begun.model_copy(update={"parts": parts, "finished": whole}), parts)


def _next(job: BatchJob, parts: dict[str, PartRecord]) -> Place:
    """Where the first block begins that has no part."""
    place = Place()
    while (done := parts.get(part_name(place.number, job.format.ending))) is not None:
        place = Place(place.number + 1, done.file, done.first + done.rows)
    return place


def _bytes_before(job: BatchJob, file: int) -> float:
    return float(sum(one.size for one in job.files[:file]))


def _task(block: RowBlock) -> Task:
    """What is to be translated of a block, column by column."""
    rows, texts = [], []
    for column in block.rows.texts:
        for at, text in enumerate(column):
            if text:
                rows.append(block.rows.first + at + 1)
                texts.append(text)
    return Task(block.place.number, rows, texts)


def _cells(rows: BlockRows, made: list[TranslatedCell]) -> list[list[TranslatedCell]]:
    """(columns, rows) what became of each cell; null and empty ones stay so."""
    left = iter(made)
    cells = [[next(left) if text else TranslatedCell(text) for text in column] for column in rows.texts]
    for (column, row), why in rows.faults.items():
        cells[column][row] = TranslatedCell(None, error=why)
    return cells


def _finish(
    job: BatchJob, state: _State, in_hand: dict[int, RowBlock], done: Done, progress: BatchProgress
) -> None:
    """Write the part of a block that is done, unless it was done twice."""
    block = in_hand.pop(done.number, None)
    if block is None:
        return
    place, rows = block
    cells = _cells(rows, done.cells)
    content = job.format.write(rows, job.columns, cells)
    name = part_name(place.number, job.format.ending)
    job.target.write(name, content)
    failures = [
        (rows.first + at + 1, cell.error) for column in cells for at, cell in enumerate(column) if cell.error
    ]
    every = [cell for column in cells for cell in column]
    state.parts[name] = PartRecord(
        file=place.file,
        first=rows.first,
        rows=rows.count,
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        empty=sum(not text for column in rows.texts for text in column) - len(rows.faults),
        failed=len(failures),
        cut=sum(cell.cut for cell in every),
        failures=tuple(failures[:LISTED_FAILURES]),
    )
    if time.monotonic() - state.written > max(1.0, RECORD_SHARE * state.pause):
        _record(job, state)
    progress.advance(rows.count, _bytes_before(job, place.file) + rows.share * job.files[place.file].size)


def _record(job: BatchJob, state: _State, finished: bool = False) -> None:
    started = time.monotonic()
    parts = dict(sorted(state.parts.items(), key=lambda one: (len(one[0]), one[0])))
    damaged = None if finished else state.manifest.damaged
    now = {"parts": parts, "finished": finished, "damaged": damaged}
    state.manifest = state.manifest.model_copy(update=now)
    state.manifest.write(job.target)
    state.written = time.monotonic()
    state.pause = state.written - started


def _check_still(job: BatchJob) -> None:
    """Refuse an input whose files are others than at the beginning."""
    now = {one.name: one.size for one in job.source.files()}
    for one in job.files:
        if now.get(one.name) != one.size:
            raise DataError(
                f"{job.source.name}/{one.name}: changed while it was read; begin again in a new folder"
            )

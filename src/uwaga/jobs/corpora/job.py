"""A job over the lines of a corpus, in shards: it goes on where it was stopped, with the same result.

Line n of the shards, joined, is line n of the input, whatever happens to it. A shard takes its name when it
is whole; what is in it depends on its lines, the models and the settings alone, so that a job that was
killed and goes on ends with the same bytes as one that was not.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

from uwaga.errors import DataError, SettingsError, shown
from uwaga.files.atomic import new_file
from uwaga.files.lines import check_compression, compressed
from uwaga.files.lock import LOCK, RunLock
from uwaga.jobs.corpora.lines import JobInput, JobLine
from uwaga.jobs.corpora.manifest import (
    MANIFEST,
    Manifest,
    ShardRecord,
    check_same_job,
    read_manifest,
)

LISTED_FAILURES = 100
"""Lines of a shard whose failure its record names; the others are counted."""
_BREAKS = str.maketrans("\t\n\r", "   ")


class Made(NamedTuple):
    """What became of a line: the pair that is written, why there is none, and whether a limit cut it."""

    source: str
    target: str
    failure: str | None = None
    cut: bool = False


class JobProgress(Protocol):
    """What a job tells on its way."""

    def begin(self, done: int, total: int) -> None:
        """So many lines of all were done before."""
        ...

    def advance(self, lines: int) -> None:
        """So many lines more are done."""
        ...

    def fail(self, line: JobLine, why: str) -> None:
        """A line could not be worked on."""
        ...

    def finish_shard(self, name: str, record: ShardRecord) -> None:
        """A shard has been written."""
        ...


class Worker(Protocol):
    """What makes pairs of lines. What a line becomes must not depend on the lines it comes with."""

    def __call__(self, lines: Sequence[JobLine], advance: Callable[[int], None]) -> list[Made]:
        """Work on the lines of a shard, and say how many are done."""
        ...


@dataclass(frozen=True)
class Job:
    """What is to be done: ``manifest`` is the record of the job before its first shard.

    ``load`` makes the worker, and is called only if there is something left to do.
    """

    folder: Path
    input: JobInput
    manifest: Manifest
    load: Callable[[], Worker]


def run_job(job: Job, progress: JobProgress) -> Manifest:
    """Write the shards that are not yet there; returns the record of the whole.

    Raises:
        SettingsError: the folder's job is another: names the key.
        DataError: the folder is no job's, a shard in it was changed, the input is another than a moment ago,
            or a file cannot be read or written. The shards that are done stay.
        RunInUseError: another process works in the folder.
        ModelError: a model cannot be loaded, or its numbers are none.
    """
    _check_folder(job.folder)
    job.folder.mkdir(parents=True, exist_ok=True)
    with RunLock(job.folder, "writes shards", "--output"):
        manifest = _begun(job)
        progress.begin(manifest.total("lines"), manifest.input.lines)
        left = [name for name in manifest.shard_names if name not in manifest.shards]
        if not left:
            return manifest
        work = job.load()
        manifest.write(job.folder)  # now that nothing speaks against the settings
        lines = job.input.read()
        for name in manifest.shard_names:
            shard = list(islice(lines, manifest.shard_size))
            if name in manifest.shards:
                continue
            _check_still(shard, name, manifest, job.input)
            record = _write_shard(job.folder / name, shard, work, progress)
            shards = {**manifest.shards, name: record}
            manifest = manifest.model_copy(update={"shards": dict(sorted(shards.items()))})
            manifest.write(job.folder)
            progress.finish_shard(name, record)
        return manifest


def check_joined(job: Job, path: Path) -> None:
    """Refuse to join the shards of a job into a file that it needs.

    Raises:
        SettingsError: it is the input, or lies in the folder of the job.
        DataError: its folder is not there.
        MissingExtraError: its name ends in .zst, and zstandard is not installed.
    """
    place = path.resolve()
    if place in [Path(one).resolve() for one in job.input.files]:
        raise SettingsError(f"{path} is the input: join the shards into another file")
    if place.is_relative_to(job.folder.resolve()):
        raise SettingsError(f"{path} lies among the shards: join them into a file outside {job.folder}")
    if not place.parent.is_dir():
        raise DataError(f"{path}: cannot be written: there is no folder {place.parent}")
    check_compression(path)


def join_shards(folder: Path, manifest: Manifest, path: Path) -> None:
    """Write all shards of a finished job into one file; ``.gz``, ``.zst`` and ``.xz`` compress it.

    Raises:
        DataError: a shard cannot be read, or the file not be written.
        MissingExtraError: its name ends in .zst, and zstandard is not installed.
    """
    check_compression(path)
    with new_file(path) as file, compressed(path, file) as packed:
        for name in manifest.shard_names:
            try:
                with gzip.open(folder / name, "rb") as shard:
                    shutil.copyfileobj(shard, packed, 1 << 20)
            except (EOFError, zlib.error, gzip.BadGzipFile, FileNotFoundError) as error:
                raise DataError(
                    f"{folder / name}: cannot be read ({error}); delete it and run the job again"
                ) from None


def _check_still(shard: Sequence[JobLine], name: str, manifest: Manifest, source: JobInput) -> None:
    """Refuse an input that has become shorter since it was looked through."""
    last = name == manifest.shard_names[-1]
    whole = manifest.input.lines - (len(manifest.shard_names) - 1) * manifest.shard_size
    if len(shard) != (whole if last else manifest.shard_size):
        raise DataError(f"{' + '.join(source.files)}: changed while it was read; run the job again")


def _check_folder(folder: Path) -> None:
    """Refuse to write among files that are none of a job's."""
    if folder.exists() and not folder.is_dir():
        raise DataError(f"{folder}: a file; --output names the folder for the shards")
    if folder.is_dir() and not (folder / MANIFEST).exists():
        others = sorted(
            one.name for one in folder.iterdir() if one.name != LOCK and not one.name.startswith(".")
        )
        if others:
            raise DataError(
                f"{folder}: no job's folder: it holds {others[0]} and no {MANIFEST}; choose a new one"
            )


def _begun(job: Job) -> Manifest:
    """The record in the folder, of the same job, with the shards that are really there; or a new one."""
    begun = read_manifest(job.folder)
    if begun is None:
        return job.manifest
    check_same_job(job.folder, begun, job.manifest)
    there = {}
    for name in begun.shards.keys() - set(begun.shard_names):
        raise DataError(f"{job.folder / MANIFEST}: names {shown(name)}, no shard of this job; take it out")
    for name, record in begun.shards.items():
        path = job.folder / name
        if not path.exists():
            continue  # it is made again
        if not path.is_file():
            raise DataError(f"{path}: no regular file; delete it, and it is made again")
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != record.sha256:
                raise DataError(f"{path}: not as it was written; delete it, and it is made again")
        there[name] = record
    return begun.model_copy(update={"shards": there})


def _write_shard(path: Path, lines: Sequence[JobLine], work: Worker, progress: JobProgress) -> ShardRecord:
    made = work(lines, progress.advance)
    failures = []
    with new_file(path) as file, compressed(path, file) as packed:
        for line, one in zip(lines, made, strict=True):
            if one.failure is not None:
                failures.append((line.number, one.failure))
                progress.fail(line, one.failure)
            packed.write(f"{one.source.translate(_BREAKS)}\t{one.target.translate(_BREAKS)}\n".encode())
    with path.open("rb") as written:
        digest = hashlib.file_digest(written, "sha256").hexdigest()
    return ShardRecord(
        lines=len(lines),
        sha256=digest,
        empty=sum(1 for line in lines if line.fault is None and not line.text.strip()),
        failed=len(failures),
        cut=sum(one.cut for one in made),
        failures=tuple(failures[:LISTED_FAILURES]),
    )

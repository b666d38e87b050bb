"""Resuming of interrupted jobs: a check that options and inputs are unchanged, and a journal of results.

Trainings are resumed by :mod:`uwaga.training.run`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from uwaga.errors import DataError, RunInUseError, SettingsError, quoted
from uwaga.files.handles import BINARY, NO_FOLLOW, NO_WAIT, try_lock

JOURNAL_FORMAT = 1
MAX_NAME_LENGTH = 200


def check_same_job(target: str, earlier: Mapping[str, Any], current: Mapping[str, Any], remedy: str) -> None:
    """Check that a job is resumed with the options, models and inputs with which it was started.

    Args:
        target: name of the output file or folder.
        earlier: the values recorded when the job was started, as JSON values.
        current: the values of the job to resume.
        remedy: how to start over, for messages.
    """
    earlier_values, current_values = dict(_leaves(earlier)), dict(_leaves(current))
    for key in [*current_values, *earlier_values]:
        earlier_value, current_value = earlier_values.get(key), current_values.get(key)
        if earlier_value != current_value:
            raise SettingsError(
                f"{target}: the job was started with {key} = {quoted(earlier_value)}, but is now requested "
                f"with {quoted(current_value)}; use the same value to resume, or {remedy} to start over"
            )


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield all leaves of nested mappings and lists with their dotted keys."""
    if isinstance(value, list | tuple):
        value = {str(index): child for index, child in enumerate(value)}
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, child in value.items():
        yield from _leaves(child, f"{name}.{key}" if name else key)


def journal_path(target: Path) -> Path:
    """Return the path of the journal of an output file."""
    return target.with_name(f".{target.name[:MAX_NAME_LENGTH]}.journal")


class Journal:
    """A file that stores the finished results for an output file; :func:`open_journal` opens it.

    The first line identifies the job. Each further line contains a checksum of all lines so far and the
    results of a batch, so a line that a killed process left incomplete is detected and removed.

    Attributes:
        path: the path of the journal.
        resumed: number of results of an earlier run.
        count: number of all results.
    """

    def __init__(self, path: Path, file: IO[bytes], resumed: int, checksum: bytes) -> None:
        self.path, self.resumed, self.count = path, resumed, resumed
        self._file, self._checksum = file, checksum
        self._results = _read_results(path, resumed)

    def replay(self, count: int) -> list[Any]:
        """Return up to ``count`` further results of the earlier run."""
        results: list[Any] = []
        while len(results) < count and (result := next(self._results, None)) is not None:
            results.append(result)
        return results

    def add(self, results: Sequence[Any]) -> None:
        """Store results, which are JSON values other than None, and flush them to the disk."""
        body = json.dumps(results, ensure_ascii=True, separators=(",", ":")).encode()
        self._checksum = _checksum(self._checksum, body)
        self._file.write(self._checksum + b" " + body + b"\n")
        self._file.flush()
        self.count += len(results)  # before the slow fsync, during which a signal may arrive
        os.fsync(self._file.fileno())

    def remove(self) -> None:
        """Remove the journal of a finished job."""
        self.path.unlink(missing_ok=True)


@contextlib.contextmanager
def open_journal(target: Path, work: Mapping[str, Any], resume: bool = True) -> Iterator[Journal]:
    """Open the journal of an output file and hold its lock; an empty journal is removed at the end.

    Args:
        target: the output file.
        work: the input and options of the job, as JSON values.
        resume: whether to keep the results of an earlier run.
    """
    path = journal_path(target)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW | NO_WAIT | BINARY, 0o600)
    except OSError as error:
        raise DataError(f"{target}: cannot be written: {error.strerror or error} ({path.name})") from None
    with os.fdopen(handle, "r+b") as file:
        if try_lock(handle) is False:
            raise RunInUseError(
                f"{target}: another process is writing this file; wait for it, or choose another file"
            )
        if not resume:
            file.truncate(0)
        header = json.dumps({"journal": JOURNAL_FORMAT, **work}, sort_keys=True).encode()
        resumed, end, checksum = _scan(file, path, target, json.loads(header))
        if end == 0:
            file.write(header + b"\n")
            end, checksum = file.tell(), _checksum(b"", header)
        file.truncate(end)
        file.seek(end)
        journal = Journal(path, file, resumed, checksum)
        try:
            yield journal
        finally:
            if file.tell() <= len(header) + 1:
                journal.remove()


def _checksum(previous_checksum: bytes, body: bytes) -> bytes:
    return hashlib.sha256(previous_checksum + body).hexdigest()[:16].encode()


def _scan(file: IO[bytes], path: Path, target: Path, header: Mapping[str, Any]) -> tuple[int, int, bytes]:
    """Return the number of results, and the end and the checksum of the last intact line."""
    first_line = file.readline()
    if not first_line.endswith(b"\n"):
        file.seek(0)
        return 0, 0, b""
    try:
        earlier_header = json.loads(first_line)
    except (ValueError, RecursionError):
        earlier_header = None
    if not isinstance(earlier_header, dict) or earlier_header.get("journal") != JOURNAL_FORMAT:
        raise DataError(f"{path}: not a journal written by this version of uwaga; delete it to start over")
    check_same_job(str(target), earlier_header, header, f"delete {path}")
    count, end, checksum = 0, len(first_line), _checksum(b"", first_line[:-1])
    for line in file:
        stored_checksum, _, body = line.rstrip(b"\n").partition(b" ")
        expected_checksum = _checksum(checksum, body)
        if not line.endswith(b"\n") or stored_checksum != expected_checksum:
            break
        count += len(json.loads(body))
        checksum, end = expected_checksum, end + len(line)
    return count, end, checksum


def _read_results(path: Path, count: int) -> Iterator[Any]:
    """Yield the first ``count`` results of a journal, which is read line by line."""
    if not count:
        return
    with path.open("rb") as file:
        file.readline()
        for line in file:
            for result in json.loads(line.partition(b" ")[2]):
                yield result
                count -= 1
            if count <= 0:
                return

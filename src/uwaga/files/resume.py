"""Resuming interrupted work: the check that it is the same, and a journal of finished results."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from uwaga.errors import DataError, RunInUseError, SettingsError, shown
from uwaga.files.handles import BINARY, NO_FOLLOW, NO_WAIT, try_lock

JOURNAL_FORMAT = 1
LONGEST_NAME = 200


def check_same_job(place: str, started: Mapping[str, Any], now: Mapping[str, Any], way_out: str) -> None:
    """Refuse to resume work with other options, models or inputs than it was started with.

    Args:
        place: name of the file or folder that is written.
        started: what was recorded when the work was started, as JSON values.
        now: the same of the work to resume.
        way_out: how to start over, for the message.
    """
    before, after = dict(_leaves(started)), dict(_leaves(now))
    for key in [*after, *before]:
        if before.get(key) != after.get(key):
            raise SettingsError(
                f"{place}: was started with {key} = {shown(before.get(key))}, and is now asked for with "
                f"{shown(after.get(key))}; use the same to resume, or {way_out} to start over"
            )


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield every leaf of nested mappings and lists with its dotted key."""
    if isinstance(value, list | tuple):
        value = {str(index): item for index, item in enumerate(value)}
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, item in value.items():
        yield from _leaves(item, f"{name}.{key}" if name else key)


def journal_path(target: Path) -> Path:
    """Return the path of the journal of a file that is being written."""
    return target.with_name(f".{target.name[:LONGEST_NAME]}.journal")


class Journal:
    """The finished results of a file that is being written; :func:`open_journal` opens it.

    The first line identifies the work. Each further line holds the results of one batch and a checksum of all
    lines before it, so a line that a killed process has left half-written is recognised and cut off.

    Attributes:
        path: the path of the journal.
        done: number of results of an earlier run.
        count: number of all results.
    """

    def __init__(self, path: Path, file: IO[bytes], done: int, checksum: bytes) -> None:
        self.path, self.done, self.count = path, done, done
        self._file, self._checksum = file, checksum
        self._results = _read_results(path, done)

    def replay(self, count: int) -> list[Any]:
        """Return the next results of the earlier run, at most ``count``."""
        results: list[Any] = []
        while len(results) < count and (result := next(self._results, None)) is not None:
            results.append(result)
        return results

    def add(self, results: Sequence[Any]) -> None:
        """Store results, JSON values other than None, so that they outlive this process."""
        body = json.dumps(results, ensure_ascii=True, separators=(",", ":")).encode()
        self._checksum = _checksum(self._checksum, body)
        self._file.write(self._checksum + b" " + body + b"\n")
        self._file.flush()
        self.count += len(results)  # before the slow fsync, during which a signal may arrive
        os.fsync(self._file.fileno())

    def remove(self) -> None:
        """Remove the journal of finished work."""
        self.path.unlink(missing_ok=True)


@contextlib.contextmanager
def open_journal(target: Path, work: Mapping[str, Any], resume: bool = True) -> Iterator[Journal]:
    """Open the journal of a file and hold its lock; an empty journal is removed again at the end.

    Args:
        target: the file to write.
        work: identifies the work: its input and options, as JSON values.
        resume: False discards the results of an earlier run.
    """
    path = journal_path(target)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW | NO_WAIT | BINARY, 0o600)
    except OSError as error:
        raise DataError(f"{target}: cannot be written: {error.strerror or error} ({path.name})") from None
    with os.fdopen(handle, "r+b") as file:
        if try_lock(handle) is False:
            raise RunInUseError(f"{target}: another process writes it; wait, or choose another file")
        if not resume:
            file.truncate(0)
        header = json.dumps({"journal": JOURNAL_FORMAT, **work}, sort_keys=True).encode()
        done, end, checksum = _scan(file, path, target, json.loads(header))
        if end == 0:
            file.write(header + b"\n")
            end, checksum = file.tell(), _checksum(b"", header)
        file.truncate(end)
        file.seek(end)
        journal = Journal(path, file, done, checksum)
        try:
            yield journal
        finally:
            if file.tell() <= len(header) + 1:
                journal.remove()


def _checksum(before: bytes, body: bytes) -> bytes:
    return hashlib.sha256(before + body).hexdigest()[:16].encode()


def _scan(file: IO[bytes], path: Path, target: Path, header: Mapping[str, Any]) -> tuple[int, int, bytes]:
    """Return the number of results, the end of the last intact line, and its checksum."""
    first = file.readline()
    if not first.endswith(b"\n"):
        file.seek(0)
        return 0, 0, b""
    try:
        started = json.loads(first)
    except (ValueError, RecursionError):
        started = None
    if not isinstance(started, dict) or started.get("journal") != JOURNAL_FORMAT:
        raise DataError(f"{path}: not a journal of this version; delete it to start over")
    check_same_job(str(target), started, header, f"delete {path}")
    done, end, checksum = 0, len(first), _checksum(b"", first[:-1])
    for line in file:
        stored, _, body = line.rstrip(b"\n").partition(b" ")
        expected = _checksum(checksum, body)
        if not line.endswith(b"\n") or stored != expected:
            break
        done += len(json.loads(body))
        checksum, end = expected, end + len(line)
    return done, end, checksum


def _read_results(path: Path, count: int) -> Iterator[Any]:
    """Yield the first results of a journal, reading one line at a time."""
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

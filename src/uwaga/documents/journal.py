"""What has been translated of a document so far, kept beside it, so that a long one can go on."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from uwaga.errors import DataError, RunInUseError, SettingsError, shown
from uwaga.files.lock import try_lock
from uwaga.markup import Inline, Tag

VERSION = 1
LONGEST_NAME = 200
KINDS = ("open", "close", "void", "kept")


def journal_of(target: Path) -> Path:
    """Where the journal of a document lies while it is made."""
    return target.with_name(f".{target.name[:LONGEST_NAME]}.journal")


class Journal:
    """An open journal, which nobody else may open meanwhile.

    Each line holds the texts of one batch and the sum of all before it: what a killed process has left
    half-written is cut off.
    """

    def __init__(self, path: Path, file: IO[bytes], done: int, end: int, running: bytes) -> None:
        self.path, self.done = path, done
        self._file, self._start, self._running = file, end, running
        self._texts = _replay(path, done)

    def replay(self, count: int) -> list[Inline]:
        """The next translations of an earlier run, at most ``count``."""
        found = []
        for text in self._texts:
            found.append(text)
            if len(found) == count:
                break
        return found

    def add(self, made: Sequence[Inline]) -> None:
        """Keep some translations, so that they outlive this process."""
        texts = [
            [part if isinstance(part, str) else [part.kind, part.raw, part.text] for part in one]
            for one in made
        ]
        body = json.dumps(texts, ensure_ascii=True, separators=(",", ":")).encode()
        self._running = _sum(self._running, body)
        self._file.write(self._running + b" " + body + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def remove(self) -> None:
        """Remove it: all is done."""
        self.path.unlink(missing_ok=True)


@contextlib.contextmanager
def open_journal(target: Path, job: Mapping[str, Any]) -> Iterator[Journal]:
    """The journal beside a document that is made, begun or gone on with.

    One in which nothing is done is removed again.

    Args:
        target: the document to be.
        job: what is done: the sum of its input under ``input``, and the settings.

    Raises:
        DataError: it cannot be written, or was begun of another input.
        SettingsError: it was begun with other settings: names the first.
        RunInUseError: another process makes this document.
    """
    path = journal_of(target)
    try:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        handle = os.open(path, flags, 0o600)
    except OSError as error:
        raise DataError(f"{target}: cannot be written: {error.strerror or error} ({path.name})") from None
    with os.fdopen(handle, "r+b") as file:
        if not try_lock(handle):
            raise RunInUseError(f"{target}: another process writes it; wait, or name another file")
        header = json.dumps({"journal": VERSION, **job}, sort_keys=True).encode()
        done, end, running = _read(file, path, job, target)
        if end == 0:
            file.write(header + b"\n")
            end = file.tell()
            running = _sum(b"", header)
        file.truncate(end)
        file.seek(end)
        journal = Journal(path, file, done, end, running)
        try:
            yield journal
        finally:
            if file.tell() <= len(header) + 1:
                journal.remove()


def _sum(running: bytes, body: bytes) -> bytes:
    return hashlib.sha256(running + body).hexdigest()[:16].encode()


def _read(file: IO[bytes], path: Path, job: Mapping[str, Any], target: Path) -> tuple[int, int, bytes]:
    """How many texts are done, where the whole lines end, and their sum."""
    first = file.readline()
    if not first.endswith(b"\n"):
        file.seek(0)
        return 0, 0, b""
    _check_same(_header(first, path), job, path, target)
    done, end, running = 0, len(first), _sum(b"", first[:-1])
    for line in file:
        found, _, body = line.rstrip(b"\n").partition(b" ")
        running_then = _sum(running, body)
        if not line.endswith(b"\n") or found != running_then:
            break
        done += len(json.loads(body))
        running, end = running_then, end + len(line)
    return done, end, running


def _header(line: bytes, path: Path) -> Mapping[str, Any]:
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("journal") != VERSION:
        raise DataError(f"{path}: no journal that this version can go on with; delete it to begin anew")
    return header


def _check_same(header: Mapping[str, Any], job: Mapping[str, Any], path: Path, target: Path) -> None:
    if header.get("input") != job.get("input"):
        raise DataError(
            f"{target}: was begun of another input, or the input has changed since; delete {path} to begin "
            "anew"
        )
    wanted = json.loads(json.dumps(dict(job)))
    for key in sorted({*header, *wanted} - {"journal"}):
        if header.get(key) != wanted.get(key):
            raise SettingsError(
                f"{target}: was begun with {key} {shown(header.get(key))}, now it is "
                f"{shown(wanted.get(key))}; say the same, or delete {path} to begin anew"
            )


def _replay(path: Path, done: int) -> Iterator[Inline]:
    """The texts of a journal, a line at a time."""
    left = done
    if not left:
        return
    with path.open("rb") as file:
        file.readline()
        for line in file:
            for parts in json.loads(line.partition(b" ")[2]):
                yield tuple(part if isinstance(part, str) else _tag(part, path) for part in parts)
                left -= 1
            if left <= 0:
                return


def _tag(parts: Any, path: Path) -> Tag:
    kind, raw, text = parts
    if kind not in KINDS:
        raise DataError(f"{path}: damaged; delete it to begin anew")
    return Tag(kind, raw, text)

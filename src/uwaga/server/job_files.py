"""The files of a job's folder: read, written whole or not at all, locked."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uwaga.server.api_errors import NotStoredError, StorageError

DOCUMENT, OUTPUT, ORDER, STATE, LOCK, CANCELLED = (
    "document",
    "output",
    "order.json",
    "state.json",
    "lock",
    "cancelled",
)
NO_DOCUMENT = "there is no such document"


@dataclass(frozen=True)
class JobNotes:
    """What the worker of a job notes: ``attempts`` without getting on from a journal of ``begun`` bytes."""

    done: int = 0
    of: int = 0
    characters: int | None = None
    error: str = ""
    code: str = ""
    since: float = 0.0
    attempts: int = 0
    begun: int = 0


@contextlib.contextmanager
def lock_of(place: Path) -> Iterator[None]:
    """The lock of a job.

    Raises:
        BlockingIOError: another has it.
        FileNotFoundError: there is no such job.
    """
    handle = os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def is_locked(place: Path) -> bool:
    """Whether somebody works on a job.

    Raises:
        FileNotFoundError: there is no such job.
    """
    try:
        with lock_of(place):
            return False
    except BlockingIOError:
        return True


def read_notes(place: Path) -> JobNotes:
    """What the worker of a job has noted last, if anything."""
    try:
        return JobNotes(**read_file(place / STATE))
    except (FileNotFoundError, NotStoredError, TypeError):  # of none, or of another version's worker
        return JobNotes()


def read_file(path: Path) -> dict[str, Any]:
    """What a file holds.

    Raises:
        FileNotFoundError: there is none.
        NotStoredError: it is damaged.
    """
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        raise NotStoredError(NO_DOCUMENT) from None
    return dict(found)


def write_file(path: Path, content: dict[str, Any]) -> None:
    """Write a small file, whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(json.dumps(content), encoding="utf-8")
        os.replace(part, path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def told_of_disk() -> Iterator[None]:
    """Say what the disk does not do, without its paths."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"the server cannot keep documents now: {error.strerror or type(error).__name__}"
        ) from None

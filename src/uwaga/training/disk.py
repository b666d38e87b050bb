"""Writing to a disk that may be full: atomically, and with errors that say how to continue."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from uwaga.errors import CheckpointError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NUMBER = re.compile(r"os error (\d+)")  # in messages of safetensors, which is written in Rust


def explain(error: Exception) -> str:
    """Return why a file could not be written, and what to do."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (found := _NUMBER.search(str(error))):
        number = int(found[1])
    reason = os.strerror(number) if number else str(error)
    if number in FULL:
        return f"{reason}; free some space and rerun the same command to resume"
    if number == errno.ENOENT:
        return (
            f"{reason}: the file was deleted by another program while it was written. Rerun the same command "
            "to resume from the newest checkpoint that is left"
        )
    return f"{reason}; rerun the same command to resume from the newest checkpoint"


@contextlib.contextmanager
def failures_named(run: Path) -> Iterator[None]:
    """Turn an OSError for a file of the run, or for a full disk, into a CheckpointError.

    Raises:
        CheckpointError: names the file or the folder, and what to do.
    """
    try:
        yield
    except OSError as error:
        name = error.filename
        if name is None and error.errno not in FULL:
            raise
        if name is not None and run.resolve() not in Path(os.fsdecode(name)).resolve().parents:
            raise
        place = run if name is None else os.fsdecode(name)
        raise CheckpointError(f"{place}: cannot be written: {explain(error)}") from None


def append(path: Path, content: bytes) -> None:
    """Append ``content`` to a file, all of it or nothing.

    Raises:
        OSError: with the file's name.
    """
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        before = os.fstat(handle).st_size
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(handle, rest) :]
        except OSError as error:
            os.ftruncate(handle, before)
            error.filename = str(path)
            raise
    finally:
        os.close(handle)


def remove_leftovers(run: Path) -> None:
    """Remove partly written files of a killed process; the caller must hold the run's lock."""
    for pattern in ("checkpoints/.*.part", ".*.part", "text/.*.part"):
        for path in run.glob(pattern):
            path.unlink(missing_ok=True)

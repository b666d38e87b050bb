"""Writing while the disk may be full: whole or not at all, and a reason that says the way out."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from uwaga.errors import CheckpointError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NUMBER = re.compile(r"os error (\d+)")  # as safetensors, which is Rust, tells it


def explain(error: Exception) -> str:
    """Why something could not be written, and what to do."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (found := _NUMBER.search(str(error))):
        number = int(found[1])
    reason = os.strerror(number) if number else str(error)
    if number in FULL:
        return f"{reason}; free some space and start the same command again, it goes on where it was"
    if number == errno.ENOENT:
        return (
            f"{reason}: it vanished while it was written; something else deletes files there. The same "
            "command goes on from the newest checkpoint that is left"
        )
    return f"{reason}; the same command goes on from the newest checkpoint"


@contextlib.contextmanager
def failures_named(run: Path) -> Iterator[None]:
    """Turn what the system refuses inside, in the folder of a run or without a name, into one of our errors.

    Raises:
        CheckpointError: names the file or the folder, and the way out.
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
    """Put ``content`` behind what a file holds, all of it or nothing.

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
    """Remove what a killed part of the run has left half-written; the caller holds the run's lock."""
    for pattern in ("checkpoints/.*.part", ".*.part", "text/.*.part"):
        for path in run.glob(pattern):
            path.unlink(missing_ok=True)

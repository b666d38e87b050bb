"""How the command line ends when something goes wrong: one clear line and an exit status."""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import ParamSpec

import typer

from uwaga.errors import MissingExtraError, UwagaError

MISTAKE = 1
INTERRUPTED = 128 + 2  # SIGINT, as shells report it
PIPE_CLOSED = 128 + 13  # SIGPIPE
TERMINATED = 128 + 15  # SIGTERM

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EPERM, errno.ENXIO)

Arguments = ParamSpec("Arguments")


def reported(verb: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """The same verb, but a user's mistake ends it with ``error: ...`` on stderr and no traceback.

    Exit status 1 for a :class:`~uwaga.errors.UwagaError`, for a file the system refuses and for a standard
    output that is closed or full, 130 after Ctrl-C, 141 (and silence) when the reader of a pipe has gone.
    Anything else is a bug in uwaga and keeps its traceback.
    """

    @functools.wraps(verb)
    def run(*arguments: Arguments.args, **options: Arguments.kwargs) -> None:
        try:
            with guarded_output():
                verb(*arguments, **options)
        except UwagaError as error:
            fail(str(error))
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except OSError as error:
            if error.filename is None:
                raise
            fail(f"{error.filename}: {error.strerror}")

    return run


@contextlib.contextmanager
def needing(extra: str, work: str) -> Iterator[None]:
    """What is imported inside, for this ``work``, comes with one of uwaga's extras.

    Raises:
        MissingExtraError: a library is not installed; names it and the extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{work} needs {error.name}, which is not installed: pip install 'uwaga[{extra}]'"
        ) from None


def fail(message: str) -> None:
    """Print ``error: message`` on stderr and leave with status 1.

    Raises:
        typer.Exit: always.
    """
    typer.echo(typer.style("error:", fg="red", bold=True) + " " + message, err=True)
    raise typer.Exit(MISTAKE)


@contextlib.contextmanager
def guarded_output() -> Iterator[None]:
    """What is written inside to a standard output that is closed, full or broken ends it in one clear line.

    Raises:
        typer.Exit: with status 1, or 141 and silence where the reader of a pipe has gone.
    """
    closed = sys.stdout is None
    if closed:
        sys.stdout = ClosedOutput()
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
        raise typer.Exit(PIPE_CLOSED) from None
    except OSError as error:
        # Files are written by functions that name them: what has no name is standard output.
        if error.filename is not None or error.errno not in UNWRITABLE:
            raise
        _drop_output()
        fail(f"standard output cannot be written: {error.strerror}")
    finally:
        if closed:
            sys.stdout = None  # as it was


class ClosedOutput(io.TextIOBase):
    """Stands for a standard output that the process was started without."""

    def writable(self) -> bool:
        """It is, until somebody writes."""
        return True

    def write(self, text: str) -> int:
        """Refuse it.

        Raises:
            OSError: always.
        """
        raise OSError(errno.EBADF, "it is closed")


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Inside, SIGTERM unwinds the stack, so that temporary files are removed, and ends with status 143."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _drop_output() -> None:
    """Let what is still buffered for standard output go nowhere, so that the shutdown stays silent."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)

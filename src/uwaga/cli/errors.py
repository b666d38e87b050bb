"""Reporting of errors on the command line: one line on standard error and an exit status."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import typer

from uwaga.errors import MissingExtraError, UwagaError

USER_ERROR = 1
INTERRUPTED = 128 + 2  # SIGINT, as shells report it
PIPE_CLOSED = 128 + 13  # SIGPIPE
TERMINATED = 128 + 15  # SIGTERM

WRITE_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF, errno.EPERM, errno.ENXIO)


@contextlib.contextmanager
def report_errors() -> Iterator[None]:
    """Report the user errors of a command as ``error: ...`` on stderr, without a traceback.

    The exit status is 1 for a :class:`~uwaga.errors.UwagaError`, a file that cannot be read or written, and a
    closed or full standard output; 130 after Ctrl-C; 141 (without a message) if the reader of a pipe has
    exited. Any other exception is a bug in uwaga and keeps its traceback.
    """
    try:
        with report_output_errors():
            yield
    except UwagaError as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        if error.filename is None:
            raise
        fail(f"{error.filename}: {error.strerror}")


@contextlib.contextmanager
def require_extra(extra: str, task: str) -> Iterator[None]:
    """Raise MissingExtraError if a module that is imported within the block is not installed.

    Args:
        extra: the extra of uwaga that installs the module.
        task: the feature that needs it, for the message.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{task} needs {error.name}, which is not installed: pip install 'uwaga[{extra}]'"
        ) from None


def fail(message: str) -> None:
    """Print ``error: message`` on standard error and exit with status 1."""
    typer.echo(typer.style("error:", fg="red", bold=True) + " " + message, err=True)
    raise typer.Exit(USER_ERROR)


@contextlib.contextmanager
def report_output_errors() -> Iterator[None]:
    """Report a closed or full standard output in one line instead of a traceback."""
    is_closed = sys.stdout is None
    if is_closed:
        sys.stdout = ClosedOutput()
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        raise typer.Exit(PIPE_CLOSED) from None
    except OSError as error:
        # An error of a file has a file name; without one, it comes from standard output.
        if error.filename is not None or error.errno not in WRITE_ERRNOS:
            raise
        _discard_output()
        fail(f"standard output cannot be written: {error.strerror}")
    finally:
        if is_closed:
            sys.stdout = None  # restore it


class ClosedOutput(io.TextIOBase):
    """Stand-in for the standard output of a process that was started without one."""

    def writable(self) -> bool:
        """Return True; :meth:`write` raises."""
        return True

    def write(self, text: str) -> int:
        """Raise OSError, because the output is closed."""
        raise OSError(errno.EBADF, "it is closed")


@contextlib.contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Exit with status 143 on SIGTERM, after unwinding the stack, so that temporary files are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(signal_number: int, frame: FrameType | None) -> None:
        raise SystemExit(TERMINATED)

    previous_handler = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous_handler)


def _discard_output() -> None:
    """Discard buffered standard output, so that the interpreter exits without a message."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)

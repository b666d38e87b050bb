"""How the command line ends when something goes wrong: one clear line and an exit status."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import ParamSpec

import typer

from uwaga.errors import MissingExtraError, UwagaError

MISTAKE = 1
INTERRUPTED = 128 + 2  # SIGINT, as shells report it
PIPE_CLOSED = 128 + 13  # SIGPIPE

Arguments = ParamSpec("Arguments")


def reported(verb: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """The same verb, but a user's mistake ends it with ``error: ...`` on stderr and no traceback.

    Exit status 1 for a :class:`~uwaga.errors.UwagaError` and for a file the system refuses, 130 after
    Ctrl-C, 141 (and silence) when the reader of a pipe has gone. Anything else is a bug in uwaga and
    keeps its traceback.
    """

    @functools.wraps(verb)
    def run(*arguments: Arguments.args, **options: Arguments.kwargs) -> None:
        try:
            verb(*arguments, **options)
            sys.stdout.flush()
        except UwagaError as error:
            fail(str(error))
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:
            _drop_output()
            raise typer.Exit(PIPE_CLOSED) from None
        except OSError as error:
            if error.filename is None and error.errno != errno.ENOSPC:
                raise
            place = f"{error.filename}: " if error.filename is not None else ""
            fail(f"{place}{error.strerror}")

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


def _drop_output() -> None:
    """Let what is still buffered for the closed pipe go nowhere, so that the shutdown stays silent."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)

"""The ``uwaga`` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from uwaga import __version__
from uwaga.cli.errors import INTERRUPTED, guarded_output, terminable
from uwaga.cli.verbs import MARKUP, VerbGroup

app = typer.Typer(
    name="uwaga",
    cls=VerbGroup,
    help="Translate with attention: train a model, run it, score with it, measure it, look inside it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=MARKUP,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"uwaga {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and leave."),
    ] = False,
) -> None:
    """Take the options that stand before the verb."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line on ``arguments``, those of the process by default.

    Raises:
        SystemExit: always: 0 done, 1 the input's fault, 2 wrong usage, 130 interrupted, 143 terminated.
    """
    try:
        with terminable(), guarded_output():
            app(args=None if arguments is None else list(arguments), prog_name="uwaga")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except typer.Exit as leaving:  # of what was written after the verb
        sys.exit(leaving.exit_code)

"""The ``uwaga`` command. Verbs import what they need when they run, so that ``--help`` is instant."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from uwaga import __version__
from uwaga.cli.align import align
from uwaga.cli.attend import attend
from uwaga.cli.average import average
from uwaga.cli.backtranslate import backtranslate
from uwaga.cli.clean import clean
from uwaga.cli.convert import convert
from uwaga.cli.distil import distil
from uwaga.cli.errors import INTERRUPTED, guarded_output, reported, terminable
from uwaga.cli.evaluate import evaluate
from uwaga.cli.fill import fill
from uwaga.cli.generate import generate
from uwaga.cli.heads import heads
from uwaga.cli.info import info
from uwaga.cli.lengths import lengths
from uwaga.cli.lines import TEXTS_ONLY
from uwaga.cli.merge import merge
from uwaga.cli.models import models
from uwaga.cli.report import report
from uwaga.cli.score import score
from uwaga.cli.serve import serve
from uwaga.cli.shortlist import shortlist
from uwaga.cli.train import train
from uwaga.cli.translate import translate
from uwaga.cli.translate_file import translate_file

app = typer.Typer(
    name="uwaga",
    help="Translate with attention: train a model, run it, score with it, measure it, look inside it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
VERBS = (
    *(translate, translate_file, train, score, evaluate, align, attend, heads, lengths),
    *(generate, fill, info, convert, shortlist, average, clean, report),
    *(distil, backtranslate, merge),
)


class Verb(TyperCommand):
    """A command that remembers whether ``--`` stood among its arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the arguments apart."""
        TEXTS_ONLY.set("--" in args)
        return super().parse_args(ctx, args)


for verb in VERBS:
    app.command(verb.__name__.replace("_", "-"), cls=Verb)(reported(verb))
app.add_typer(models)
app.add_typer(serve)


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

"""The ``uwaga`` command. Each verb is imported on first use."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.main import get_command

from uwaga import __version__
from uwaga.cli.errors import INTERRUPTED, exit_on_sigterm, guarded_output, report_errors
from uwaga.cli.verb import Verb, VerbGroup

HEADINGS = {
    "Translate": ("translate", "translate-file", "batch", "serve", "mcp", "models"),
    "Train": ("train", "clean", "distil", "backtranslate", "average", "merge", "convert", "shortlist"),
    "Evaluate": ("evaluate", "score", "lengths", "report", "bench"),
    "Look inside": ("attend", "align", "heads", "info"),
    "Other models": ("generate", "fill"),
    "Learn": ("learn",),
}
VERB_NAMES = tuple(name for names in HEADINGS.values() for name in names)
"""Verbs in the order of ``--help``. Each is a function or a typer app in the module of the same name."""


class Verbs(Mapping[str, Any]):
    """The commands by name. Each is built on first access."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in VERB_NAMES:
            raise KeyError(name)
        if name not in self._built:
            self._built[name] = _build(name)
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VERB_NAMES)

    def __len__(self) -> int:
        return len(VERB_NAMES)


class Uwaga(VerbGroup):
    """The top-level command, which contains all verbs."""

    headings = HEADINGS

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = Verbs()


def _build(name: str) -> Any:
    module = name.replace("-", "_")
    verb = getattr(import_module(f"uwaga.cli.{module}"), module)
    if isinstance(verb, typer.Typer):
        return get_command(verb)
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name, cls=Verb)(report_errors(verb))
    return get_command(single)


app = typer.Typer(
    name="uwaga",
    cls=Uwaga,
    help="Train, run, evaluate and inspect translation models with attention.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _show_version(requested: bool) -> None:
    if requested:
        from uwaga.cli.version import version_lines

        typer.echo(f"uwaga {__version__}")
        for line in version_lines():
            typer.echo(line)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Print the version, the commit, the instruction set and the build, and exit.",
        ),
    ] = False,
) -> None:
    """Accept the options before the verb."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line with ``arguments``, by default those of the process."""
    try:
        with exit_on_sigterm(), guarded_output():
            app(args=None if arguments is None else list(arguments), prog_name="uwaga")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except typer.Exit as exit_error:  # raised by the last flush of standard output
        sys.exit(exit_error.exit_code)

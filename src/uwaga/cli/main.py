"""The ``uwaga`` command. Each subcommand is imported on first use."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from uwaga import __version__
from uwaga.cli.errors import INTERRUPTED, exit_on_sigterm, report_errors, report_output_errors
from uwaga.cli.verb import Verb, VerbGroup
from uwaga.plugins import Registry, load_plugins

HEADINGS = {
    "Translate": {
        "translate": "uwaga.cli.translate:translate",
        "translate-file": "uwaga_documents.cli:translate_file",
        "batch": "uwaga_corpora.cli.batch:batch",
        "serve": "uwaga_server.cli.serve:serve",
        "mcp": "uwaga_server.cli.mcp:mcp",
        "models": "uwaga.cli.models:models",
        "memory": "uwaga_memory.cli:memory",
    },
    "Train": {
        "train": "uwaga.cli.train:train",
        "clean": "uwaga_corpora.cli.clean:clean",
        "distil": "uwaga_corpora.cli.distil:distil",
        "backtranslate": "uwaga_corpora.cli.backtranslate:backtranslate",
        "average": "uwaga.cli.average:average",
        "merge": "uwaga.cli.convert:merge",
        "convert": "uwaga.cli.convert:convert",
        "shortlist": "uwaga.cli.shortlist:shortlist",
    },
    "Evaluate": {
        "evaluate": "uwaga.cli.evaluate:evaluate",
        "score": "uwaga.cli.score:score",
        "lengths": "uwaga.cli.lengths:lengths",
        "report": "uwaga.cli.report:report",
        "bench": "uwaga_bench.cli:bench",
    },
    "Look inside": {
        "attend": "uwaga.cli.attend:attend",
        "align": "uwaga.cli.align:align",
        "heads": "uwaga.cli.heads:heads",
        "info": "uwaga.cli.info:info",
    },
    "Other models": {"generate": "uwaga.cli.generate:generate", "fill": "uwaga.cli.fill:fill"},
    "Learn": {"learn": "uwaga_course.cli:learn"},
}
"""The built-in subcommands, by the heading under which ``--help`` lists them."""
VERBS: Registry[Any] = Registry(
    "verb", "uwaga.verbs", {name: target for verbs in HEADINGS.values() for name, target in verbs.items()}
)
"""The subcommands, which are functions or typer apps."""


class Commands(Mapping[str, Any]):
    """The commands by name; each command is built on first access."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _build_command(name, VERBS[name])
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(VERBS)

    def __len__(self) -> int:
        return len(VERBS)


class Uwaga(VerbGroup):
    """The top-level command, which contains all subcommands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = Commands()

    @property
    def headings(self) -> Mapping[str, Sequence[str]]:
        """Names of the installed subcommands, by heading of the help page; plugins come last."""
        names = list(VERBS)
        known_names = {name for verbs in HEADINGS.values() for name in verbs}
        headings = {title: [name for name in verbs if name in names] for title, verbs in HEADINGS.items()}
        return {**headings, "Plugins": [name for name in names if name not in known_names]}


def _build_command(name: str, verb: Any) -> Any:
    if isinstance(verb, typer.Typer):
        return get_command(verb)
    single_app = typer.Typer(add_completion=False, rich_markup_mode=None)
    single_app.command(name, cls=Verb)(verb)
    return get_command(single_app)


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


def _load_plugins(files: list[str] | None) -> None:
    with report_errors():
        load_plugins(files or [])


@app.callback()
def _options(
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            "--plugin",
            metavar="FILE",
            callback=_load_plugins,
            is_eager=True,
            help="Python file of a plugin, which extends uwaga. Repeatable.",
        ),
    ] = None,
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
    """Accept the options before the subcommand."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line with ``arguments``, or by default with the arguments of the process."""
    try:
        with exit_on_sigterm(), report_output_errors():
            app(args=None if arguments is None else list(arguments), prog_name="uwaga")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except typer.Exit as exit_error:  # raised by the last flush of standard output
        sys.exit(exit_error.exit_code)

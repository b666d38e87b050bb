"""``uwaga models``: list, download and remove models."""

from __future__ import annotations

import difflib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uwaga.cli.catalogue import download, list_available, path, remove
from uwaga.cli.info import PIPED_WIDTH, readable_size
from uwaga.cli.verb import Verb, VerbGroup
from uwaga.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uwaga.library.installed import InstalledModel

MAX_CODES = 4
"""Maximum number of language codes per table cell."""
COMMANDS = ("installed", "list", "download", "remove", "path")
DEFAULT_COMMAND = COMMANDS[0]
"""The default command of ``uwaga models``."""

Folders = Annotated[list[Path] | None, typer.Argument(help="Further folders to search, such as `runs`.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line, with every language.")]


class Models(VerbGroup):
    """A group of commands with a default, which is used if the first argument is not a command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, with the default command if none is given."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [DEFAULT_COMMAND, *args]
        return super().parse_args(ctx, args)


models = typer.Typer(
    name="models",
    add_completion=False,
    cls=Models,
    help="List the models on this machine; `list`, `download` and `remove` models from catalogues.\n\n"
    "Without a command, or with folders to search, it lists the models on this machine and uses no network. "
    "For a folder with the name of a command, write `./list`.\n\n"
    "**Examples**\n\n    uwaga models\n\n    uwaga models list --from en\n\n"
    "    uwaga models download en-pt\n\n    uwaga models runs    # also the models trained in runs",
    context_settings={"help_option_names": ["--help", "-h"]},
)


def installed(folders: Folders = None, as_json: AsJson = False) -> None:
    """List the models on this machine: the same as `uwaga models` without a command.

    These are the bundled and downloaded models, and those of installed packages, of the Hugging Face cache
    and of Argos Translate. Nothing is downloaded. A model that cannot be used is listed with the reason.

    **Examples**

        uwaga models

        uwaga models runs                        # also the models trained in runs

        uwaga models --json | jq -r .name
    """
    from uwaga.library.installed import installed_models

    for word in map(str, folders or ()):
        matches = difflib.get_close_matches(word, COMMANDS, n=1)
        if matches and not Path(word).exists():
            raise ModelError(f"{word}: no such folder; did you mean `uwaga models {matches[0]}`?")
    installed_list = installed_models(folders or (), describe_all=True)
    if as_json:
        for model in installed_list:
            typer.echo(json.dumps(model.to_dict(), ensure_ascii=False))
        return
    _print(installed_list)


models.command(DEFAULT_COMMAND, cls=Verb)(installed)
models.command("list", cls=Verb)(list_available)
models.command("download", cls=Verb)(download)
models.command("remove", cls=Verb)(remove)
models.command("path", cls=Verb)(path)


def _print(models: Sequence[InstalledModel]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("model", "from", "to", "family", "size", "precision", "licence"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "size" else "left")
    for model in models:
        table.add_row(*map(Text, _cells(model)))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
    console.print(table)
    for model in models:
        for problem in model.problems:
            console.print(Text(f"{model.name}: {problem}"))


def _cells(model: InstalledModel) -> list[str]:
    source, target = (_codes(codes) for codes in model.languages)
    family, precision = "unusable", ""
    if model.description is not None:
        family, precision = model.description.family, " ".join(model.description.weights.formats)
    licence = model.licence or ("not stated" if model.description is not None else "")
    return [model.name, source, target, family, readable_size(model.bytes), precision, licence]


def _codes(codes: Sequence[str]) -> str:
    remainder = f" +{len(codes) - MAX_CODES}" if len(codes) > MAX_CODES else ""
    return " ".join(codes[:MAX_CODES]) + remainder

"""``uwaga models``: list, download and remove models."""

from __future__ import annotations

import difflib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uwaga.cli.catalogue import download, list_available, path, remove
from uwaga.cli.errors import reported
from uwaga.cli.info import PIPED, readable_size
from uwaga.cli.verb import Verb, VerbGroup
from uwaga.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uwaga.library.installed import InstalledModel

SHOWN = 4
"""Languages of each side shown in the table."""
COMMANDS = ("installed", "list", "download", "remove", "path")
ALONE = COMMANDS[0]
"""The default command of ``uwaga models``."""

Folders = Annotated[
    list[Path] | None,
    typer.Argument(help="Further folders to search, such as `runs`."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object per line, with every language.")]


class Models(VerbGroup):
    """Commands with a default: arguments that name no command are given to it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default command."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [ALONE, *args]
        return super().parse_args(ctx, args)


models = typer.Typer(
    name="models",
    add_completion=False,
    cls=Models,
    help="List the models on this machine; `list`, `download` and `remove` models from catalogues.\n\n"
    "Without a command, or with folders to search, it lists the models on this machine and uses no network. "
    "For a folder with the name of a command, write `./list`.\n\n"
    "**Examples**\n\n    uwaga models\n\n    uwaga models list --from en\n\n"
    "    uwaga models download en-pt\n\n    uwaga models runs    # also those trained there",
    context_settings={"help_option_names": ["--help", "-h"]},
)


def installed(folders: Folders = None, as_json: AsJson = False) -> None:
    """List the models on this machine: the same as `uwaga models` without a command.

    Bundled and downloaded models, and those of installed packages, of the Hugging Face cache and of Argos
    Translate. Nothing is downloaded. A model that cannot be used is listed with the reason.

    **Examples**

        uwaga models

        uwaga models runs                        # also those trained there

        uwaga models --json | jq -r .name
    """
    from uwaga.library.installed import installed_models

    for word in map(str, folders or ()):
        near = difflib.get_close_matches(word, COMMANDS, n=1)
        if near and not Path(word).exists():
            raise ModelError(f"{word}: no such folder; did you mean `uwaga models {near[0]}`?")
    found = installed_models(folders or (), described=True)
    if as_json:
        for one in found:
            typer.echo(json.dumps(one.to_dict(), ensure_ascii=False))
        return
    _print(found)


models.command(ALONE, cls=Verb)(reported(installed))
models.command("list", cls=Verb)(reported(list_available))
models.command("download", cls=Verb)(reported(download))
models.command("remove", cls=Verb)(reported(remove))
models.command("path", cls=Verb)(reported(path))


def _print(found: Sequence[InstalledModel]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("model", "from", "to", "family", "size", "precision", "licence"):
        table.add_column(head, overflow="fold", justify="right" if head == "size" else "left")
    for one in found:
        table.add_row(*map(Text, _cells(one)))
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED)
    console.print(table)
    for one in found:
        for problem in one.problems:
            console.print(Text(f"{one.name}: {problem}"))


def _cells(one: InstalledModel) -> list[str]:
    source, target = (_codes(codes) for codes in one.languages)
    family, precision = "unusable", ""
    if one.description is not None:
        family, precision = one.description.family, " ".join(one.description.weights.formats)
    licence = one.licence or ("not stated" if one.description is not None else "")
    return [one.name, source, target, family, readable_size(one.bytes), precision, licence]


def _codes(codes: Sequence[str]) -> str:
    rest = f" +{len(codes) - SHOWN}" if len(codes) > SHOWN else ""
    return " ".join(codes[:SHOWN]) + rest

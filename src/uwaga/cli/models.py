"""``uwaga models``: what is on this machine."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli.info import PIPED, readable_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uwaga.checkpoints.installed import InstalledModel

SHOWN = 4
"""Languages of a side in the table."""

Folders = Annotated[
    list[Path] | None,
    typer.Argument(help="Folders to look in too, such as `runs`.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object per line, every language listed.")]


def models(folders: Folders = None, as_json: AsJson = False) -> None:
    """List the models that are on this machine: bundled, in the Hugging Face cache, Argos Translate's.

    Nothing is fetched. A damaged model is listed with what is wrong with it.

    **Examples**

        uwaga models

        uwaga models runs                        # what was trained there, too

        uwaga models --json | jq -r .name
    """
    from uwaga.checkpoints.installed import installed_models

    found = list(installed_models(folders or ()))
    if as_json:
        for one in found:
            typer.echo(json.dumps(one.to_dict(), ensure_ascii=False))
        return
    _print(found)


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
    size = readable_size(one.bytes)
    if one.description is None:
        return [one.name, "", "", "damaged", size, "", ""]
    what = one.description
    source, target = (_codes(codes) for codes in what.languages)
    precision = " ".join(what.weights.formats)
    return [one.name, source, target, what.family, size, precision, what.licence or "not stated"]


def _codes(codes: Sequence[str]) -> str:
    rest = f" +{len(codes) - SHOWN}" if len(codes) > SHOWN else ""
    return " ".join(codes[:SHOWN]) + rest

"""``uwaga info``: describe a model."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from uwaga.checkpoints.description import Description

SHOWN = 24
"""Languages of each side shown in the table; ``--json`` lists all."""
PIPED = 160
"""Columns of output that does not go to a terminal."""
UNITS = ("bytes", "kB", "MB", "GB")


Place = Annotated[
    str | None,
    typer.Argument(
        help="A model folder or file, or a Hugging Face name (owner/model); `bundled`, the default, is "
        "the one that comes with uwaga."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, with every language.")]


def info(model: Place = None, as_json: AsJson = False) -> None:
    """Describe a model: family, settings, parameters, vocabulary, languages, licence, decoding defaults.

    No weights are read, only settings, tokenisers and the headers of weight files.

    **Examples**

        uwaga info

        uwaga info runs/ende/model

        uwaga info facebook/nllb-200-distilled-600M --json | jq '.languages.target'
    """
    from uwaga.checkpoints.registry import describe
    from uwaga.library.hub import find_model

    found = describe(find_model(model))
    if as_json:
        typer.echo(json.dumps(found.to_dict(), ensure_ascii=False))
    else:
        _print(found)


def _print(found: Description) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _rows(found):
        table.add_row(Text(name), Text(value))
    Console(highlight=False, width=None if sys.stdout.isatty() else PIPED).print(table)


def _rows(found: Description) -> Iterator[tuple[str, str]]:
    yield "model", found.place
    yield "format", found.format
    yield "family", found.family
    if found.weights.parameters is not None:
        yield "parameters", f"{found.weights.parameters:,}"
    if found.weights.bytes:
        formats = f" ({', '.join(found.weights.formats)})" if found.weights.formats else ""
        yield "weights", readable_size(found.weights.bytes) + formats
    for name, value in found.sizes.items():
        yield name, f"{value:,}" if type(value) is int else str(value)
    if found.vocabulary:
        yield "vocabulary", " and ".join(f"{size:,}" for size in dict.fromkeys(found.vocabulary)) + " pieces"
    for name, codes in zip(("from", "to"), found.languages, strict=True):
        if codes:
            rest = f" and {len(codes) - SHOWN} more" if len(codes) > SHOWN else ""
            yield name, " ".join(codes[:SHOWN]) + rest
    yield "licence", found.licence or "not stated"
    for name, default in found.decoding.items():
        yield f"decoding: {name.replace('_', ' ')}", str(default)
    if found.alignment_head is not None:
        yield "words aligned by", f"head {found.alignment_head}"
    for problem in found.problems:
        yield "note", problem


def readable_size(count: int) -> str:
    """Return a number of bytes in readable units."""
    value, unit = float(count), 0
    while value >= 1000 and unit + 1 < len(UNITS):
        value, unit = value / 1000, unit + 1
    return f"{value:,.{0 if unit == 0 else 1}f} {UNITS[unit]}"

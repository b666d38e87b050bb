"""``uwaga info``: describe a model."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from uwaga.checkpoints.adapter import Adapter
    from uwaga.checkpoints.description import Description

MAX_CODES = 24
"""Maximum number of language codes per table row; ``--json`` lists all."""
PIPED_WIDTH = 160
"""Width of output that is not printed on a terminal."""
UNITS = ("bytes", "kB", "MB", "GB")


ModelName = Annotated[
    str | None,
    typer.Argument(
        help="A model folder or file, or a Hugging Face name (owner/model); `bundled`, the default, is "
        "the one that comes with uwaga."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, with every language.")]


def info(model: ModelName = None, as_json: AsJson = False) -> None:
    """Describe a model: family, parameters, vocabulary, languages, licence, settings, decoding defaults.

    No weights are read, only settings, tokenisers and the headers of weight files.

    **Examples**

        uwaga info

        uwaga info runs/ende/model

        uwaga info facebook/nllb-200-distilled-600M --json | jq '.languages.target'
    """
    from uwaga.checkpoints.adapter import read_adapter
    from uwaga.checkpoints.formats.uwaga.names import ADAPTER
    from uwaga.checkpoints.registry import describe
    from uwaga.library.hub import find_model

    path = find_model(model)
    if (path / ADAPTER).is_file():
        adapter = read_adapter(path)
        values, rows = adapter.to_dict(), _adapter_rows(adapter)
    else:
        description = describe(path)
        values, rows = description.to_dict(), _rows(description)
    if as_json:
        typer.echo(json.dumps(values, ensure_ascii=False))
    else:
        _print(rows)


def _print(rows: Iterable[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH).print(table)


def _adapter_rows(adapter: Adapter) -> Iterator[tuple[str, str]]:
    for name, value in adapter.to_dict().items():
        yield name, ", ".join(value) if isinstance(value, list) else str(value)


def _rows(description: Description) -> Iterator[tuple[str, str]]:
    yield "model", description.place
    yield "format", description.format
    yield "family", description.family
    if description.weights.parameters is not None:
        yield "parameters", f"{description.weights.parameters:,}"
    if description.weights.bytes:
        formats = f" ({', '.join(description.weights.formats)})" if description.weights.formats else ""
        yield "weights", readable_size(description.weights.bytes) + formats
    if description.vocabulary:
        yield (
            "vocabulary",
            " and ".join(f"{size:,}" for size in dict.fromkeys(description.vocabulary)) + " pieces",
        )
    for name, codes in zip(("from", "to"), description.languages, strict=True):
        if codes:
            remainder = f" and {len(codes) - MAX_CODES} more" if len(codes) > MAX_CODES else ""
            yield name, " ".join(codes[:MAX_CODES]) + remainder
    yield "licence", description.licence or "not stated"
    if description.alignment_head is not None:
        yield "words aligned by", f"head {description.alignment_head}"
    for problem in description.problems:
        yield "note", problem
    for name, value in description.sizes.items():
        yield name, f"{value:,}" if type(value) is int else str(value)
    for name, default in description.decoding.items():
        yield f"decoding: {name.replace('_', ' ')}", str(default)


def readable_size(count: int) -> str:
    """Return a number of bytes in readable units."""
    value, unit = float(count), 0
    while value >= 1000 and unit + 1 < len(UNITS):
        value, unit = value / 1000, unit + 1
    return f"{value:,.{0 if unit == 0 else 1}f} {UNITS[unit]}"

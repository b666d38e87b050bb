"""Options that say what a text is beside language: its format, and what in it is kept."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.errors import SettingsError

if TYPE_CHECKING:
    from uwaga.translator.marked import Markup


class FormatChoice(StrEnum):
    """What tags and entities in a line mean."""

    text = "text"
    html = "html"
    xml = "xml"
    markdown = "markdown"


TextFormat = Annotated[
    FormatChoice,
    typer.Option(
        "--format", help="What a line is: tags come back around the words that mean what they stood around."
    ),
]
IgnoreTags = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore-tags",
        help="A tag of html or xml to leave alone with all it holds; again: more.",
        show_default=False,
    ),
]
KeepsPlaceholders = Annotated[
    bool,
    typer.Option(
        "--placeholders/--no-placeholders",
        help="Keep {name}, %s, $VAR, addresses, file names, numbers with units (not with --stream).",
    ),
]
MorePlaceholders = Annotated[
    list[str] | None,
    typer.Option(
        "--placeholder",
        help="A regular expression for what is to be kept too; again: more.",
        show_default=False,
    ),
]


def chosen_markup(
    format_: FormatChoice,
    keeps: bool,
    patterns: list[str] | None,
    ignore_tags: list[str] | None,
    *,
    streams: bool,
    alignments: Path | None,
) -> Markup:
    """How lines are read.

    Raises:
        SettingsError: a value is impossible, or two options do not go together; names them.
    """
    from uwaga.translator.marked import Markup

    if format_ is not FormatChoice.text and streams:
        raise SettingsError("--format puts tags back behind the whole translation: leave out --stream")
    if format_ is not FormatChoice.text and alignments is not None:
        raise SettingsError("--alignments counts the words of plain lines: leave out --format")
    if patterns and not keeps:
        raise SettingsError("--placeholder adds to what is kept: leave out --no-placeholders")
    return Markup.of(format_.value, (patterns or True) if keeps else False, ignore_tags)

"""Options that say what a text is beside language: its format, and what in it is kept."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.errors import SettingsError

if TYPE_CHECKING:
    from uwaga.translator.text_markup import TextMarkup

NOTHING = "none"


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
MorePlaceholders = Annotated[
    list[str] | None,
    typer.Option(
        "--placeholder",
        help="A regular expression for what is to be kept beside {name}, %s, $VAR, addresses, file names and "
        "numbers with units; again: more. `none`: keep nothing.",
        show_default=False,
    ),
]


def chosen_markup(
    format_: FormatChoice,
    patterns: list[str] | None,
    ignore_tags: list[str] | None,
    streams: bool,
    alignments: Path | None,
) -> TextMarkup:
    """How lines are read.

    Raises:
        SettingsError: a value is impossible, or two options do not go together; names them.
    """
    from uwaga.translator.text_markup import TextMarkup

    if format_ is not FormatChoice.text and streams:
        raise SettingsError("--format puts tags back behind the whole translation: leave out --stream")
    if format_ is not FormatChoice.text and alignments is not None:
        raise SettingsError("--alignments counts the words of plain lines: leave out --format")
    if patterns and NOTHING in patterns and len(patterns) > 1:
        raise SettingsError("--placeholder none keeps nothing: leave out the others")
    return TextMarkup.of(format_.value, False if patterns == [NOTHING] else patterns or True, ignore_tags)

"""Options that say what a text is beside language: its format, and what in it is kept."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from uwaga.errors import SettingsError

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


def kept_patterns(patterns: list[str] | None) -> bool | list[str]:
    """Return the placeholders of a request from the values of ``--placeholder``.

    Raises:
        SettingsError: ``none`` is not alone.
    """
    if patterns and NOTHING in patterns and len(patterns) > 1:
        raise SettingsError("--placeholder none keeps nothing: leave out the others")
    return False if patterns == [NOTHING] else patterns or True

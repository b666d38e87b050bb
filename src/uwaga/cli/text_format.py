"""Options for the format of texts and for placeholders."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from uwaga.errors import SettingsError

NOTHING = "none"


class FormatChoice(StrEnum):
    """The format of lines."""

    text = "text"
    html = "html"
    xml = "xml"
    markdown = "markdown"


TextFormat = Annotated[
    FormatChoice,
    typer.Option(
        "--format", help="Format of the lines; inline tags are re-inserted around the corresponding words."
    ),
]
IgnoreTags = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore-tags",
        help="Element of html or xml to leave untranslated, with its content. Repeatable.",
        show_default=False,
    ),
]
MorePlaceholders = Annotated[
    list[str] | None,
    typer.Option(
        "--placeholder",
        help="Extra regex for text to leave untranslated, in addition to {name}, %s, $VAR, addresses, file "
        "names and numbers with units. Repeatable. `none`: translate everything.",
        show_default=False,
    ),
]


def kept_patterns(patterns: list[str] | None) -> bool | list[str]:
    """Return the placeholders of a request from the values of ``--placeholder``.

    Raises:
        SettingsError: ``none`` is not alone.
    """
    if patterns and NOTHING in patterns and len(patterns) > 1:
        raise SettingsError("--placeholder none cannot be combined with other patterns")
    return False if patterns == [NOTHING] else patterns or True

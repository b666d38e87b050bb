"""Translations with the words that the model was unsure of marked."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import typer

from uwaga.results.confidence import Word, in_text

if TYPE_CHECKING:
    from pathlib import Path

    from uwaga.results.translation import Translation

UNSURE, DOUBTFUL = 0.3, 0.15
"""Mean probabilities of a word's pieces: below the first it is marked, below the second strongly."""


def shows_colours(output: Path | None) -> bool:
    """Whether translations go to a terminal whose user has not switched colours off (https://no-color.org)."""
    return output is None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def confident_text(translation: Translation, colours: bool) -> str:
    """A translation whose doubtful words show it: in colours, or with their probability behind them.

    Args:
        translation: of one line.
        colours: yellow for a word whose pieces have on geometric mean less than 0.3, red and underlined for
            one below 0.15; else ``word[0.24]``.
    """
    parts = in_text(translation.text, translation.words)
    return "".join(part if word is None else _marked(word, colours) for part, word in parts)


def _marked(word: Word, colours: bool) -> str:
    if word.mean >= UNSURE:
        return word.text
    if not colours:
        return f"{word.text}[{word.mean:.2f}]"
    strong = word.mean < DOUBTFUL
    return typer.style(word.text, fg="red" if strong else "yellow", underline=strong or None)

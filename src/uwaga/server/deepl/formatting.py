"""How the lines of a text begin and end, kept in its translation: ``preserve_formatting``."""

from __future__ import annotations

import re

LINE_BREAK = re.compile(r"(\r\n|\n|\r)")
ENDINGS = ".!?…:;,。！？：；，"
STOPS = ".。"


def in_one_line(text: str) -> str:
    """A text whose line breaks are spaces."""
    return LINE_BREAK.sub(" ", text)


def preserved(source: str, translation: str) -> str:
    """A translation with the white space of its source around each line, and its punctuation at the end.

    Args:
        source: the text.
        translation: of it, line by line.
    """
    before, after = LINE_BREAK.split(source), LINE_BREAK.split(translation)
    if len(before) != len(after):
        return _line(source, translation)
    pairs = zip(before, after, strict=True)
    return "".join(old if at % 2 else _line(old, new) for at, (old, new) in enumerate(pairs))


def _line(old: str, new: str) -> str:
    words = old.strip()
    if not words:
        return old
    start = old[: len(old) - len(old.lstrip())]
    end = old[len(old.rstrip()) :]
    made = new.strip()
    if words[-1] not in ENDINGS and made[-1:] in STOPS:
        made = made.rstrip(STOPS)
    elif words[-1] in STOPS and made[-1:].isalnum():
        made += words[-1]
    return f"{start}{made}{end}"

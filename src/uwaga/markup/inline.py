"""A text with tags inside: what every format is read into and written from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

TagKind = Literal["open", "close", "void", "kept"]


@dataclass(frozen=True)
class Tag:
    """One tag inside a text.

    ``kind``: ``open`` and ``close`` stand around words, and a ``close`` ends the nearest ``open`` before it
    that nothing has ended; ``void`` stands at a place of its own, such as ``<br/>``; ``kept`` is a whole
    piece that is never translated, tags and all, such as ``<code>ls -l</code>``.
    ``raw`` is how the format writes it, and is written again as it is.
    ``text`` is what a reader sees in its place: of ``kept`` its words, of all others nothing.
    """

    kind: TagKind
    raw: str
    text: str = ""


Inline = tuple[str | Tag, ...]
"""Stretches of plain text, unescaped, with tags between them, in the order of the text."""


def plain_text(inline: Sequence[str | Tag]) -> str:
    """The text alone, what is kept as its reader sees it."""
    return "".join(part if isinstance(part, str) else part.text for part in inline)

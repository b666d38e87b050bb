"""Text with tags inside: what every format is read into and written from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeGuard

from uwaga.errors import TextTooLongError

MOST_TAGS = 50_000
"""Tags in one text, such as a paragraph: each takes several hundred bytes while the text is translated."""
TagKind = Literal["open", "close", "void", "kept"]


@dataclass(frozen=True, slots=True)
class Tag:
    r"""One tag inside a text.

    Attributes:
        kind: ``open`` and ``close`` enclose words; a ``close`` ends the nearest ``open`` before it that has
            no end yet. ``void`` has a place of its own, such as ``<br/>``. ``kept`` is a whole element that
            is never translated, such as ``<code>ls -l</code>``.
        raw: the tag as it appears in the document; it is written back unchanged.
        text: the text that it displays: the words of a ``kept`` element, ``"\n"`` for a line break or
            tab, which ends a segment, otherwise nothing.
    """

    kind: TagKind
    raw: str
    text: str = ""


Inline = tuple[str | Tag, ...]
"""Stretches of plain text, unescaped, with tags between them, in the order of the text."""


def check_tags(count: int) -> None:
    """Refuse a text with more than :data:`MOST_TAGS` tags."""
    if count > MOST_TAGS:
        raise TextTooLongError(
            f"a paragraph has more than {MOST_TAGS} tags; divide it, or remove tags that have no effect"
        )


def is_kept(part: str | Tag) -> TypeGuard[Tag]:
    """Return True for a tag that is kept as it is, such as a placeholder."""
    return isinstance(part, Tag) and part.kind == "kept"


def plain_text(inline: Sequence[str | Tag]) -> str:
    """Return the text without its tags; untranslated elements as a reader sees them."""
    return "".join(part if isinstance(part, str) else part.text for part in inline)


def joined(parts: Iterable[str | Tag]) -> Inline:
    """Build an inline: adjacent stretches of text become one, empty ones are dropped."""
    inline: list[str | Tag] = []
    stretch: list[str] = []
    for part in parts:
        if isinstance(part, str):
            if part:
                stretch.append(part)
            continue
        if stretch:
            inline.append("".join(stretch))
            stretch = []
        inline.append(part)
    if stretch:
        inline.append("".join(stretch))
    return tuple(inline)


def paired_tags(inline: Sequence[str | Tag]) -> dict[int, int]:
    """Return the positions of opening tags with those of the tags that close them."""
    opened: list[int] = []
    pairs: dict[int, int] = {}
    for at, part in enumerate(inline):
        if isinstance(part, Tag) and part.kind == "open":
            opened.append(at)
        elif isinstance(part, Tag) and part.kind == "close" and opened:
            pairs[opened.pop()] = at
    return pairs

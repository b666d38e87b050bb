"""Tags stripped from a text, and what is remembered of where they stood."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from uwaga.markup.inline import Tag

SEPARATES = re.compile(r"<(?:[\w.]+:)?(?:br|cr|hr|tab|line-break|img|image)\b", re.IGNORECASE)
"""A void tag that its reader sees as a space, at least: the words at its sides are two."""


@dataclass(frozen=True)
class Mark:
    """A tag and its place in the text without tags: before the character ``at``.

    ``left`` and ``right`` are the white space between it and what stands next to it, be that a word, another
    tag or the end of the text. ``divides``: it alone divides two words, and a space stands for it.
    """

    tag: Tag
    at: int
    left: str
    right: str
    divides: bool = False


@dataclass(frozen=True)
class StrippedText:
    """A text without its tags, and these in their order."""

    text: str
    marks: tuple[Mark, ...]


def strip_tags(inline: Sequence[str | Tag]) -> StrippedText:
    """Take all tags out of a text, pieces that are kept too.

    Where a line break or an image alone divides two words, a space takes its place.

    Args:
        inline: the text with its tags; stretches of text may follow each other.
    """
    stretches, tags = _alternating(inline)
    texts: list[str] = [stretches[0]]
    marks: list[Mark] = []
    length = len(stretches[0])
    spaced = not stretches[0] or stretches[0][-1].isspace()  # whether the text so far ends in white space
    for tag, before, after in zip(tags, stretches, stretches[1:], strict=False):
        divides = not spaced and not after[:1].isspace() and separates(tag)
        marks.append(Mark(tag, length, _blank_end(before), _blank_start(after), divides))
        if divides:
            texts.append(" ")
        texts.append(after)
        length += len(after) + divides
        spaced = after[-1].isspace() if after else spaced or divides
    return StrippedText("".join(texts), tuple(marks))


def separates(tag: Tag) -> bool:
    """Whether the words at the sides of a tag are two, though there is no space."""
    return tag.kind == "void" and (tag.text.isspace() or SEPARATES.match(tag.raw) is not None)


def _alternating(inline: Sequence[str | Tag]) -> tuple[list[str], list[Tag]]:
    """The tags, and the text before, between and behind them: one stretch more."""
    stretches: list[list[str]] = [[]]
    tags: list[Tag] = []
    for part in inline:
        if isinstance(part, Tag):
            tags.append(part)
            stretches.append([])
        else:
            stretches[-1].append(part)
    return ["".join(parts) for parts in stretches], tags


def _blank_end(text: str) -> str:
    return text[len(text.rstrip()) :]


def _blank_start(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]

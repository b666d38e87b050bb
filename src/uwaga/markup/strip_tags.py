"""Texts without their tags, and the tags as a tree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

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


@dataclass
class Node:
    """A pair of tags, or one that stands alone; ``opens`` and ``closes`` are numbers of marks.

    Of a tag alone both are the same. ``children`` are in their order. ``low`` and ``high``: the target words
    that it is put around, once that is known.
    """

    opens: int
    closes: int
    children: list[Node] = field(default_factory=list)
    low: int = 0
    high: int = 0

    @property
    def paired(self) -> bool:
        """Whether it is a pair."""
        return self.closes > self.opens


def tag_tree(marks: Sequence[Mark]) -> Node:
    """The tree of all tags, below a root that is none (``opens`` -1).

    A close ends the nearest open before it that nothing has ended. An open that nothing ends, and a close
    that ends nothing, stand alone.
    """
    mates: dict[int, int] = {}
    waiting: list[int] = []
    for number, mark in enumerate(marks):
        if mark.tag.kind == "open":
            waiting.append(number)
        elif mark.tag.kind == "close" and waiting:
            mates[waiting.pop()] = number
    closing = set(mates.values())
    root = Node(-1, len(marks))
    path = [root]
    for number in range(len(marks)):
        if number in closing:
            path.pop()
            continue
        node = Node(number, mates.get(number, number))
        path[-1].children.append(node)
        if node.paired:
            path.append(node)
    return root


def in_order(root: Node) -> list[tuple[int, int]]:
    """Every mark with the number of target words before it, in the order of the translation.

    Pairs side by side share no word: by their first word and then their last, such as stand before a word
    come before those around it.
    """
    placed: list[tuple[int, int]] = []
    waiting: list[tuple[int, int] | Node] = [root]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Node):
            if one.opens >= 0:
                placed.append((one.opens, one.low))
            if one.paired and one is not root:
                waiting.append((one.closes, one.high))
            inside = sorted(one.children, key=lambda child: (child.low, child.high, child.opens))
            waiting += reversed(inside)
        else:
            placed.append(one)
    return placed

"""Strip the tags from a text, and build a tree of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from uwaga.markup.inline import Tag, paired_tags

SEPARATES = re.compile(r"<(?:[\w.]+:)?(?:br|cr|hr|tab|line-break|img|image)\b", re.IGNORECASE)
"""A void tag that separates words."""


@dataclass(frozen=True)
class Mark:
    """A tag and its place in the text without tags: before the character ``at``.

    ``left`` and ``right`` are the white space between it and its neighbours: a word, another tag or the end
    of the text. ``divides`` is true if it alone separates two words, and a space replaces it.
    """

    tag: Tag
    at: int
    left: str
    right: str
    divides: bool = False


@dataclass(frozen=True)
class StrippedText:
    """A text without its tags, and the tags in order."""

    text: str
    marks: tuple[Mark, ...]


def strip_tags(inline: Sequence[str | Tag]) -> StrippedText:
    """Strip all tags from a text, untranslated pieces too.

    Where a line break or an image alone separates two words, a space replaces it.

    Args:
        inline: the text with its tags; it may have adjacent stretches of text.
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
    """Return whether a tag separates words without a space."""
    return tag.kind == "void" and (tag.text.isspace() or SEPARATES.match(tag.raw) is not None)


def _alternating(inline: Sequence[str | Tag]) -> tuple[list[str], list[Tag]]:
    """Return the texts before, between and after the tags, and the tags."""
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
    """A pair of tags, or an unpaired tag; ``opens`` and ``closes`` are numbers of marks.

    For an unpaired tag both are the same. ``children`` are in order. ``low`` and ``high`` delimit the target
    words that it is put around, once they are chosen.
    """

    opens: int
    closes: int
    children: list[Node] = field(default_factory=list)
    low: int = 0
    high: int = 0

    @property
    def paired(self) -> bool:
        """True if this is a pair of tags."""
        return self.closes > self.opens


def tag_tree(marks: Sequence[Mark]) -> Node:
    """Build the tree of all tags; its root is not a tag (``opens`` is -1).

    A closing tag ends the nearest opening tag before it that has no end yet. Tags without a partner are
    unpaired.
    """
    mates = paired_tags([mark.tag for mark in marks])
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
    """Return all marks with the number of target words before each, in the order of the translation.

    Adjacent pairs share no word. They are ordered by their first word and then by their last, so that empty
    pairs before a word precede the pair around it.
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

"""Removal of the tags from a text, and the tree of the tags."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from uwaga.markup.inline import Tag, match_pairs

SEPARATING_TAG = re.compile(r"<(?:[\w.]+:)?(?:br|cr|hr|tab|line-break|img|image)\b", re.IGNORECASE)
"""A void tag that separates words."""
SENTENCE_END = re.compile(r"[^\W\d_]{2}[.!?…][\"'”’)]?\Z")
"""The end of a sentence; a capital letter after the next tag begins another sentence."""


@dataclass(frozen=True)
class Mark:
    """A tag and its position in the text without tags.

    Attributes:
        tag: the tag.
        position: the index of the character that the tag precedes.
        left: the white space between the tag and the preceding word or tag, or the start of the text.
        right: the white space between the tag and the following word or tag, or the end of the text.
        divides_sentence: whether only the tag separates two words or sentences, so that a space replaces it.
    """

    tag: Tag
    position: int
    left: str
    right: str
    divides_sentence: bool = False


@dataclass(frozen=True)
class StrippedText:
    """A text without its tags, and the tags in order."""

    text: str
    marks: tuple[Mark, ...]


def strip_tags(inline: Sequence[str | Tag]) -> StrippedText:
    """Strip all tags from a text, including untranslated pieces.

    A line break or image that alone separates two words, or any tag that alone separates two sentences, is
    replaced by a space.

    Args:
        inline: the text with its tags; adjacent parts may both be text.
    """
    text_runs, tags = _split_at_tags(inline)
    texts: list[str] = [text_runs[0]]
    marks: list[Mark] = []
    length = len(text_runs[0])
    words_before = text_runs[0]
    ends_in_space = not text_runs[0] or text_runs[0][-1].isspace()
    for tag, text_before, text_after in zip(tags, text_runs, text_runs[1:], strict=False):
        ends_sentence = text_after[:1].isupper() and SENTENCE_END.search(words_before) is not None
        has_no_space = not ends_in_space and not text_after[:1].isspace()
        divides_sentence = has_no_space and (separates(tag) or ends_sentence)
        marks.append(
            Mark(tag, length, _trailing_space(text_before), _leading_space(text_after), divides_sentence)
        )
        if divides_sentence:
            texts.append(" ")
        texts.append(text_after)
        length += len(text_after) + divides_sentence
        ends_in_space = text_after[-1].isspace() if text_after else ends_in_space or divides_sentence
        words_before = text_after or words_before
    return StrippedText("".join(texts), tuple(marks))


def separates(tag: Tag) -> bool:
    """Return whether a tag separates two words that have no space between them."""
    return tag.kind == "void" and (tag.text.isspace() or SEPARATING_TAG.match(tag.raw) is not None)


def _split_at_tags(inline: Sequence[str | Tag]) -> tuple[list[str], list[Tag]]:
    """Return the texts before, between and after the tags, and the tags."""
    text_runs: list[list[str]] = [[]]
    tags: list[Tag] = []
    for part in inline:
        if isinstance(part, Tag):
            tags.append(part)
            text_runs.append([])
        else:
            text_runs[-1].append(part)
    return ["".join(parts) for parts in text_runs], tags


def _trailing_space(text: str) -> str:
    return text[len(text.rstrip()) :]


def _leading_space(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


@dataclass
class Node:
    """A node of the tree of tags: a pair of tags, or an unpaired tag.

    Attributes:
        opening: the index of the mark of the opening tag.
        closing: the index of the mark of the closing tag; equal to ``opening`` for an unpaired tag.
        children: the tags inside the pair, in order.
        low: the first target word that the tags enclose, once it is chosen.
        high: the end of the target words that the tags enclose, once it is chosen.
    """

    opening: int
    closing: int
    children: list[Node] = field(default_factory=list)
    low: int = 0
    high: int = 0

    @property
    def is_pair(self) -> bool:
        """True if this is a pair of tags."""
        return self.closing > self.opening


def tag_tree(marks: Sequence[Mark]) -> Node:
    """Return the tree of all tags; its root is not a tag (``opening`` is -1).

    A closing tag closes the nearest preceding opening tag that is not yet closed. Tags without a partner are
    unpaired.
    """
    partners = match_pairs([mark.tag for mark in marks])
    closing = set(partners.values())
    root = Node(-1, len(marks))
    path = [root]
    for number in range(len(marks)):
        if number in closing:
            path.pop()
            continue
        node = Node(number, partners.get(number, number))
        path[-1].children.append(node)
        if node.is_pair:
            path.append(node)
    return root


def order_marks(root: Node) -> list[tuple[int, int]]:
    """Return the index of each mark and the number of target words before it, in the order of the
    translation.

    Adjacent pairs share no words. They are ordered by their first and then by their last word, so that empty
    pairs before a word precede the pair around the word.
    """
    ordered_spans: list[tuple[int, int]] = []
    stack: list[tuple[int, int] | Node] = [root]
    while stack:
        entry = stack.pop()
        if isinstance(entry, Node):
            if entry.opening >= 0:
                ordered_spans.append((entry.opening, entry.low))
            if entry.is_pair and entry is not root:
                stack.append((entry.closing, entry.high))
            children = sorted(entry.children, key=lambda child: (child.low, child.high, child.opening))
            stack += reversed(children)
        else:
            ordered_spans.append(entry)
    return ordered_spans

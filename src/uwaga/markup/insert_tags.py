"""Tags put back into a translation, each exactly once and well nested, whatever the alignment says."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby

from uwaga.alignment.words import word_spans
from uwaga.markup.inline import Inline, Tag
from uwaga.markup.strip_tags import Mark, StrippedText, in_order, tag_tree
from uwaga.markup.word_ranges import Words, choose_places
from uwaga.markup.words import is_unspaced, word_links
from uwaga.results.translation import WordAlignment


def insert_tags(
    stripped: StrippedText, translation: str, alignment: WordAlignment | None, same: Collection[str] = ()
) -> Inline:
    """The translation with the tags of its source.

    A pair of tags is put around the words that mean what it stood around, a tag alone behind what means the
    word before it. White space beside a tag stays on its side. What is around or beside all of the text stays
    so. The text is the translation's, but for such white space.

    Args:
        stripped: the source and its tags.
        translation: of the source.
        alignment: of source and translation; any will do, and None.
        same: words that mean themselves and nothing else, each once in both texts.
    """
    if not stripped.marks:
        return (translation,) if translation else ()
    sources, targets = word_spans(stripped.text), word_spans(translation)
    links = word_links(stripped.text, translation, alignment, sources, targets, same)
    root = tag_tree(stripped.marks)
    choose_places(root, stripped.marks, Words.of(sources, links, len(targets)))
    edges = [0, *(place for span in targets for place in span), len(translation)]
    gaps = [translation[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]
    texts = [translation[start:end] for start, end in targets]
    groups = {
        gap: [stripped.marks[number] for number, _ in group]
        for gap, group in groupby(in_order(root), key=lambda one: one[1])
    }
    made: list[str | Tag] = []
    for number, blank in enumerate(gaps):
        here = groups.get(number, [])
        if here:
            sides = texts[number - 1][-1:] if number else "", texts[number][:1] if number < len(texts) else ""
            own = _own_edges(here, number, len(targets), stripped, sources)
            made += _spaced(here, blank, own, sides)
        else:
            made.append(blank)
        if number < len(texts):
            made.append(texts[number])
    return joined(made)


def joined(parts: Sequence[str | Tag]) -> Inline:
    """The same with all stretches of text that follow each other in one, and none empty."""
    made: list[str | Tag] = []
    for is_text, group in groupby(parts, key=lambda part: isinstance(part, str)):
        if is_text:
            text = "".join(part for part in group if isinstance(part, str))
            made += [text] if text else []
        else:
            made += group
    return tuple(made)


def _own_edges(
    here: Sequence[Mark], gap: int, words: int, stripped: StrippedText, sources: Sequence[tuple[int, int]]
) -> list[bool]:
    """Of each tag whether it stood at this end of the source too, so that white space there is its own."""
    if not sources or 0 < gap < words:
        return [False] * len(here)
    first, last = sources[0][0], sources[-1][1]
    return [(gap == 0 and mark.at <= first) or (gap == words and mark.at >= last) for mark in here]


def _spaced(here: Sequence[Mark], blank: str, own: Sequence[bool], sides: tuple[str, str]) -> list[str | Tag]:
    """Tags between two words, with the white space there on the sides where the source had it.

    Args:
        here: the tags.
        blank: the white space that the translation has there.
        own: of each whether white space at the end of the text belongs to it.
        sides: the characters on both sides, if there are any.
    """
    slots = [""] * (len(here) + 1)
    for number, (mark, at_edge) in enumerate(zip(here, own, strict=True)):
        if blank or at_edge:
            slots[number] = slots[number] or mark.left
            slots[number + 1] = mark.right
    if blank and not any(slots) and not any(mark.divides for mark in here):
        slots[_default(here)] = blank
    elif blank and any(slots):
        slots[next(number for number, slot in enumerate(slots) if slot)] = blank
    for number, mark in enumerate(here):
        if mark.tag.kind == "kept":  # a reader sees it: it is no part of the words beside it
            slots[number] = slots[number] or _parting(sides[0] if number == 0 else "")
            slots[number + 1] = slots[number + 1] or _parting(sides[1] if mark is here[-1] else "")
    made: list[str | Tag] = [slots[0]]
    for mark, slot in zip(here, slots[1:], strict=True):
        made += [mark.tag, slot]
    return made


def _parting(side: str) -> str:
    """The space between what is kept and a character."""
    return " " if side.isalnum() and not is_unspaced(side) else ""


def _default(here: Sequence[Mark]) -> int:
    """Where a space goes that no tag of the source had beside it: behind what ends, before what begins."""
    for number, mark in enumerate(here):
        if mark.tag.kind == "open":
            return number
    return len(here)

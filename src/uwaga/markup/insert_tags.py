"""Insert the tags of a source into its translation, each exactly once and well nested, for any alignment."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import groupby, pairwise

from uwaga.alignment.words import word_spans
from uwaga.markup.inline import Inline, Tag, joined
from uwaga.markup.strip_tags import Mark, StrippedText, in_order, tag_tree
from uwaga.markup.word_ranges import Words, choose_places
from uwaga.markup.words import is_unspaced, word_links
from uwaga.results.translation import WordAlignment


def insert_tags(
    stripped: StrippedText, translation: str, alignment: WordAlignment | None, same: Collection[str] = ()
) -> Inline:
    """Return the translation with the tags of its source.

    A pair of tags is put around the words aligned with those it encloses in the source; an unpaired tag is
    placed after the words aligned with the text before it. White space next to a tag stays on its side. Tags
    around the whole text stay there. The text is that of the translation, except for such white space.

    Args:
        stripped: the source and its tags.
        translation: the translation of the source.
        alignment: the alignment of source and translation; any is accepted, and None.
        same: words that are aligned with themselves alone, each once in both texts.
    """
    if not stripped.marks:
        return (translation,) if translation else ()
    sources, targets = word_spans(stripped.text), word_spans(translation)
    links = word_links(stripped.text, translation, alignment, sources, targets, same)
    root = tag_tree(stripped.marks)
    choose_places(root, stripped.marks, Words.of(sources, links, len(targets)))
    ends = [end for _, end in sources]
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
            places = [bisect_right(ends, mark.at) for mark in here]
            made += _spaced(here, blank, own, sides, places)
        else:
            made.append(blank)
        if number < len(texts):
            made.append(texts[number])
    return joined(made)


def _own_edges(
    here: Sequence[Mark], gap: int, words: int, stripped: StrippedText, sources: Sequence[tuple[int, int]]
) -> list[bool]:
    """For each tag, return whether it was at this end of the source too, with the white space there."""
    if not sources or 0 < gap < words:
        return [False] * len(here)
    first, last = sources[0][0], sources[-1][1]
    return [(gap == 0 and mark.at <= first) or (gap == words and mark.at >= last) for mark in here]


def _spaced(
    here: Sequence[Mark], blank: str, own: Sequence[bool], sides: tuple[str, str], places: Sequence[int]
) -> list[str | Tag]:
    """Return the tags between two words, with white space on the sides where the source had it.

    Args:
        here: the tags.
        blank: the white space of the translation there.
        own: for each, whether white space at the end of the text belongs to it.
        sides: the characters on both sides, if any.
        places: for each tag, the number of words before it in the source. White space around words that are
            between these tags in the source alone is not repeated.
    """
    slots = [""] * (len(here) + 1)
    for number, (mark, at_edge) in enumerate(zip(here, own, strict=True)):
        if blank or at_edge:
            slots[number] = slots[number] or mark.left
            slots[number + 1] = mark.right
    apart = [False, *(one != other for one, other in pairwise(places)), places[0] != places[-1]]
    for number, parted in enumerate(apart):
        if parted and any(slots[:number]):
            slots[number] = ""
    if blank and not any(slots) and not any(mark.divides for mark in here):
        slots[_default(here)] = blank
    elif blank and any(slots):
        slots[next(number for number, slot in enumerate(slots) if slot)] = blank
    for number, mark in enumerate(here):
        if mark.tag.kind == "kept":  # visible text, which is separate from the words next to it
            slots[number] = slots[number] or _parting(sides[0] if number == 0 else "")
            slots[number + 1] = slots[number + 1] or _parting(sides[1] if mark is here[-1] else "")
    made: list[str | Tag] = [slots[0]]
    for mark, slot in zip(here, slots[1:], strict=True):
        made += [mark.tag, slot]
    return made


def _parting(side: str) -> str:
    """Return the space between an untranslated piece and a character."""
    return " " if side.isalnum() and not is_unspaced(side) else ""


def _default(here: Sequence[Mark]) -> int:
    """Return where a space goes that no tag had in the source: after closing tags, before opening ones."""
    for number, mark in enumerate(here):
        if mark.tag.kind == "open":
            return number
    return len(here)

"""Insertion of the tags of a source into its translation, each exactly once and properly nested."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import groupby, pairwise

from uwaga.alignment.words import word_spans
from uwaga.markup.inline import Inline, Tag, join_parts
from uwaga.markup.strip_tags import Mark, StrippedText, order_marks, tag_tree
from uwaga.markup.word_parts import divide_words
from uwaga.markup.word_ranges import LinkedWords, choose_ranges
from uwaga.markup.words import is_unspaced, word_links
from uwaga.results.translation import WordAlignment
from uwaga.tokenizers.text import LINE_BREAK, is_control


def insert_tags(
    stripped_text: StrippedText,
    translation: str,
    alignment: WordAlignment | None,
    pairs: Collection[tuple[str, str]] = (),
) -> Inline:
    """Return the translation with the tags of its source.

    A pair of tags is placed around the words aligned with the words that it encloses in the source; an
    unpaired tag is placed after the words aligned with the text before it. Tags inside a word stay inside the
    copy of the word, white space stays on the same side of a tag, and tags around the complete text stay
    around it. The text of the translation does not change, except for white space next to tags.

    Args:
        stripped_text: the source and its tags.
        translation: the translation of the source.
        alignment: any alignment of source and translation, or None.
        pairs: words of the source and their counterparts in the translation, aligned only with each other.
    """
    if not stripped_text.marks:
        return (translation,) if translation else ()
    words = word_spans(stripped_text.text), word_spans(translation)
    links = word_links(stripped_text.text, translation, alignment, *words, pairs)
    sources, targets, links = divide_words(stripped_text, translation, *words, links)
    root = tag_tree(stripped_text.marks)
    choose_ranges(root, stripped_text.marks, LinkedWords.from_links(sources, links, len(targets)))
    ends = [end for _, end in sources]
    edges = [0, *(edge for span in targets for edge in span), len(translation)]
    gaps = [translation[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]
    texts = [translation[start:end] for start, end in targets]
    groups = {
        gap: [stripped_text.marks[number] for number, _ in group]
        for gap, group in groupby(order_marks(root), key=lambda mark_and_gap: mark_and_gap[1])
    }
    parts: list[str | Tag] = []
    for index, whitespace in enumerate(gaps):
        marks = groups.get(index, [])
        if marks:
            neighbours = (
                texts[index - 1][-1:] if index else "",
                texts[index][:1] if index < len(texts) else "",
            )
            at_edge = _is_at_source_edge(marks, index, len(targets), stripped_text, sources)
            words_before = [bisect_right(ends, mark.position) for mark in marks]
            parts += _with_spaces(marks, whitespace, at_edge, neighbours, words_before)
        else:
            parts.append(whitespace)
        if index < len(texts):
            parts.append(texts[index])
    return join_parts(parts)


def _is_at_source_edge(
    marks: Sequence[Mark],
    gap: int,
    word_count: int,
    stripped_text: StrippedText,
    sources: Sequence[tuple[int, int]],
) -> list[bool]:
    """Return for each tag whether it is at the start, or at the end, of both the source and the
    translation.
    """
    if not sources or 0 < gap < word_count:
        return [False] * len(marks)
    source_start, source_end = sources[0][0], sources[-1][1]
    return [
        (gap == 0 and mark.position <= source_start) or (gap == word_count and mark.position >= source_end)
        for mark in marks
    ]


def _with_spaces(
    marks: Sequence[Mark],
    whitespace: str,
    at_edge: Sequence[bool],
    neighbours: tuple[str, str],
    words_before: Sequence[int],
) -> list[str | Tag]:
    """Return the tags between two words, with white space on the same sides as in the source.

    Args:
        marks: the tags.
        whitespace: the white space of the translation between the words.
        at_edge: for each tag, whether white space at the end of the text belongs to it.
        neighbours: the preceding and following character, if any.
        words_before: for each tag, the number of words before it in the source. White space around words that
            are between these tags only in the source is not repeated.
    """
    slots = [""] * (len(marks) + 1)
    for index, (mark, is_at_edge) in enumerate(zip(marks, at_edge, strict=True)):
        if whitespace or is_at_edge:
            slots[index] = slots[index] or mark.left
            slots[index + 1] = mark.right
    word_between = [
        False,
        *(count != next_count for count, next_count in pairwise(words_before)),
        words_before[0] != words_before[-1],
    ]
    for index, is_between in enumerate(word_between):
        if is_between and any(slots[:index]):
            slots[index] = ""
    if whitespace and not any(slots) and not any(mark.divides_sentence for mark in marks):
        slots[_default_slot(marks)] = whitespace
    elif whitespace and any(slots):
        _replace_whitespace(slots, whitespace)
    for index, mark in enumerate(marks):
        if mark.tag.kind == "kept" and not _is_invisible(mark.tag.text):  # separate it from adjacent words
            slots[index] = slots[index] or _separating_space(neighbours[0] if index == 0 else "")
            slots[index + 1] = slots[index + 1] or _separating_space(
                neighbours[1] if mark is marks[-1] else ""
            )
    parts: list[str | Tag] = [slots[0]]
    for mark, slot in zip(marks, slots[1:], strict=True):
        parts += [mark.tag, slot]
    return parts


def _replace_whitespace(slots: list[str], whitespace: str) -> None:
    """Replace the white space of the source with that of the translation, without repeating line breaks."""
    line_breaks = LINE_BREAK.findall(whitespace)
    if line_breaks:
        if LINE_BREAK.findall("".join(slots)) == line_breaks:
            return
        slots[:] = [" " if LINE_BREAK.search(slot) else slot for slot in slots]
    slots[next(index for index, slot in enumerate(slots) if slot)] = whitespace


def _is_invisible(text: str) -> bool:
    """Return whether a text consists of control characters, which are not visible."""
    return bool(text) and all(map(is_control, text))


def _separating_space(character: str) -> str:
    """Return the space needed between an untranslated piece and an adjacent character, or an empty string."""
    return " " if character.isalnum() and not is_unspaced(character) else ""


def _default_slot(marks: Sequence[Mark]) -> int:
    """Return the default slot for white space among tags: before the first opening tag, or after all tags."""
    for index, mark in enumerate(marks):
        if mark.tag.kind == "open":
            return index
    return len(marks)

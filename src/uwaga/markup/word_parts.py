"""Division of words that have tags inside them, such as ``H<sub>2</sub>O``, and of their translations.

Tags are placed between words. A word with tags inside is divided at the tags if its translation shows where
they belong: the translation is the same word, or ends with the same part. Otherwise the tags are placed
around the translation of the whole word.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise

from uwaga.markup.inline import match_pairs
from uwaga.markup.strip_tags import StrippedText
from uwaga.markup.words import Links
from uwaga.results.translation import Span

COMPOUND_PART = re.compile(r"[^-'’]+")
RAISED_TAG = re.compile(r"<(?:\w+:)?su[bp]\b|vertAlign|\sbaseline=")
"""A tag of a subscript or superscript, in HTML, Word or PowerPoint."""


def divide_words(
    stripped_text: StrippedText,
    translation: str,
    sources: Sequence[Span],
    targets: Sequence[Span],
    links: Links,
) -> tuple[Sequence[Span], Sequence[Span], Links]:
    """Return the words, divided at the tags inside them, and their links.

    Args:
        stripped_text: the source and its tags.
        translation: the translation.
        sources: the words of the source.
        targets: the words of the translation.
        links: the links between them.
    """
    cuts = _inner_positions(stripped_text, sources)
    if not cuts:
        return sources, targets, links
    divider = _Divider(stripped_text, translation, sources, targets, links)
    for word, positions in cuts.items():
        divider.divide(word, positions)
    return divider.result()


def _inner_positions(stripped_text: StrippedText, sources: Sequence[Span]) -> dict[int, list[int]]:
    """Return the positions of tags inside words, by the index of the word."""
    starts = [start for start, _ in sources]
    cuts: dict[int, list[int]] = {}
    for mark in stripped_text.marks:
        word = bisect_right(starts, mark.position) - 1
        if word >= 0 and sources[word][0] < mark.position < sources[word][1]:
            positions = cuts.setdefault(word, [])
            if mark.position not in positions[-1:]:
                positions.append(mark.position)
    return cuts


class _Divider:
    """A division of the words of a source and its translation, built word by word."""

    def __init__(
        self,
        stripped_text: StrippedText,
        translation: str,
        sources: Sequence[Span],
        targets: Sequence[Span],
        links: Links,
    ) -> None:
        self._text, self._translation = stripped_text.text, translation
        self._sources, self._targets, self._links = sources, targets, links
        self._source_cuts: dict[int, list[int]] = {}
        self._target_cuts: dict[int, list[int]] = {}
        self._counterparts: dict[int, int] = {}  # start of a source part: start of its only counterpart
        self._unlinked: set[int] = set()  # starts of parts of the source
        self._copies: dict[str, deque[Span]] = {}  # parts of the translation by text in lower case
        for start, end in targets:
            for match in COMPOUND_PART.finditer(translation[start:end]):
                span = start + match.start(), start + match.end()
                self._copies.setdefault(match[0].lower(), deque()).append(span)
        self._target_starts = [start for start, _ in targets]
        self._raised_spans: dict[int, list[Span]] = {}  # spans of superscripts and subscripts, by word
        self._has_initial = False  # whether a pair of tags encloses only the first letter
        starts = [start for start, _ in sources]
        for opening, closing in match_pairs([mark.tag for mark in stripped_text.marks]).items():
            low, high = stripped_text.marks[opening].position, stripped_text.marks[closing].position
            word = bisect_right(starts, low) - 1
            if word < 0 or not low < high <= sources[word][1] or (low, high) == sources[word]:
                continue
            if (low, high) == (sources[0][0], sources[0][0] + 1):
                self._has_initial = True
            if RAISED_TAG.search(stripped_text.marks[opening].tag.raw):
                self._raised_spans.setdefault(word, []).append((low, high))

    def divide(self, word: int, positions: Sequence[int]) -> None:
        """Divide a word at the positions of tags, if its translation shows where they belong."""
        start, end = self._sources[word]
        for match in COMPOUND_PART.finditer(self._text[start:end]):
            low, high = start + match.start(), start + match.end()
            inner_positions = [position for position in positions if low < position < high]
            if inner_positions and self._divide_copy(word, low, high, inner_positions):
                return
        if word == 0 and self._has_initial and self._divide_initial(word):
            return
        raised_spans = self._raised_spans.get(word, [])
        if raised_spans and not self._divide_end(word, positions[-1]):
            self._source_cuts[word] = list(positions)
            self._unlinked |= {
                part for part in (start, *positions) if any(low <= part < high for low, high in raised_spans)
            }

    def _divide_copy(self, word: int, low: int, high: int, inner_positions: Sequence[int]) -> bool:
        copies = self._copies.get(self._text[low:high].lower())
        if not copies:
            return False
        first, last = copies.popleft()
        target = bisect_right(self._target_starts, first) - 1
        if target in self._target_cuts or last - first != high - low:
            return False
        offset = first - low
        edges = [low, *inner_positions, high]
        self._source_cuts[word] = edges
        self._target_cuts[target] = [edge + offset for edge in edges]
        self._counterparts |= {edge: edge + offset for edge in edges[:-1]}
        return True

    def _divide_initial(self, word: int) -> bool:
        """Divide the first word after its first letter, which may be a drop cap, and return whether
        it is divided.
        """
        if not self._targets or 0 in self._target_cuts:
            return False
        start, end = self._targets[0]
        if end - start < 2 or not self._translation[start].isalpha():
            return False
        source = self._sources[word][0]
        self._source_cuts[word], self._target_cuts[0] = [source + 1], [start + 1]
        self._counterparts[source] = start
        return True

    def _divide_end(self, word: int, position: int) -> bool:
        """Divide a word before its last part if a word of its translation ends with the same part.

        Returns:
            whether the word is divided.
        """
        part = self._text[position : self._sources[word][1]].lower()
        for target in self._links[word]:
            start, end = self._targets[target]
            cut = end - len(part)
            if target not in self._target_cuts and cut > start and self._translation[cut:end].lower() == part:
                self._source_cuts[word], self._target_cuts[target] = [position], [cut]
                self._counterparts[position] = cut
                return True
        return False

    def result(self) -> tuple[Sequence[Span], Sequence[Span], Links]:
        """Return the parts of the source words, the parts of the target words, and their links."""
        sources, source_parts = _cut(self._sources, self._source_cuts)
        targets, target_parts = _cut(self._targets, self._target_cuts)
        target_indices = {start: index for index, (start, _) in enumerate(targets)}
        used_numbers = {target_indices[start] for start in self._counterparts.values()}
        links: list[dict[int, float]] = []
        for word, parts in enumerate(source_parts):
            free_links = {
                part: probability
                for target, probability in self._links[word].items()
                for part in target_parts[target]
                if part not in used_numbers
            }
            for start, _ in sources[parts.start : parts.stop]:
                if start in self._counterparts:
                    links.append({target_indices[self._counterparts[start]]: 1.0})
                else:
                    links.append({} if start in self._unlinked else free_links)
        return sources, targets, tuple(links)


def _cut(spans: Sequence[Span], cuts: Mapping[int, Sequence[int]]) -> tuple[list[Span], list[range]]:
    """Return the spans cut at the given positions, and for each span the range of the indices of
    its parts.
    """
    parts: list[Span] = []
    ranges: list[range] = []
    for index, (start, end) in enumerate(spans):
        part_start = len(parts)
        parts += pairwise(sorted({start, *cuts.get(index, ()), end}))
        ranges.append(range(part_start, len(parts)))
    return parts, ranges

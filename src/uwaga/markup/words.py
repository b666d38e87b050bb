"""Word links for the placement of tags, which go between words, never inside a word."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence

from uwaga.alignment.words import UNSPACED
from uwaga.results.translation import Span, WordAlignment

UNSPACED_LETTER = re.compile(f"[{UNSPACED}]")
Links = tuple[dict[int, float], ...]
"""For each source word, the probabilities of its links by target word, ascending."""
LINK_THRESHOLD = 0.5
"""Minimum probability of a pair of words that counts as linked."""


def is_unspaced(character: str) -> bool:
    """Return whether a character belongs to a script without spaces between words."""
    return UNSPACED_LETTER.fullmatch(character) is not None


def overlapping(spans: Sequence[Span], starts: Sequence[int], start: int, end: int) -> range:
    """Return the indices of the spans that overlap another span; for an empty one, of the span around it.

    Args:
        spans: ascending, without overlaps.
        starts: their start offsets.
        start: the start of the other span.
        end: the end of the other span.
    """
    first = max(bisect_right(starts, start) - 1, 0)
    if first < len(spans) and spans[first][1] <= start:
        first += 1
    return range(first, max(first, bisect_left(starts, end)))


def word_links(
    source: str,
    target: str,
    alignment: WordAlignment | None,
    sources: Sequence[Span],
    targets: Sequence[Span],
    copied_words: Collection[str] = (),
) -> Links:
    """Convert an alignment to links between these words, and add obvious missing links.

    Equal unlinked words that occur once in each text are linked. Without an alignment, words are linked in
    order.

    Args:
        source: a text.
        target: its translation.
        alignment: the alignment of the two, if known.
        sources: the words of the source.
        targets: the words of the target.
        copied_words: words that occur once in both texts, each aligned only with itself.
    """
    links: list[dict[int, float]] = [{} for _ in sources]
    if alignment is not None:
        projected = project(alignment.source, sources), project(alignment.target, targets)
        for (i, j), probability in alignment.link_probabilities.items():
            for word in projected[0][i]:
                for partner in projected[1][j]:
                    links[word][partner] = max(probability, links[word].get(partner, 0.0))
    _link_copied_words(copied_words, source, target, sources, targets, links)
    linked_targets = {
        partner
        for partners in links
        for partner, probability in partners.items()
        if probability >= LINK_THRESHOLD
    }
    unlinked_sources = {
        source[slice(*sources[word])]: word
        for word, partners in enumerate(links)
        if not any(probability >= LINK_THRESHOLD for probability in partners.values())
    }
    repeated = _find_repeated([source[slice(*span)] for span in sources])
    repeated |= _find_repeated([target[slice(*span)] for span in targets])
    for j, span in enumerate(targets):
        text = target[slice(*span)]
        if j not in linked_targets and text in unlinked_sources and text not in repeated:
            links[unlinked_sources[text]][j] = 1.0
    if not any(links) and targets:
        for word in range(len(sources)):
            links[word][word * len(targets) // len(sources)] = 1.0
    return tuple(dict(sorted(partners.items())) for partners in links)


def _link_copied_words(
    copied_words: Collection[str],
    source: str,
    target: str,
    sources: Sequence[Span],
    targets: Sequence[Span],
    links: Sequence[dict[int, float]],
) -> None:
    """Link each of these words only with itself, if it occurs once in both texts."""
    if not copied_words:
        return
    source_positions, target_positions = _positions(source, sources), _positions(target, targets)
    pairs = {
        source_positions[text][0]: target_positions[text][0]
        for text in copied_words
        if len(source_positions.get(text, ())) == len(target_positions.get(text, ())) == 1
    }
    copied_targets = frozenset(pairs.values())
    for word, partners in enumerate(links):
        for partner in [partner for partner in partners if partner in copied_targets or word in pairs]:
            del partners[partner]
        if word in pairs:
            partners[pairs[word]] = 1.0


def _positions(text: str, spans: Sequence[Span]) -> dict[str, list[int]]:
    """Return the indices of the words of a text by word."""
    numbers: dict[str, list[int]] = {}
    for number, (start, end) in enumerate(spans):
        numbers.setdefault(text[start:end], []).append(number)
    return numbers


def project(spans: Sequence[Span], words: Sequence[Span]) -> list[range]:
    """Return for each span the indices of the words that it overlaps; none for an empty span."""
    starts = [start for start, _ in words]
    return [overlapping(words, starts, start, end) if end > start else range(0) for start, end in spans]


def project_links(
    alignment: WordAlignment, source_words: Sequence[Iterable[int]], target_words: Sequence[Sequence[int]]
) -> tuple[set[tuple[int, int]], list[tuple[tuple[int, int], float]]]:
    """Return the links of an alignment and their probabilities, transferred to other words.

    Args:
        alignment: the alignment.
        source_words: for each of its source words, the indices of the words that take its place.
        target_words: the same for its target words.
    """
    links = {
        (i, j) for first, second in alignment.links for i in source_words[first] for j in target_words[second]
    }
    probabilities = [
        ((i, j), probability)
        for first, second, probability in alignment.likely
        for i in source_words[first]
        for j in target_words[second]
    ]
    return links, probabilities


def _find_repeated(words: Sequence[str]) -> set[str]:
    seen, repeated = set[str](), set[str]()
    for word in words:
        (repeated if word in seen else seen).add(word)
    return repeated

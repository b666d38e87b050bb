"""Links between the words of a text and of its translation; they determine where tags are placed."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence

from uwaga.alignment.words import UNSPACED_LETTERS, split_words
from uwaga.results.translation import Span, WordAlignment

UNSPACED_LETTER = re.compile(f"[{UNSPACED_LETTERS}]")
Links = tuple[dict[int, float], ...]
"""For each source word, the target words that it is linked to, in ascending order, with the links'
probabilities."""
LINK_THRESHOLD = 0.5
"""Minimum probability at which two words count as linked."""


def is_unspaced(character: str) -> bool:
    """Return whether a character belongs to a script without spaces between words."""
    return UNSPACED_LETTER.fullmatch(character) is not None


def overlapping(spans: Sequence[Span], starts: Sequence[int], start: int, end: int) -> range:
    """Return the indices of the spans that overlap a given span or, if that span is empty, contain it.

    Args:
        spans: spans in ascending order, without overlaps.
        starts: the start offset of each span.
        start: the start of the given span.
        end: the end of the given span.
    """
    index = max(bisect_right(starts, start) - 1, 0)
    if index < len(spans) and spans[index][1] <= start:
        index += 1
    return range(index, max(index, bisect_left(starts, end)))


def word_links(
    source: str,
    target: str,
    alignment: WordAlignment | None,
    sources: Sequence[Span],
    targets: Sequence[Span],
    pairs: Collection[tuple[str, str]] = (),
) -> Links:
    """Return the links of an alignment between the given words, with obvious missing links added.

    Equal unlinked words that occur once in each text are linked. Without an alignment, words are linked in
    order.

    Args:
        source: a text.
        target: its translation.
        alignment: the alignment of the two, if known.
        sources: the words of the source.
        targets: the words of the target.
        pairs: words of the source and their counterparts in the target, such as the terms of a glossary; they
            are linked only with each other if they occur equally often.
    """
    links: list[dict[int, float]] = [{} for _ in sources]
    if alignment is not None:
        projected_words = project(alignment.source, sources), project(alignment.target, targets)
        for (i, j), probability in alignment.link_probabilities.items():
            for word in projected_words[0][i]:
                for partner in projected_words[1][j]:
                    links[word][partner] = max(probability, links[word].get(partner, 0.0))
    texts = [source[slice(*span)] for span in sources], [target[slice(*span)] for span in targets]
    _link_pairs(pairs, *texts, links)
    linked_targets = {
        partner
        for partners in links
        for partner, probability in partners.items()
        if probability >= LINK_THRESHOLD
    }
    unlinked_sources = {
        texts[0][word]: word
        for word, partners in enumerate(links)
        if not any(probability >= LINK_THRESHOLD for probability in partners.values())
    }
    repeated_words = _find_repeated(texts[0]) | _find_repeated(texts[1])
    for j, text in enumerate(texts[1]):
        if j not in linked_targets and text in unlinked_sources and text not in repeated_words:
            links[unlinked_sources[text]][j] = 1.0
    if not any(links) and targets:
        for word in range(len(sources)):
            links[word][word * len(targets) // len(sources)] = 1.0
    return tuple(dict(sorted(partners.items())) for partners in links)


def _link_pairs(
    pairs: Collection[tuple[str, str]],
    sources: Sequence[str],
    targets: Sequence[str],
    links: Sequence[dict[int, float]],
) -> None:
    """Link the words of each pair with each other, and with no other words.

    Existing links between the two sides of a pair are kept. A word without such a link is linked with all
    words of the other side.
    """
    if not pairs:
        return
    source_runs, target_runs = _WordIndex(sources), _WordIndex(targets)
    partners: dict[int, range] = {}
    for source_text, target_text in dict.fromkeys(pairs):
        runs, target_parts = source_runs.find(source_text), target_runs.find(target_text)
        if len(runs) == len(target_parts):
            for run, part in zip(runs, target_parts, strict=True):
                partners |= dict.fromkeys(run, part)
    paired_targets = {target for part in partners.values() for target in part}
    for word, word_links in enumerate(links):
        part = partners.get(word, range(0))
        for target in list(word_links):
            if target not in part and (part or target in paired_targets):
                del word_links[target]
    linked_targets = {target for word in partners for target in _certain_targets(links[word])}
    for word, part in partners.items():
        is_linked = bool(_certain_targets(links[word]))
        links[word].update((target, 1.0) for target in part if not (is_linked and target in linked_targets))


def _certain_targets(word_links: Mapping[int, float]) -> list[int]:
    return [target for target, probability in word_links.items() if probability >= LINK_THRESHOLD]


class _WordIndex:
    """An index of the words of a text, in which sequences of words are found; case is ignored."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = [word.casefold() for word in words]
        self._positions: dict[str, list[int]] = {}
        for index, word in enumerate(self._words):
            self._positions.setdefault(word, []).append(index)

    def find(self, text: str) -> list[range]:
        """Return the ranges of words at which the words of ``text`` occur in sequence, without overlaps."""
        words, runs = split_words(text.casefold()), list[range]()
        for start in self._positions.get(words[0], ()) if words else ():
            end = start + len(words)
            if self._words[start:end] == words and (not runs or runs[-1].stop <= start):
                runs.append(range(start, end))
        return runs


def project(spans: Sequence[Span], words: Sequence[Span]) -> list[range]:
    """Return, for each span, the range of the indices of the words that it overlaps; for an empty span, the
    range is empty.
    """
    starts = [start for start, _ in words]
    return [overlapping(words, starts, start, end) if end > start else range(0) for start, end in spans]


def project_links(
    alignment: WordAlignment, source_words: Sequence[Iterable[int]], target_words: Sequence[Sequence[int]]
) -> tuple[set[tuple[int, int]], list[tuple[tuple[int, int], float]]]:
    """Return the links of an alignment and their probabilities, transferred to other words.

    Args:
        alignment: the alignment.
        source_words: for each source word of the alignment, the indices of the words that replace it.
        target_words: for each target word of the alignment, the indices of the words that replace it.
    """
    links = {
        (i, j)
        for source_index, target_index in alignment.links
        for i in source_words[source_index]
        for j in target_words[target_index]
    }
    probabilities = [
        ((i, j), probability)
        for source_index, target_index, probability in alignment.likely
        for i in source_words[source_index]
        for j in target_words[target_index]
    ]
    return links, probabilities


def _find_repeated(words: Sequence[str]) -> set[str]:
    seen_words, repeated_words = set[str](), set[str]()
    for word in words:
        (repeated_words if word in seen_words else seen_words).add(word)
    return repeated_words

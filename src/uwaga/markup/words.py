"""Word links for placing tags: a tag goes between words, never inside one."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence

from uwaga.alignment.words import UNSPACED
from uwaga.results.translation import Span, WordAlignment

UNSPACED_LETTER = re.compile(f"[{UNSPACED}]")
Links = tuple[dict[int, float], ...]
"""For each source word the target words that it may be linked to, ascending, and the probabilities."""
LINKED = 0.5
"""The probability from which a pair of words counts as linked."""


def is_unspaced(character: str) -> bool:
    """Return whether a character belongs to a script without spaces between words."""
    return UNSPACED_LETTER.fullmatch(character) is not None


def overlapping(spans: Sequence[Span], starts: Sequence[int], start: int, end: int) -> range:
    """Return which spans overlap another one; if that is empty, the span around it.

    Args:
        spans: rising and apart.
        starts: their first characters.
        start: the start of the other.
        end: the end of the other.
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
    same: Collection[str] = (),
) -> Links:
    """Convert an alignment to links between these words, and guess missing links where that is easy.

    Unlinked words that occur once in each text and are equal are linked. Without an alignment, words are
    linked in order.

    Args:
        source: a text.
        target: its translation.
        alignment: the alignment of the two, if known.
        sources: the words of the source.
        targets: those of the target.
        same: words that are aligned with themselves alone, each once in both texts.
    """
    links: list[dict[int, float]] = [{} for _ in sources]
    if alignment is not None:
        ours = _projected(alignment.source, sources), _projected(alignment.target, targets)
        for (one, other), chance in alignment.chances.items():
            for word in ours[0][one]:
                for there in ours[1][other]:
                    links[word][there] = max(chance, links[word].get(there, 0.0))
    _bind(same, source, target, sources, targets, links)
    linked = {other for one in links for other, chance in one.items() if chance >= LINKED}
    free = {
        source[slice(*sources[word])]: word
        for word, own in enumerate(links)
        if not any(chance >= LINKED for chance in own.values())
    }
    twice = _repeated([source[slice(*span)] for span in sources])
    twice |= _repeated([target[slice(*span)] for span in targets])
    for other, span in enumerate(targets):
        text = target[slice(*span)]
        if other not in linked and text in free and text not in twice:
            links[free[text]][other] = 1.0
    if not any(links) and targets:
        for word in range(len(sources)):
            links[word][word * len(targets) // len(sources)] = 1.0
    return tuple(dict(sorted(one.items())) for one in links)


def _bind(
    same: Collection[str],
    source: str,
    target: str,
    sources: Sequence[Span],
    targets: Sequence[Span],
    links: Sequence[dict[int, float]],
) -> None:
    """Link each of these words with itself alone, if it occurs once in both texts."""
    if not same:
        return
    here, there = _positions(source, sources), _positions(target, targets)
    pairs = {
        here[text][0]: there[text][0]
        for text in same
        if len(here.get(text, ())) == len(there.get(text, ())) == 1
    }
    taken = frozenset(pairs.values())
    for word, own in enumerate(links):
        for other in [other for other in own if other in taken or word in pairs]:
            del own[other]
        if word in pairs:
            own[pairs[word]] = 1.0


def _positions(text: str, spans: Sequence[Span]) -> dict[str, list[int]]:
    """Return the numbers of the words of a text, by the words."""
    numbers: dict[str, list[int]] = {}
    for number, (start, end) in enumerate(spans):
        numbers.setdefault(text[start:end], []).append(number)
    return numbers


def _projected(spans: Sequence[Span], words: Sequence[Span]) -> list[range]:
    starts = [start for start, _ in words]
    return [overlapping(words, starts, start, end) if end > start else range(0) for start, end in spans]


def _repeated(words: Sequence[str]) -> set[str]:
    seen, twice = set[str](), set[str]()
    for word in words:
        (twice if word in seen else seen).add(word)
    return twice

"""Alignment of subword pieces, and the word alignment that follows from it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uwaga.alignment.link_evidence import link_probabilities, word_maps
from uwaga.results.attention import Floats
from uwaga.results.translation import Span, WordAlignment, noisy_or
from uwaga.settings import LinkModel

MIN_PROBABILITY = 0.05
"""Smallest link probability that is kept."""
LEAST_WEIGHT = 0.2
"""Smallest weight by which a source word is linked that no target piece weights most."""


@dataclass(frozen=True, eq=False)
class PieceAlignment:
    """Alignment of the pieces of a sentence and its translation.

    Attributes:
        source: span of each source piece in the whole source text; None for special tokens, such as the end
            symbol, and for pieces that are not in the text. Spans ascend; that of white space is empty.
        target: span of each target piece in the whole translation; the end symbol is left out.
        weights: (target, source) alignment weights; each row sums to 1.
        copied: True if the sentence was copied instead of translated: pieces are words, aligned one to one.
        maps: (heads, target, source) weights of the heads that align together; None if one head aligns.
    """

    source: tuple[Span | None, ...]
    target: tuple[Span | None, ...]
    weights: Floats
    copied: bool = False
    maps: Floats | None = None


def align_words(
    sentences: Sequence[PieceAlignment],
    source: Sequence[Span],
    target: Sequence[Span],
    texts: tuple[str, str] | None = None,
    model: LinkModel | None = None,
) -> WordAlignment:
    """Return the word alignment of a text.

    A target word is linked to the words of the source piece with the largest weight for each of its pieces
    (Garg 2019 §4.1); source pieces that are not in the text, such as the end symbol, add no link. A source
    word that is left without a link gets the target words of the piece that weights it most, by at least
    :data:`LEAST_WEIGHT`; words are not linked to punctuation. With a link model, pairs of a probability above
    0.5 are linked instead.

    Args:
        sentences: piece alignments in the order of the text.
        source: spans of the source words, from :func:`uwaga.alignment.words.word_spans`.
        target: spans of the words of the translation.
        texts: the source and the translation, for the link model.
        model: weights of the regression over ``maps``.
    """
    links: set[tuple[int, int]] = set()
    likely: list[tuple[tuple[int, int], float]] = []
    sides = WordIndex(source), WordIndex(target)
    for sentence in sentences:
        if not sentence.weights.size:
            continue
        owners = [
            side.of_all(spans) for side, spans in zip(sides, (sentence.source, sentence.target), strict=True)
        ]
        if model is not None and texts is not None and sentence.maps is not None:
            words = [
                [text[a:b] for a, b in spans] for text, spans in zip(texts, (source, target), strict=True)
            ]
            chances = _link_probabilities(sentence.maps, owners, words, model)
            likely += chances
            links.update(pair for pair, chance in chances if chance > 0.5)
            continue
        pairs = _largest_weights(sentence.weights, owners)
        if texts is not None:
            pairs = {pair for pair in pairs if _both_letters(pair, texts, (source, target))}
        likely += [(pair, 1.0) for pair in pairs]
        links |= pairs
    probabilities = noisy_or(likely) if model is not None else ()
    return WordAlignment(tuple(source), tuple(target), tuple(sorted(links)), probabilities)


def _largest_weights(weights: Floats, owners: Sequence[Sequence[range]]) -> set[tuple[int, int]]:
    """Return the links by the largest weights of each target piece, and of source words without a link."""
    favourites = weights.argmax(axis=1).tolist()
    pairs = {
        (source, target)
        for favourite, targets in zip(favourites, owners[1], strict=True)
        for source in owners[0][favourite]
        for target in targets
    }
    linked = {source for source, _ in pairs}
    best, largest = weights.argmax(axis=0).tolist(), weights.max(axis=0).tolist()
    for favourite, weight, sources in zip(best, largest, owners[0], strict=True):
        if weight >= LEAST_WEIGHT and not linked.issuperset(sources):
            pairs.update((source, target) for source in sources for target in owners[1][favourite])
    return pairs


def _both_letters(pair: tuple[int, int], texts: tuple[str, str], sides: Sequence[Sequence[Span]]) -> bool:
    """Return True if both words have letters or digits, or neither has."""
    first, second = (text[side[at][0]].isalnum() for text, side, at in zip(texts, sides, pair, strict=True))
    return first == second


def _link_probabilities(
    maps: Floats, owners: Sequence[Sequence[range]], words: Sequence[Sequence[str]], model: LinkModel
) -> list[tuple[tuple[int, int], float]]:
    """Return pairs of words of a sentence with their link probabilities."""
    first = [min((owned.start for owned in side if owned), default=0) for side in owners]
    inside = [
        [range(owned.start - low, owned.stop - low) if owned else range(0) for owned in side]
        for side, low in zip(owners, first, strict=True)
    ]
    maps_of_words = word_maps(maps, *inside)
    own_words = [
        side[low : low + size]
        for side, low, size in zip(words, first, maps_of_words.shape[:0:-1], strict=True)
    ]
    likely = link_probabilities(model, maps_of_words, *own_words)
    return [
        ((first[0] + source_word, first[1] + target_word), round(float(likely[target_word, source_word]), 4))
        for target_word, source_word in np.argwhere(likely >= MIN_PROBABILITY).tolist()
    ]


def chained(steps: Sequence[WordAlignment | None]) -> WordAlignment | None:
    """Compose the alignments of a chain of models; None if a step has none.

    The target words of each step must be the source words of the next.
    """
    alignments = [step for step in steps if step is not None]
    if len(alignments) < len(steps):
        return None
    whole = alignments[0]
    for step in alignments[1:]:
        further: dict[int, list[int]] = {}
        for middle, target_word in step.links:
            further.setdefault(middle, []).append(target_word)
        links = {
            (source, target_word) for source, middle in whole.links for target_word in further.get(middle, ())
        }
        likely = _chained_probabilities(whole, step) if whole.likely or step.likely else ()
        whole = WordAlignment(whole.source, step.target, tuple(sorted(links)), likely)
    return whole


def _chained_probabilities(first: WordAlignment, second: WordAlignment) -> tuple[tuple[int, int, float], ...]:
    """Return the link probabilities of two composed alignments."""
    further: dict[int, list[tuple[int, float]]] = {}
    for (middle, target_word), chance in second.chances.items():
        further.setdefault(middle, []).append((target_word, chance))
    return noisy_or(
        ((source, target_word), chance * more)
        for (source, middle), chance in first.chances.items()
        for target_word, more in further.get(middle, ())
        if chance * more >= MIN_PROBABILITY
    )


class WordIndex:
    """The words of a text by position."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]

    def of_all(self, spans: Sequence[Span | None]) -> list[range]:
        """Return the words of each piece; see :meth:`of`."""
        return [self.of(span) for span in spans]

    def of(self, span: Span | None) -> range:
        """Return the words that a piece overlaps; white space belongs to the word after it."""
        if span is None:
            return range(0)
        start, end = span
        return range(bisect_right(self._ends, start), bisect_left(self._starts, max(end, start + 1)))

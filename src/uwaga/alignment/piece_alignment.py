"""Alignment of subword pieces, and the word alignment that is derived from it."""

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
"""Minimum probability of a reported link."""
MIN_WEIGHT = 0.2
"""Minimum weight of a link that is added for a source word without any other link."""


@dataclass(frozen=True, eq=False)
class PieceAlignment:
    """Alignment of the pieces of a sentence and its translation.

    Attributes:
        source: span of each source piece in the source text; None for special tokens, such as the end
            symbol, and for pieces that are not in the text. Spans are ascending; the spans of white space
            are empty.
        target: span of each target piece in the translation, without the end symbol.
        weights: (target, source) alignment weights; each row sums to 1.
        copied: True if the sentence was copied instead of translated; its pieces are words, aligned one to
            one.
        maps: (heads, target, source) weights of the heads of a link model; None for a single head.
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

    Each piece of a target word links the word to the words of the source piece on which it has the largest
    weight (Garg 2019 §4.1); source pieces that are not in the text, such as the end symbol, add no link. A
    source word without a link is then linked to the words of the target piece with the largest weight on it,
    if that weight is at least :data:`MIN_WEIGHT`. Words are not linked to punctuation. With a link model,
    pairs with a probability above 0.5 are linked instead.

    Args:
        sentences: piece alignments in the order of the text.
        source: spans of the source words, from :func:`uwaga.alignment.words.word_spans`.
        target: spans of the words of the translation.
        texts: the source and the translation, for the link model.
        model: weights of the regression over ``maps``.
    """
    links: set[tuple[int, int]] = set()
    scored_pairs: list[tuple[tuple[int, int], float]] = []
    indexes = WordIndex(source), WordIndex(target)
    for sentence in sentences:
        if not sentence.weights.size:
            continue
        piece_words = [
            index.word_ranges_of_pieces(spans)
            for index, spans in zip(indexes, (sentence.source, sentence.target), strict=True)
        ]
        if model is not None and texts is not None and sentence.maps is not None:
            word_texts = [
                [text[a:b] for a, b in spans] for text, spans in zip(texts, (source, target), strict=True)
            ]
            pair_probabilities = _link_probabilities(sentence.maps, piece_words, word_texts, model)
            scored_pairs += pair_probabilities
            links.update(pair for pair, probability in pair_probabilities if probability > 0.5)
            continue
        pairs = _largest_weight_links(sentence.weights, piece_words)
        if texts is not None:
            pairs = {pair for pair in pairs if _both_have_letters(pair, texts, (source, target))}
        scored_pairs += [(pair, 1.0) for pair in pairs]
        links |= pairs
    probabilities = noisy_or(scored_pairs) if model is not None else ()
    return WordAlignment(tuple(source), tuple(target), tuple(sorted(links)), probabilities)


def _largest_weight_links(weights: Floats, piece_words: Sequence[Sequence[range]]) -> set[tuple[int, int]]:
    """Return the links with the largest weight for each target piece and for each unlinked source word."""
    strongest_sources = weights.argmax(axis=1).tolist()
    pairs = {
        (source, target)
        for strongest_source, targets in zip(strongest_sources, piece_words[1], strict=True)
        for source in piece_words[0][strongest_source]
        for target in targets
    }
    linked_words = {source for source, _ in pairs}
    strongest_targets, largest = weights.argmax(axis=0).tolist(), weights.max(axis=0).tolist()
    for strongest_target, weight, sources in zip(strongest_targets, largest, piece_words[0], strict=True):
        if weight >= MIN_WEIGHT and not linked_words.issuperset(sources):
            pairs.update(
                (source, target) for source in sources for target in piece_words[1][strongest_target]
            )
    return pairs


def _both_have_letters(
    pair: tuple[int, int], texts: tuple[str, str], sides: Sequence[Sequence[Span]]
) -> bool:
    """Return True if both words of a pair start with a letter or digit, or neither does."""
    first_side, second = (
        text[side[index][0]].isalnum() for text, side, index in zip(texts, sides, pair, strict=True)
    )
    return first_side == second


def _link_probabilities(
    maps: Floats, piece_words: Sequence[Sequence[range]], words: Sequence[Sequence[str]], model: LinkModel
) -> list[tuple[tuple[int, int], float]]:
    """Return the word pairs of a sentence that are probable enough, with their link probabilities."""
    offsets = [
        min((span_words.start for span_words in text_words if span_words), default=0)
        for text_words in piece_words
    ]
    local_words = [
        [
            range(span_words.start - offset, span_words.stop - offset) if span_words else range(0)
            for span_words in text_words
        ]
        for text_words, offset in zip(piece_words, offsets, strict=True)
    ]
    word_level_maps = word_maps(maps, *local_words)
    sentence_words = [
        text_words[offset : offset + size]
        for text_words, offset, size in zip(words, offsets, word_level_maps.shape[:0:-1], strict=True)
    ]
    probabilities = link_probabilities(model, word_level_maps, *sentence_words)
    return [
        (
            (offsets[0] + source_word, offsets[1] + target_word),
            round(float(probabilities[target_word, source_word]), 4),
        )
        for target_word, source_word in np.argwhere(probabilities >= MIN_PROBABILITY).tolist()
    ]


def concatenate_alignments(parts: Sequence[WordAlignment]) -> WordAlignment:
    """Return the alignment of a text whose parts are aligned; their spans are positions in the text."""
    links, likely_links = list[tuple[int, int]](), list[tuple[int, int, float]]()
    has_probabilities = any(part.likely for part in parts)
    sources, targets = list[Span](), list[Span]()
    for part in parts:
        source_count, target_count = len(sources), len(targets)
        links += [(source_count + source, target_count + target) for source, target in part.links]
        if has_probabilities:
            likely_links += [
                (source_count + source, target_count + target, probability)
                for (source, target), probability in part.link_probabilities.items()
            ]
        sources += part.source
        targets += part.target
    return WordAlignment(tuple(sources), tuple(targets), tuple(links), tuple(likely_links))


def compose_alignments(steps: Sequence[WordAlignment | None]) -> WordAlignment | None:
    """Compose the alignments of the models of a chain; return None if an alignment is missing.

    The target words of each step must be the source words of the next.
    """
    alignments = [step for step in steps if step is not None]
    if len(alignments) < len(steps):
        return None
    composed_alignment = alignments[0]
    for step in alignments[1:]:
        targets_by_source: dict[int, list[int]] = {}
        for middle_word, target_word in step.links:
            targets_by_source.setdefault(middle_word, []).append(target_word)
        links = {
            (source, target_word)
            for source, middle_word in composed_alignment.links
            for target_word in targets_by_source.get(middle_word, ())
        }
        probabilities = (
            _composed_probabilities(composed_alignment, step)
            if composed_alignment.likely or step.likely
            else ()
        )
        composed_alignment = WordAlignment(
            composed_alignment.source, step.target, tuple(sorted(links)), probabilities
        )
    return composed_alignment


def _composed_probabilities(
    first: WordAlignment, second: WordAlignment
) -> tuple[tuple[int, int, float], ...]:
    """Return the link probabilities of the composition of two alignments."""
    targets_by_source: dict[int, list[tuple[int, float]]] = {}
    for (middle_word, target_word), probability in second.link_probabilities.items():
        targets_by_source.setdefault(middle_word, []).append((target_word, probability))
    return noisy_or(
        ((source, target_word), probability * next_probability)
        for (source, middle_word), probability in first.link_probabilities.items()
        for target_word, next_probability in targets_by_source.get(middle_word, ())
        if probability * next_probability >= MIN_PROBABILITY
    )


class WordIndex:
    """An index of the words of a text by character position."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]

    def word_ranges_of_pieces(self, spans: Sequence[Span | None]) -> list[range]:
        """Return the range of words that each piece overlaps; see :meth:`overlapping`."""
        return [self.overlapping(span) for span in spans]

    def overlapping(self, span: Span | None) -> range:
        """Return the range of words that a piece overlaps; white space belongs to the next word."""
        if span is None:
            return range(0)
        start, end = span
        return range(bisect_right(self._ends, start), bisect_left(self._starts, max(end, start + 1)))

"""Which pieces of a sentence's translation come from which of its source, and the words that they make."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uwaga.alignment.link_evidence import link_probabilities, word_maps
from uwaga.results.attention import Floats
from uwaga.results.translation import Span, WordAlignment, noisy_or
from uwaga.settings import LinkModel

LEAST = 0.05
"""How likely two words must be linked for that to be remembered."""


@dataclass(frozen=True, eq=False)
class PieceAlignment:
    """One sentence of a text and its translation, piece by piece.

    Attributes:
        source: the place of each source piece in the whole source text; None of special tokens, such as the
            end symbol, and of what the text does not have. Spans rise; that of a piece of white space is
            empty.
        target: the place of each target piece in the whole translation, likewise; the end symbol has no row.
        weights: (target, source) how much of each target piece comes from each source piece; a row sums to 1.
        copied: the sentence was not translated but copied: pieces are its words, each from itself alone.
        maps: (heads, target, source) the same of each head by which words are linked together; None where one
            alone links them.
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
    """The links of a text's words: a target word to all that hold the favourite of one of its pieces.

    The favourite of a target piece is the source piece of which it has most (Garg 2019 §4.1). One that stands
    for nothing in the text, such as the end of the sentence, adds no link. Where a model says how likely
    words are linked, those are that are likelier so than not.

    Args:
        sentences: pieces and where they come from, in the order of the text.
        source: the places of the words of the source, from :func:`uwaga.alignment.words.word_spans`.
        target: likewise of the translation.
        texts: the source and the translation, for the model.
        model: weights of what the ``maps`` of the sentences say.
    """
    links: set[tuple[int, int]] = set()
    likely: list[tuple[tuple[int, int], float]] = []
    sides = WordIndex(source), WordIndex(target)
    for one in sentences:
        if not one.weights.size:
            continue
        owners = [side.of_all(spans) for side, spans in zip(sides, (one.source, one.target), strict=True)]
        if model is not None and texts is not None and one.maps is not None:
            words = [
                [text[a:b] for a, b in spans] for text, spans in zip(texts, (source, target), strict=True)
            ]
            chances = _chances(one.maps, owners, words, model)
            likely += chances
            links.update(pair for pair, chance in chances if chance > 0.5)
            continue
        own: set[tuple[int, int]] = set()
        for words_of, favourite in zip(owners[1], one.weights.argmax(axis=1).tolist(), strict=True):
            own.update((here, there) for here in owners[0][favourite] for there in words_of)
        likely += [(pair, 1.0) for pair in own]
        links |= own
    known = noisy_or(likely) if model is not None else ()
    return WordAlignment(tuple(source), tuple(target), tuple(sorted(links)), known)


def _chances(
    maps: Floats, owners: Sequence[Sequence[range]], words: Sequence[Sequence[str]], model: LinkModel
) -> list[tuple[tuple[int, int], float]]:
    """Pairs of a sentence's words that may be linked, and how likely they are."""
    first = [min((one.start for one in side if one), default=0) for side in owners]
    inside = [
        [range(one.start - low, one.stop - low) if one else range(0) for one in side]
        for side, low in zip(owners, first, strict=True)
    ]
    found = word_maps(maps, *inside)
    own = [side[low : low + size] for side, low, size in zip(words, first, found.shape[:0:-1], strict=True)]
    likely = link_probabilities(model, found, *own)
    return [
        ((first[0] + here, first[1] + there), round(float(likely[there, here]), 4))
        for there, here in np.argwhere(likely >= LEAST).tolist()
    ]


def chained(steps: Sequence[WordAlignment | None]) -> WordAlignment | None:
    """The links from a first text to a last by way of those between.

    None where a step has none. The target of each step must be the source of the next, word by word.
    """
    known = [step for step in steps if step is not None]
    if len(known) < len(steps):
        return None
    whole = known[0]
    for step in known[1:]:
        further: dict[int, list[int]] = {}
        for here, there in step.links:
            further.setdefault(here, []).append(there)
        links = {(source, there) for source, here in whole.links for there in further.get(here, ())}
        likely = _chained_chances(whole, step) if whole.likely or step.likely else ()
        whole = WordAlignment(whole.source, step.target, tuple(sorted(links)), likely)
    return whole


def _chained_chances(one: WordAlignment, other: WordAlignment) -> tuple[tuple[int, int, float], ...]:
    """How likely words are linked through those between."""
    further: dict[int, list[tuple[int, float]]] = {}
    for (here, there), chance in other.chances.items():
        further.setdefault(here, []).append((there, chance))
    return noisy_or(
        ((source, there), chance * more)
        for (source, here), chance in one.chances.items()
        for there, more in further.get(here, ())
        if chance * more >= LEAST
    )


class WordIndex:
    """The words of a text, to be found by their places."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]

    def of_all(self, spans: Sequence[Span | None]) -> list[range]:
        """The words of each piece, as :meth:`of` has them."""
        return [self.of(span) for span in spans]

    def of(self, span: Span | None) -> range:
        """The words that a piece has letters of; one of white space belongs to the word behind it."""
        if span is None:
            return range(0)
        start, end = span
        return range(bisect_right(self._ends, start), bisect_left(self._starts, max(end, start + 1)))

"""Which pieces of a sentence's translation come from which of its source, and the words that they make."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from uwaga.contracts import Floats
from uwaga.word_alignment import Span, WordAlignment


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
    """

    source: tuple[Span | None, ...]
    target: tuple[Span | None, ...]
    weights: Floats
    copied: bool = False


def align_words(
    sentences: Sequence[PieceAlignment], source: Sequence[Span], target: Sequence[Span]
) -> WordAlignment:
    """The links of a text's words: a target word to all that hold the favourite of one of its pieces.

    The favourite of a target piece is the source piece of which it has most (Garg 2019 §4.1). One that stands
    for nothing in the text, such as the end of the sentence, adds no link.

    Args:
        sentences: pieces and where they come from, in the order of the text.
        source: the places of the words of the source, from :func:`uwaga.text.words.word_spans`.
        target: likewise of the translation.
    """
    links: set[tuple[int, int]] = set()
    sides = WordIndex(source), WordIndex(target)
    for one in sentences:
        if not one.weights.size:
            continue
        owners = [sides[0].of(span) for span in one.source]
        for span, favourite in zip(one.target, one.weights.argmax(axis=1).tolist(), strict=True):
            if owners[favourite] and (words := sides[1].of(span)):
                links.update((here, there) for here in owners[favourite] for there in words)
    return WordAlignment(tuple(source), tuple(target), tuple(sorted(links)))


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
        whole = WordAlignment(whole.source, step.target, tuple(sorted(links)))
    return whole


class WordIndex:
    """The words of a text, to be found by their places."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]

    def of(self, span: Span | None) -> range:
        """The words that a piece has letters of; one of white space belongs to the word behind it."""
        if span is None:
            return range(0)
        start, end = span
        return range(bisect_right(self._ends, start), bisect_left(self._starts, max(end, start + 1)))

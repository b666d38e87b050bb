"""Analysis of a document with a memory, by the similarity classes of translation tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from uwaga.translator.memories import SIMILARITY_CLASSES, similarity_class
from uwaga_memory.similarity import compared_tokens, find_stemmer, is_word
from uwaga_memory.store import EXACT, Context, Memory, Pair, normalise_spaces

REPETITION = "repetition"
"""The class of repeated texts, which follows the classes with a score of 100 % or more."""
MIN_SIMILARITY = 50.0


@dataclass
class Bucket:
    """A similarity class, with its numbers of texts, words and characters."""

    name: str
    texts: int = 0
    words: int = 0
    characters: int = 0


@dataclass(frozen=True)
class Analysis:
    """The similarity classes of a document's texts, the most similar first."""

    buckets: tuple[Bucket, ...]

    @property
    def total(self) -> Bucket:
        """The total over all classes."""
        return Bucket(
            "total",
            sum(bucket.texts for bucket in self.buckets),
            sum(bucket.words for bucket in self.buckets),
            sum(bucket.characters for bucket in self.buckets),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the values as JSON."""
        return {"buckets": [vars(bucket) for bucket in self.buckets], "total": vars(self.total)}


def count_words(text: str, language: str) -> int:
    """Return the number of words of a text; a letter of a script without spaces is a word."""
    return sum(map(is_word, find_stemmer(language).terms(compared_tokens(text))))


def analyse(
    memory: Memory,
    texts: Sequence[Pair],
    progress: Callable[[int, int], None] = lambda count, total: None,
) -> Analysis:
    """Return the similarity classes of the texts of a document.

    A text that occurred earlier in the document is a repetition, unless it is in the memory.

    Args:
        memory: the memory.
        texts: the texts with their contexts, as pairs with empty translations.
        progress: called with the number of processed texts and the total.
    """
    names = list(SIMILARITY_CLASSES)
    names.insert(names.index("100 %") + 1, REPETITION)
    buckets = {name: Bucket(name) for name in names}
    known: set[str] = set()
    for number, pair in enumerate(texts, start=1):
        text, context = pair.source, Context(pair.key, pair.before, pair.after)
        matches = memory.matches(text, context, threshold=MIN_SIMILARITY, limit=1)
        score = matches[0].score if matches else 0.0
        name = similarity_class(score)
        if score < EXACT and normalise_spaces(text) in known:
            name = REPETITION
        known.add(normalise_spaces(text))
        bucket = buckets[name]
        bucket.texts += 1
        bucket.words += count_words(text, memory.languages[0])
        bucket.characters += len(text)
        progress(number, len(texts))
    return Analysis(tuple(buckets.values()))

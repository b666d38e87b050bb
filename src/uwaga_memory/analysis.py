"""Counts of the texts of a document by similarity to a memory, in the classes that CAT tools use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from uwaga.translator.memories import SIMILARITY_CLASSES, similarity_class
from uwaga_memory.similarity import compared_tokens, find_stemmer, is_word
from uwaga_memory.store import EXACT_SCORE, Context, Memory, Pair, normalise_spaces

REPETITION = "repetition"
"""The class of repeated texts, listed after the classes with a score of 100 % or more."""
MIN_SIMILARITY = 50.0
"""Minimum similarity in percent; less similar texts are counted in the lowest class."""


@dataclass
class Bucket:
    """A similarity class and the number of its texts, words and characters."""

    name: str
    texts: int = 0
    words: int = 0
    characters: int = 0


@dataclass(frozen=True)
class Analysis:
    """The analysis of a document: its similarity classes, the most similar first."""

    buckets: tuple[Bucket, ...]

    @property
    def total(self) -> Bucket:
        """The sums over all classes."""
        return Bucket(
            "total",
            sum(bucket.texts for bucket in self.buckets),
            sum(bucket.words for bucket in self.buckets),
            sum(bucket.characters for bucket in self.buckets),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the analysis as a dictionary that can be serialised to JSON."""
        return {"buckets": [vars(bucket) for bucket in self.buckets], "total": vars(self.total)}


def count_words(text: str, language: str) -> int:
    """Return the number of words in a text; in scripts without spaces, each letter counts as a word."""
    return sum(map(is_word, find_stemmer(language).terms(compared_tokens(text))))


def analyse(
    memory: Memory,
    texts: Sequence[Pair],
    progress: Callable[[int, int], None] = lambda count, total: None,
) -> Analysis:
    """Return the number of texts, words and characters of a document by similarity to a memory.

    A text that occurred earlier in the document counts as a repetition, unless the memory contains it.

    Args:
        memory: the memory.
        texts: the texts with their contexts, as pairs with empty translations.
        progress: called with the number of processed texts and the total number of texts.
    """
    names = list(SIMILARITY_CLASSES)
    names.insert(names.index("100 %") + 1, REPETITION)
    buckets = {name: Bucket(name) for name in names}
    known_texts: set[str] = set()
    for number, pair in enumerate(texts, start=1):
        text, context = pair.source, Context(pair.key, pair.before, pair.after)
        matches = memory.matches(text, context, threshold=MIN_SIMILARITY, limit=1)
        score = matches[0].score if matches else 0.0
        name = similarity_class(score)
        if score < EXACT_SCORE and normalise_spaces(text) in known_texts:
            name = REPETITION
        known_texts.add(normalise_spaces(text))
        bucket = buckets[name]
        bucket.texts += 1
        bucket.words += count_words(text, memory.languages[0])
        bucket.characters += len(text)
        progress(number, len(texts))
    return Analysis(tuple(buckets.values()))

"""How similar two texts are, in percent, as translation tools count it.

The score is ``100 * (longer - distance) / longer`` with the Levenshtein distance of tokens, the best of three
readings of both texts: their stems, their words, and everything with numbers, tags and punctuation. Penalties
for numbers, tags and another context are subtracted. Words with the same stem are equal among the stems, so
that reading is never worse than the words, and two readings are compared.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from uwaga.errors import MissingExtraError
from uwaga.languages.codes import base_language

TAG = re.compile(r"<[^<>]{1,200}>|\{[^{}]{1,80}\}|%[-+ 0-9.#]*[a-zA-Z]")
"""A tag or a placeholder."""
NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Letters of scripts without spaces between words: each is a word."""
TOKEN = re.compile(rf"[^\W\d_{UNSPACED}]+|{TAG.pattern}|{NUMBER.pattern}|\S")
"""A word, a tag, a placeholder, a number, or another character."""
STEMMERS = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nb": "norwegian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "tr": "turkish",
}
"""The stemmer of each language; words of other languages are their own stems."""
MAX_TOKENS = 2_000
"""Tokens of a text that are compared; the distance of longer ones would take seconds."""
MAX_STEMMED_LENGTH = 40
"""Characters of a word that is stemmed; a stemmer is slow on strings that are no words."""
MAX_KNOWN_TERMS = 500_000
"""Tokens whose terms a stemmer remembers."""
TERM_BYTES = 4
"""Bytes of a term: a digest whose lowest bit says whether the term is a word's."""


@dataclass(frozen=True)
class Penalties:
    """Points subtracted from a score, in percent.

    Attributes:
        numbers: for numbers of other values.
        tags: for other tags or placeholders.
        context: for a pair with another key than the text.
        text: of the highest score, for texts that differ only in spaces around marks, or beyond what
            is compared.
    """

    numbers: float = 1.0
    tags: float = 1.0
    context: float = 1.0
    text: float = 0.5


@dataclass(frozen=True)
class Readings:
    """A text as it is compared.

    Attributes:
        text: the text.
        terms: what each token is in the index: a number that stands for the stem of a word, or for a mark.
    """

    text: str
    terms: Sequence[int]

    @cached_property
    def everything(self) -> list[str]:
        """All tokens; equal ones have equal terms."""
        return tokens_of(self.text)

    @cached_property
    def stems(self) -> list[int]:
        """The terms of the words."""
        return [term for term in self.terms if term & 1]

    @cached_property
    def numbers(self) -> list[str]:
        """The values of the numbers, sorted."""
        return sorted([number_value(token) for token in self.everything if token[0].isdecimal()])

    @cached_property
    def tags(self) -> list[str]:
        """The tags and placeholders, sorted."""
        return sorted([token for token in self.everything if len(token) > 1 and token[0] in "<{%"])


class Stemmer:
    """The terms of tokens in a language; each is computed once.

    Raises:
        MissingExtraError: snowballstemmer is not installed.
    """

    def __init__(self, language: str) -> None:
        try:
            import snowballstemmer
        except ImportError:
            raise MissingExtraError(
                "translation memories need snowballstemmer: pip install 'uwaga[memory]'"
            ) from None
        name = STEMMERS.get(base_language(language))
        self._stemmer = None if name is None else snowballstemmer.stemmer(name)
        self._terms: dict[str, int] = {}
        self._lock = threading.Lock()

    def terms(self, tokens: Sequence[str]) -> list[int]:
        """Return the term of each token."""
        known = self._terms
        try:
            return [known[token] for token in tokens]
        except KeyError:
            pass
        with self._lock:  # a stemmer keeps the state of its word
            terms = []
            for token in tokens:
                term = known.get(token)
                if term is None:
                    term = self._term(token)
                    if len(known) < MAX_KNOWN_TERMS and len(token) <= MAX_STEMMED_LENGTH:
                        known[token] = term
                terms.append(term)
        return terms

    def _term(self, token: str) -> int:
        is_word = token[0].isalpha()
        content = (self._stem(token) if is_word else token).encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(content, digest_size=TERM_BYTES).digest()
        return int.from_bytes(digest, "big") >> 1 << 1 | is_word

    def _stem(self, token: str) -> str:
        word = token.casefold()
        if self._stemmer is None or len(word) > MAX_STEMMED_LENGTH:
            return word
        stem: str = self._stemmer.stemWord(word)
        return stem or word


@lru_cache(maxsize=32)
def stemmer_of(language: str) -> Stemmer:
    """Return the stemmer of a language."""
    return Stemmer(language)


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a text that are compared."""
    return TOKEN.findall(text)[:MAX_TOKENS]


def is_word(term: int) -> bool:
    """Return whether a term is that of a word."""
    return bool(term & 1)


def readings(text: str, stemmer: Stemmer) -> Readings:
    """Return what is compared of a text."""
    return Readings(text, stemmer.terms(tokens_of(text)))


def number_value(text: str) -> str:
    """Return a number by its value, whatever separates its thousands and decimals."""
    return re.sub(r"[.,](?=\d{3}(?:\D|\Z))", "", text).replace(",", ".")


def similarity(
    text: Readings, other: Readings, penalties: Penalties | None = None, score_cutoff: float = 0.0
) -> float:
    """Return the similarity of two texts, from 0 to 100; 100 if they differ in spaces only.

    Args:
        text: a text.
        other: another one.
        penalties: subtracted from the score.
        score_cutoff: the result of lower scores is 0.
    """
    penalties = penalties or Penalties()
    score = max(
        ratio(text.stems, other.stems, score_cutoff), ratio(text.everything, other.everything, score_cutoff)
    )
    if not score:
        return 0.0
    if score == 100.0 and text.text.split() == other.text.split():
        return score
    score -= penalties.numbers * (text.numbers != other.numbers) + penalties.tags * (text.tags != other.tags)
    score = min(score, 100.0 - penalties.text)
    return score if score >= score_cutoff else 0.0


def bounds(text: Readings, others: Sequence[Readings]) -> NDArray[np.float64]:
    """Return, for each of some texts, a score that its similarity does not exceed.

    Tokens that are equal have equal terms, so these are not further apart.
    """
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    ratios = [
        cdist([tokens], other_tokens, scorer=Levenshtein.normalized_similarity, dtype=np.float64)[0]
        for tokens, other_tokens in (
            (text.stems, [other.stems for other in others]),
            (text.terms, [other.terms for other in others]),
        )
    ]
    highest: NDArray[np.float64] = 100 * np.maximum(*ratios)
    return highest


def ratio(tokens: Sequence[Hashable], others: Sequence[Hashable], score_cutoff: float = 0.0) -> float:
    """Return 100 * (longer - distance) / longer of two lists; 0 for empty ones, or below a cutoff."""
    from rapidfuzz.distance import Levenshtein

    longer = max(len(tokens), len(others))
    if not longer:
        return 0.0
    most = int(longer * (100 - score_cutoff) / 100 + 1e-6)
    distance = Levenshtein.distance(tokens, others, score_cutoff=most)
    return 0.0 if distance > most else 100.0 * (longer - distance) / longer

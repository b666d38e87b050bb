"""The similarity of two texts in percent, as translation tools measure it.

The score is ``100 * (longer - distance) / longer`` with the Levenshtein distance of tokens. It is the best of
three comparisons: of stems, of words, and of all tokens, including numbers, tags and punctuation. Penalties
for numbers, tags and another context are subtracted. Words with the same stem have equal stems, so comparing
stems is never worse than comparing words, and two comparisons suffice.
"""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from uwaga.errors import MissingExtraError
from uwaga.languages.codes import base_language

TAG = re.compile(r"<[^<>]{1,200}>|\{[^{}]{1,80}\}|%[-+ 0-9.#]*[a-zA-Z]")
"""A tag or a placeholder."""
NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Letters of scripts without spaces between words; each letter counts as a word."""
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
"""The stemmer of each language; words of other languages are not stemmed."""
MAX_TOKENS = 2_000
"""Maximum number of tokens of a text to compare; the distance of longer texts would take seconds."""
MAX_STEMMED_LENGTH = 40
"""Maximum characters of a word to stem; stemmers are slow on strings that are not words."""
MAX_KNOWN_TERMS = 500_000
"""Maximum number of tokens whose terms a stemmer caches."""
TERM_BYTES = 4
"""Number of bytes of a term, which is a digest whose lowest bit marks words."""
TERM = np.dtype(f"<u{TERM_BYTES}")
"""The type of stored terms."""


@dataclass(frozen=True)
class Penalties:
    """Points subtracted from a score, in percent.

    Attributes:
        numbers: for differing numbers.
        tags: for differing tags or placeholders.
        context: for a pair whose key differs from that of the text.
        text: for texts that differ only in spaces around marks, or beyond the compared tokens, but otherwise
            have the highest score.
    """

    numbers: float = 1.0
    tags: float = 1.0
    context: float = 1.0
    text: float = 0.5


@dataclass(frozen=True)
class ComparableText:
    """A text in the form in which it is compared.

    Attributes:
        text: the text.
        terms: the term of each token: a number for the stem of a word or for a mark.
    """

    text: str
    terms: Sequence[int]

    @cached_property
    def tokens(self) -> list[str]:
        """All tokens; equal ones have equal terms."""
        return compared_tokens(self.text)

    @cached_property
    def stems(self) -> list[int]:
        """The terms of the words."""
        return [term for term in self.terms if term & 1]

    @cached_property
    def numbers(self) -> list[str]:
        """The values of the numbers, sorted."""
        return sorted([number_value(token) for token in self.tokens if token[0].isdecimal()])

    @cached_property
    def tags(self) -> list[str]:
        """The tags and placeholders, sorted."""
        return sorted([token for token in self.tokens if len(token) > 1 and token[0] in "<{%"])


class Stemmer:
    """Computes the terms of tokens in a language, each once.

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
def find_stemmer(language: str) -> Stemmer:
    """Return the stemmer of a language."""
    return Stemmer(language)


def compared_tokens(text: str) -> list[str]:
    """Return the tokens of a text that are compared, at most :data:`MAX_TOKENS`."""
    return TOKEN.findall(text)[:MAX_TOKENS]


def is_word(term: int) -> bool:
    """Return whether a term belongs to a word."""
    return bool(term & 1)


def comparable_text(text: str, stemmer: Stemmer) -> ComparableText:
    """Return the form in which a text is compared."""
    return ComparableText(text, stemmer.terms(compared_tokens(text)))


def number_value(text: str) -> str:
    """Return a number in normal form, without thousands separators and with a decimal point."""
    return re.sub(r"[.,](?=\d{3}(?:\D|\Z))", "", text).replace(",", ".")


def similarity(
    text: ComparableText, other: ComparableText, penalties: Penalties | None = None, score_cutoff: float = 0.0
) -> float:
    """Return the similarity of two texts, from 0 to 100; 100 if they differ in spaces only.

    Args:
        text: a text.
        other: another text.
        penalties: penalties to subtract from the score.
        score_cutoff: lower scores are returned as 0.
    """
    penalties = penalties or Penalties()
    score = max(ratio(text.stems, other.stems, score_cutoff), ratio(text.tokens, other.tokens, score_cutoff))
    if not score:
        return 0.0
    if score == 100.0 and text.text.split() == other.text.split():
        return score
    score -= penalties.numbers * (text.numbers != other.numbers) + penalties.tags * (text.tags != other.tags)
    score = min(score, 100.0 - penalties.text)
    return score if score >= score_cutoff else 0.0


def bounds(text: ComparableText, others: Sequence[bytes]) -> NDArray[np.float64]:
    """Return an upper bound of the similarity of each text.

    Equal tokens have equal terms, so the distance of the terms is not greater.

    Args:
        text: a text.
        others: the terms of each other text, as stored: in 32 bits each.
    """
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    texts = [np.array(text.terms, TERM).tobytes(), *others]
    terms = np.frombuffer(b"".join(texts), TERM)
    ends = np.cumsum([0, *(len(stored_text) // TERM_BYTES for stored_text in texts)])
    # Strings are compared faster than lists: each term of the text is a character, all others are one more.
    known = np.unique(terms[: ends[1]])
    indices = np.searchsorted(known, terms)
    characters = np.where(known.take(indices, mode="clip") == terms, indices + 1, 0).astype("<u4")
    ratios = []
    for included in (terms % 2 == 1, np.ones(terms.size, bool)):
        joined = characters[included].tobytes().decode("utf-32-le")
        text_bounds = np.append(0, np.cumsum(included))[ends].tolist()
        strings = [joined[start:end] for start, end in pairwise(text_bounds)]
        scores = cdist(strings[:1], strings[1:], scorer=Levenshtein.normalized_similarity, dtype=np.float64)
        ratios.append(scores[0])
    highest: NDArray[np.float64] = 100 * np.maximum(*ratios)
    return highest


def ratio(tokens: Sequence[Hashable], others: Sequence[Hashable], score_cutoff: float = 0.0) -> float:
    """Return 100 * (longer - distance) / longer of two lists; 0 for empty lists, or below a cutoff."""
    from rapidfuzz.distance import Levenshtein

    longer = max(len(tokens), len(others))
    if not longer:
        return 0.0
    max_distance = int(longer * (100 - score_cutoff) / 100 + 1e-6)
    distance = Levenshtein.distance(tokens, others, score_cutoff=max_distance)
    return 0.0 if distance > max_distance else 100.0 * (longer - distance) / longer

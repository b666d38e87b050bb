"""The similarity of two texts in percent, as translation tools measure it.

The score is ``100 * (longer - distance) / longer``, where ``distance`` is the Levenshtein distance of the
token sequences and ``longer`` the length of the longer one. The highest score of three comparisons is used:
of stems, of words, and of all tokens, including numbers, tags and punctuation. Penalties for differing
numbers, tags and contexts are subtracted. Since equal words have equal stems, comparing stems never gives a
lower score than comparing words, so two comparisons suffice.
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
"""Pattern of a tag or a placeholder."""
NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
"""Character ranges of scripts without spaces between words; each of their letters counts as a word."""
TOKEN = re.compile(rf"[^\W\d_{UNSPACED}]+|{TAG.pattern}|{NUMBER.pattern}|\S")
"""Pattern of a token: a word, a tag, a placeholder, a number, or any other non-space character."""
STEMMER_NAMES = {
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
"""Snowball stemmers by language code; words of other languages are not stemmed."""
MAX_TOKENS = 2_000
"""Maximum number of tokens of a text that are compared; comparing longer texts would take seconds."""
MAX_STEMMED_LENGTH = 40
"""Maximum number of characters of a stemmed word; stemmers are slow on long strings, which are not words."""
MAX_KNOWN_TERMS = 500_000
"""Maximum number of tokens whose terms a stemmer caches."""
TERM_BYTES = 4
"""Number of bytes of a term. A term is the digest of a stem or token; its lowest bit is 1 for words."""
TERM = np.dtype(f"<u{TERM_BYTES}")
"""NumPy type of stored terms."""


@dataclass(frozen=True)
class Penalties:
    """Percentage points that are subtracted from a score.

    Attributes:
        numbers: penalty for differing numbers.
        tags: penalty for differing tags or placeholders.
        context: penalty for a pair whose key differs from that of the text.
        text: minimum deduction from 100 for texts that are not equal up to white space, for example if they
            differ only in spaces around punctuation, or only after the compared tokens.
    """

    numbers: float = 1.0
    tags: float = 1.0
    context: float = 1.0
    text: float = 0.5


@dataclass(frozen=True)
class ComparableText:
    """A text prepared for comparison.

    Attributes:
        text: the text.
        terms: the term of each token: a digest of the stem of a word, or of any other token.
    """

    text: str
    terms: Sequence[int]

    @cached_property
    def tokens(self) -> list[str]:
        """The tokens of the text; equal tokens have equal terms."""
        return compared_tokens(self.text)

    @cached_property
    def stems(self) -> list[int]:
        """The terms of the tokens that are words."""
        return [term for term in self.terms if term & 1]

    @cached_property
    def numbers(self) -> list[str]:
        """The numbers in the text, in normal form and sorted."""
        return sorted([number_value(token) for token in self.tokens if token[0].isdecimal()])

    @cached_property
    def tags(self) -> list[str]:
        """The tags and placeholders in the text, sorted."""
        return sorted([token for token in self.tokens if len(token) > 1 and token[0] in "<{%"])


class Stemmer:
    """A stemmer of a language, which computes and caches the terms of tokens.

    Args:
        language: the language code.

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
        name = STEMMER_NAMES.get(base_language(language))
        self._stemmer = None if name is None else snowballstemmer.stemmer(name)
        self._terms: dict[str, int] = {}
        self._lock = threading.Lock()

    def terms(self, tokens: Sequence[str]) -> list[int]:
        """Return the term of each token."""
        known_terms = self._terms
        try:
            return [known_terms[token] for token in tokens]
        except KeyError:
            pass
        with self._lock:  # Snowball stemmers are not thread-safe
            terms = []
            for token in tokens:
                term = known_terms.get(token)
                if term is None:
                    term = self._term(token)
                    if len(known_terms) < MAX_KNOWN_TERMS and len(token) <= MAX_STEMMED_LENGTH:
                        known_terms[token] = term
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
    """Return the cached stemmer of a language."""
    return Stemmer(language)


def compared_tokens(text: str) -> list[str]:
    """Return the first :data:`MAX_TOKENS` tokens of a text."""
    return TOKEN.findall(text)[:MAX_TOKENS]


def is_word(term: int) -> bool:
    """Return whether a term belongs to a word."""
    return bool(term & 1)


def comparable_text(text: str, stemmer: Stemmer) -> ComparableText:
    """Return a text prepared for comparison."""
    return ComparableText(text, stemmer.terms(compared_tokens(text)))


def number_value(text: str) -> str:
    """Return a number in normal form, without thousands separators and with a decimal point."""
    return re.sub(r"[.,](?=\d{3}(?:\D|\Z))", "", text).replace(",", ".")


def similarity(
    text: ComparableText, other: ComparableText, penalties: Penalties | None = None, score_cutoff: float = 0.0
) -> float:
    """Return the similarity of two texts, from 0 to 100; 100 only if they are equal up to white space.

    Args:
        text: a text.
        other: another text.
        penalties: penalties to subtract from the score; the default penalties if None.
        score_cutoff: minimum score; lower scores are returned as 0.
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
    """Return upper bounds on the similarity of a text and each of several other texts, in percent.

    Equal tokens have equal terms, so the distance of the terms does not exceed that of the tokens.

    Args:
        text: a text.
        others: the stored terms of each other text, with 32 bits per term.
    """
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    texts = [np.array(text.terms, TERM).tobytes(), *others]
    terms = np.frombuffer(b"".join(texts), TERM)
    ends = np.cumsum([0, *(len(stored_text) // TERM_BYTES for stored_text in texts)])
    # Strings are compared faster than lists: map each term of the text to a character of its own, and all
    # other terms to the same character.
    known_terms = np.unique(terms[: ends[1]])
    indices = np.searchsorted(known_terms, terms)
    characters = np.where(known_terms.take(indices, mode="clip") == terms, indices + 1, 0).astype("<u4")
    ratios = []
    for is_included in (terms % 2 == 1, np.ones(terms.size, bool)):
        joined_text = characters[is_included].tobytes().decode("utf-32-le")
        text_bounds = np.append(0, np.cumsum(is_included))[ends].tolist()
        strings = [joined_text[start:end] for start, end in pairwise(text_bounds)]
        scores = cdist(strings[:1], strings[1:], scorer=Levenshtein.normalized_similarity, dtype=np.float64)
        ratios.append(scores[0])
    highest: NDArray[np.float64] = 100 * np.maximum(*ratios)
    return highest


def ratio(tokens: Sequence[Hashable], others: Sequence[Hashable], score_cutoff: float = 0.0) -> float:
    """Return the similarity of two token lists in percent, without penalties.

    Args:
        tokens: a list of tokens.
        others: another list of tokens.
        score_cutoff: minimum score; lower scores, and the score of two empty lists, are returned as 0.
    """
    from rapidfuzz.distance import Levenshtein

    max_length = max(len(tokens), len(others))
    if not max_length:
        return 0.0
    max_distance = int(max_length * (100 - score_cutoff) / 100 + 1e-6)
    distance = Levenshtein.distance(tokens, others, score_cutoff=max_distance)
    return 0.0 if distance > max_distance else 100.0 * (max_length - distance) / max_length

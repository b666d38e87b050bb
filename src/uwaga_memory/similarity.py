"""How similar two texts are, in percent, as translation tools count it.

The score is ``100 * (longer - distance) / longer`` with the Levenshtein distance of words, the best of three
readings of both texts: their stems, their words, and everything with numbers, tags and punctuation. Penalties
for numbers, tags and another context are subtracted.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import snowballstemmer
from rapidfuzz.distance import Levenshtein

from uwaga.languages.codes import base_language

TOKEN = re.compile(
    r"<[^<>]{1,200}>|\{[^{}]{1,80}\}|%[-+ 0-9.#]*[a-zA-Z]|\d+(?:[.,:]\d+)*|[^\W\d_]+|[^\w\s]|_"
)
"""A tag, a placeholder, a number, a word or a mark."""
NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
TAG = re.compile(r"<[^<>]{1,200}>|\{[^{}]{1,80}\}|%[-+ 0-9.#]*[a-zA-Z]")
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
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "tr": "turkish",
}
MAX_TOKENS = 2_000
"""Tokens of a text that are compared; the distance of longer ones would take seconds."""


@dataclass(frozen=True)
class Penalties:
    """What is subtracted from a score, in percent points."""

    numbers: float = 1.0
    tags: float = 1.0
    case: float = 0.5


class Readings(NamedTuple):
    """The three readings of a text, and what penalties look at."""

    stems: tuple[str, ...]
    words: tuple[str, ...]
    everything: tuple[str, ...]
    numbers: Counter[str]
    tags: Counter[str]


@lru_cache(maxsize=1 << 14)
def _stem(language: str, word: str) -> str:
    name = STEMMERS.get(language)
    stem: str = word if name is None else _stemmer(name).stemWord(word)
    return stem


@lru_cache(maxsize=32)
def _stemmer(name: str) -> snowballstemmer.basestemmer.BaseStemmer:
    return snowballstemmer.stemmer(name)


def readings(text: str, language: str) -> Readings:
    """Return the readings of a text in a language."""
    everything = tuple(TOKEN.findall(text)[:MAX_TOKENS])
    words = tuple(token.casefold() for token in everything if token[0].isalpha())
    base = base_language(language)
    return Readings(
        tuple(_stem(base, word) for word in words),
        words,
        everything,
        Counter(map(_number, filter(NUMBER.fullmatch, everything))),
        Counter(filter(TAG.fullmatch, everything)),
    )


def _number(text: str) -> str:
    """Return a number by its value, whatever the separators of its thousands and decimals."""
    return re.sub(r"[.,](?=\d{3}\b)", "", text).replace(",", ".")


def similarity(one: Readings, other: Readings, penalties: Penalties | None = None) -> float:
    """Return the similarity of two texts, from 0 to 100; 100 for equal tokens only."""
    penalties = penalties or Penalties()
    if one.everything == other.everything:
        return 100.0
    score = max(_ratio(*pair) for pair in zip(one[:3], other[:3], strict=True) if any(pair))
    score -= penalties.numbers * (one.numbers != other.numbers) + penalties.tags * (one.tags != other.tags)
    return max(0.0, min(score, 100.0 - penalties.case))


def _ratio(one: tuple[str, ...], other: tuple[str, ...]) -> float:
    longer = max(len(one), len(other))
    return 100.0 * (longer - Levenshtein.distance(one, other)) / longer

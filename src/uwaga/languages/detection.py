"""The language of what is to be translated, where nobody says it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from uwaga.errors import DataError
from uwaga.languages.identification import LanguageIdentifier

AUTO = "auto"
"""Given as a source language: find it out."""
ENOUGH = 4000
"""Characters that are looked at."""


class DetectedLanguage(NamedTuple):
    """The likeliest language of texts, by its ISO 639 code, and its probability."""

    language: str
    probability: float


def detect_language(texts: Iterable[str]) -> DetectedLanguage:
    """The language of texts that are all of one; their first :data:`ENOUGH` characters are looked at.

    Args:
        texts: in any order, one of them at least with letters.

    Raises:
        MissingExtraError: py3langid is not installed.
        DataError: there is no letter in them.
    """
    sample, size = list[str](), 0
    for text in texts:
        if isinstance(text, str) and any(map(str.isalpha, text)):
            sample.append(text[: ENOUGH - size])
            size += len(sample[-1])
            if size >= ENOUGH:
                break
    if not sample:
        raise DataError("there is no letter in the text by which to tell its language: name it")
    return DetectedLanguage(*_identifier().identify("\n".join(sample)))


@cache
def _identifier() -> LanguageIdentifier:
    return LanguageIdentifier()

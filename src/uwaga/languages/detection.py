"""The language of what is to be translated, where nobody says it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from uwaga.errors import DataError, MissingExtraError, SettingsError
from uwaga.languages.codes import base_language


class LanguageIdentifier:
    """Tells languages by their ISO 639 codes; loading takes a moment.

    Raises:
        MissingExtraError: py3langid is not installed.
    """

    def __init__(self) -> None:
        try:
            from py3langid.langid import MODEL_FILE
            from py3langid.langid import LanguageIdentifier as Identifier
        except ImportError:
            raise MissingExtraError(
                "telling languages apart needs py3langid: pip install 'uwaga[detect]'"
            ) from None
        self._identifier = Identifier.from_model_file(MODEL_FILE, norm_probs=True)
        self.languages = frozenset(base_language(label) for label in self._identifier.labels)

    def check(self, language: str) -> None:
        """Refuse a language that is never found.

        Raises:
            SettingsError: it is not known.
        """
        if base_language(language) not in self.languages:
            raise SettingsError(
                f"py3langid does not know the language {language!r}: leave out the rule `language`, or "
                f"name the "
                f"language by its ISO 639 code ({', '.join(sorted(self.languages)[:8])}, ...)"
            )

    def identify(self, text: str) -> tuple[str, float]:
        """The likeliest language of a text and its probability."""
        language, probability = self._identifier.classify(text)
        return base_language(language), float(probability)

    def is_other(self, text: str, language: str, confidence: float) -> bool:
        """Whether a text is of another language with at least this probability."""
        found, probability = self.identify(text)
        return found != base_language(language) and probability >= confidence


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

"""The language of a text, told by py3langid: naive Bayes over byte n-grams (Lui & Baldwin 2011).

It was measured beside heliport 1.0.1 on 20,000 short sentences of Tatoeba: heliport is about six times as
fast and right about as often, but takes 900 MB of memory and 130 MB of disk, and is under the GPL;
py3langid takes 5 MB.
"""

from __future__ import annotations

from uwaga.errors import MissingExtraError, SettingsError
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

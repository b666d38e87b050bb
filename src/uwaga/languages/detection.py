"""Language detection with py3langid, a naive Bayes classifier of byte n-grams (Lui & Baldwin 2011).

On 20,000 short sentences of Tatoeba, heliport 1.0.1 is about six times as fast and equally accurate, but it
takes 900 MB of memory and 130 MB of disk, and its licence is the GPL; py3langid takes 5 MB.
"""

from __future__ import annotations

import mmap
import tempfile
import threading
from collections.abc import Collection, Iterable
from functools import cache
from typing import NamedTuple

import numpy as np

from uwaga.errors import DataError, MissingExtraError, SettingsError
from uwaga.languages.codes import base_language


class LanguageIdentifier:
    """A classifier that returns the ISO 639 code of a text's language; loading it takes about a second.

    Raises:
        MissingExtraError: py3langid is not installed.
    """

    def __init__(self) -> None:
        try:
            from py3langid.langid import MODEL_FILE
            from py3langid.langid import LanguageIdentifier as Identifier
        except ImportError:
            raise MissingExtraError(
                "detecting languages needs py3langid: pip install 'uwaga[detect]'"
            ) from None
        identifier = Identifier.from_model_file(MODEL_FILE, norm_probs=True)
        scores, transitions = identifier.nb_ptc, identifier.tk_nextmove
        self._identifier = Identifier(
            np.frombuffer(_memory_map(memoryview(scores)), scores.dtype).reshape(scores.shape),
            identifier.nb_pc,
            identifier.nb_classes,
            memoryview(_memory_map(memoryview(transitions))).cast(transitions.typecode),
            identifier.tk_output,
            norm_probs=True,
            tk_row=identifier.tk_row,
        )
        self.languages = frozenset(base_language(label) for label in self._identifier.labels)

    def check(self, language: str) -> None:
        """Check that a language can be identified.

        Raises:
            SettingsError: the language is unknown.
        """
        if base_language(language) not in self.languages:
            raise SettingsError(
                f"py3langid does not recognise the language {language!r}: leave out the rule `language`, or "
                f"give the ISO 639 code of the language ({', '.join(sorted(self.languages)[:8])}, ...)"
            )

    def identify(self, text: str) -> tuple[str, float]:
        """Return the most likely language of a text and its probability."""
        language, probability = self._identifier.classify(text)
        return base_language(language), float(probability)

    def rank(self, text: str) -> list[tuple[str, float]]:
        """Return all languages with their probabilities, most likely first."""
        return [(base_language(label), float(score)) for label, score in self._identifier.rank(text)]

    def is_other_language(self, text: str, language: str, confidence: float) -> bool:
        """Return whether a text is in another language with a probability of at least ``confidence``."""
        identified_language, probability = self.identify(text)
        return identified_language != base_language(language) and probability >= confidence


AUTO = "auto"
"""The value that stands for a source language to be detected."""
MAX_SAMPLE_CHARACTERS = 4000
"""Maximum number of characters that are examined."""
UNDETERMINED = "und"
"""ISO 639 code of a language that cannot be detected."""
MIN_UNEXPECTED_PROBABILITY = 0.2
"""Minimum probability of an unexpected language; below this, the language is undetermined."""
MIN_TARGET_PROBABILITY = 0.8
"""Minimum probability, among the expected languages, of the target language. A text that is detected as
being in the target language is not translated. Among two-word texts, this is the case for 0.1 to 1 % of those
in the source language and for 83 to 89 % of those in the target language."""
MIN_EXPECTED_RATIO = 0.1
"""Minimum probability of the most likely expected language, relative to the most likely of all languages;
below it, a text is taken to be in none of the expected languages. With two expected languages, 97 to 99 % of
the two-word texts in one of them are recognised as being in it; of the texts in another language, 96 % of
those with five words, and all sentences, are recognised as foreign."""


class DetectedLanguage(NamedTuple):
    """The most likely language of texts.

    Attributes:
        language: the ISO 639 code of the language, or :data:`UNDETERMINED` if nothing indicates a language.
        probability: the probability of the language.
    """

    language: str
    probability: float


def detect_language(
    texts: Iterable[str], candidates: Collection[str] = (), target: str | None = None
) -> DetectedLanguage:
    """Detect the common language of texts from their first :data:`MAX_SAMPLE_CHARACTERS` characters.

    Args:
        texts: the texts, in any order; at least one contains letters.
        candidates: expected languages. The most likely of them is returned, with its probability among them,
            unless another language is ten times as likely.
        target: the target language. It is also an expected language, but is returned only if it is clearly
            the most likely one.

    Raises:
        MissingExtraError: py3langid is not installed.
        DataError: the texts contain no letter.
    """
    sample, size = list[str](), 0
    for text in texts:
        if isinstance(text, str) and any(map(str.isalpha, text)):
            sample.append(text[: MAX_SAMPLE_CHARACTERS - size])
            size += len(sample[-1])
            if size >= MAX_SAMPLE_CHARACTERS:
                break
    if not sample:
        raise DataError("the text contains no letters, so its language cannot be detected: specify it")
    ranking = _identifier().rank("\n".join(sample))
    target_code = None if target is None else base_language(target)
    expected_languages = {*map(base_language, candidates), *([target_code] if target_code else ())}
    expected_ranking = [
        (language, probability) for language, probability in ranking if language in expected_languages
    ]
    highest = ranking[0][1]
    if (
        not expected_ranking
        or expected_ranking[0][1] < MIN_EXPECTED_RATIO * highest
        or highest == ranking[-1][1]
    ):
        is_undetermined = highest == ranking[-1][1] or (
            expected_languages and highest < MIN_UNEXPECTED_PROBABILITY
        )
        return DetectedLanguage(UNDETERMINED, 0.0) if is_undetermined else DetectedLanguage(*ranking[0])
    total = sum(probability for _, probability in expected_ranking)
    if expected_ranking[0][0] == target_code and expected_ranking[0][1] < MIN_TARGET_PROBABILITY * total:
        expected_ranking = [
            entry for entry in expected_ranking if entry[0] != target_code
        ] or expected_ranking
    return DetectedLanguage(expected_ranking[0][0], expected_ranking[0][1] / total)


MIN_OTHER_PROBABILITY = 0.99
"""Minimum probability of the language of a corpus if it differs from the declared language."""
_CONFUSED_LANGUAGES = ({"da", "no", "nb", "nn"}, {"bs", "hr", "sr", "sh"}, {"id", "ms"})
"""Groups of languages that are often mistaken for each other."""


def other_language(texts: Iterable[str], declared: str | None) -> str | None:
    """Return the language of texts if it clearly differs from the declared language, otherwise None.

    The result is also None if the declared language cannot be identified or py3langid is not installed.
    """
    code = base_language(declared or "")
    try:
        if code not in _identifier().languages:
            return None
        language, probability = detect_language(texts)
    except (DataError, MissingExtraError):
        return None
    is_similar = language == code or any({language, code} <= group for group in _CONFUSED_LANGUAGES)
    return None if is_similar or probability < MIN_OTHER_PROBABILITY else language


def is_detected(language: str) -> bool:
    """Return whether :func:`detect_language` tells a language from others; never without py3langid.

    Args:
        language: any code of the language, such as ``de`` or ``deu_Latn``.
    """
    try:
        return base_language(language) in _identifier().languages
    except MissingExtraError:
        return False


def load_detector() -> None:
    """Load the identifier of :func:`detect_language`, which takes a second.

    Raises:
        MissingExtraError: py3langid is not installed.
    """
    _identifier()


def _memory_map(values: memoryview) -> mmap.mmap:
    """Return a memory-mapped unnamed file with the bytes of an array; its pages are loaded on demand."""
    with tempfile.TemporaryFile() as file:
        file.write(values.cast("B"))
        file.flush()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _identifier() -> LanguageIdentifier:
    with _LOADING_LOCK:
        return _load_identifier()


@cache
def _load_identifier() -> LanguageIdentifier:
    return LanguageIdentifier()


_LOADING_LOCK = threading.Lock()

"""Language detection with py3langid, naive Bayes over byte n-grams (Lui & Baldwin 2011).

Measured against heliport 1.0.1 on 20,000 short sentences of Tatoeba, which is about six times as fast and
equally accurate, but takes 900 MB of memory and 130 MB of disk, and is under the GPL; py3langid takes 5 MB.
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
    """Identifies languages by their ISO 639 codes; loading it takes a moment.

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
        whole = Identifier.from_model_file(MODEL_FILE, norm_probs=True)
        scores, moves = whole.nb_ptc, whole.tk_nextmove
        self._identifier = Identifier(
            np.frombuffer(_mapped(memoryview(scores)), scores.dtype).reshape(scores.shape),
            whole.nb_pc,
            whole.nb_classes,
            memoryview(_mapped(memoryview(moves))).cast(moves.typecode),
            whole.tk_output,
            norm_probs=True,
            tk_row=whole.tk_row,
        )
        self.languages = frozenset(base_language(label) for label in self._identifier.labels)

    def check(self, language: str) -> None:
        """Refuse a language that cannot be identified.

        Raises:
            SettingsError: the language is unknown.
        """
        if base_language(language) not in self.languages:
            raise SettingsError(
                f"py3langid does not know the language {language!r}: leave out the rule `language`, or name "
                f"the language by its ISO 639 code ({', '.join(sorted(self.languages)[:8])}, ...)"
            )

    def identify(self, text: str) -> tuple[str, float]:
        """Return the most likely language of a text and its probability."""
        language, probability = self._identifier.classify(text)
        return base_language(language), float(probability)

    def rank(self, text: str) -> list[tuple[str, float]]:
        """Return all languages with their probabilities, the most likely first."""
        return [(base_language(label), float(score)) for label, score in self._identifier.rank(text)]

    def is_other(self, text: str, language: str, confidence: float) -> bool:
        """Return whether a text is in another language with at least this probability."""
        identified, probability = self.identify(text)
        return identified != base_language(language) and probability >= confidence


AUTO = "auto"
"""A source language that means: detect it."""
ENOUGH = 4000
"""Characters that are examined."""
UNDETERMINED = "und"
"""ISO 639 code of a language that cannot be detected."""
GUESS = 0.2
"""Probability of a language that is not expected, below which the language is undetermined."""
CLEAR = 0.8
"""Least probability, among the expected languages, of the target language. Texts in it are left alone: 0.1 to
1 % of texts of two words in the source language, and 83 to 89 % of those in the target language."""
UNLIKELY = 0.1
"""Probability of the most likely expected language, relative to the most likely language of all, below which
a text is in none of the expected ones. Of texts of two words in one of two expected languages 97 to 99 % are
then detected; of texts of five words in another language 96 % are recognised, and all sentences."""


class DetectedLanguage(NamedTuple):
    """The most likely language of texts, by its ISO 639 code, and its probability; :data:`UNDETERMINED` if
    nothing points to a language.
    """

    language: str
    probability: float


def detect_language(
    texts: Iterable[str], among: Collection[str] = (), target: str | None = None
) -> DetectedLanguage:
    """Detect the one language of all texts from their first :data:`ENOUGH` characters.

    Args:
        texts: in any order; at least one contains letters.
        among: expected languages. The most likely of them is returned, with its probability among them,
            unless another language is ten times as likely.
        target: the language that the texts are translated to, expected too, but detected only if it is
            clearly the most likely one.

    Raises:
        MissingExtraError: py3langid is not installed.
        DataError: they contain no letter.
    """
    sample, size = list[str](), 0
    for text in texts:
        if isinstance(text, str) and any(map(str.isalpha, text)):
            sample.append(text[: ENOUGH - size])
            size += len(sample[-1])
            if size >= ENOUGH:
                break
    if not sample:
        raise DataError("the text contains no letters, so its language cannot be detected: name it")
    ranking = _identifier().rank("\n".join(sample))
    own = None if target is None else base_language(target)
    expected = {*map(base_language, among), *([own] if own else ())}
    listed = [(language, probability) for language, probability in ranking if language in expected]
    likeliest = ranking[0][1]
    if not listed or listed[0][1] < UNLIKELY * likeliest or likeliest == ranking[-1][1]:
        unknown = likeliest == ranking[-1][1] or (expected and likeliest < GUESS)
        return DetectedLanguage(UNDETERMINED, 0.0) if unknown else DetectedLanguage(*ranking[0])
    total = sum(probability for _, probability in listed)
    if listed[0][0] == own and listed[0][1] < CLEAR * total:
        listed = [one for one in listed if one[0] != own] or listed
    return DetectedLanguage(listed[0][0], listed[0][1] / total)


CONFIDENCE = 0.99
"""Probability from which the language of a corpus is taken to be another one than stated."""
_SIMILAR = ({"da", "no", "nb", "nn"}, {"bs", "hr", "sr", "sh"}, {"id", "ms"})  # which are confused


def other_language(texts: Iterable[str], stated: str | None) -> str | None:
    """Return the language of texts if it is clearly not the stated one.

    None also if the stated language cannot be identified, or py3langid is not installed.
    """
    code = base_language(stated or "")
    try:
        if code not in _identifier().languages:
            return None
        language, probability = detect_language(texts)
    except (DataError, MissingExtraError):
        return None
    similar = language == code or any({language, code} <= group for group in _SIMILAR)
    return None if similar or probability < CONFIDENCE else language


def load_detector() -> None:
    """Load what :func:`detect_language` needs, which takes a second.

    Raises:
        MissingExtraError: py3langid is not installed.
    """
    _identifier()


def _mapped(values: memoryview) -> mmap.mmap:
    """Return an array's bytes in an unnamed file, whose pages the system loads and drops as it needs."""
    with tempfile.TemporaryFile() as file:
        file.write(values.cast("B"))
        file.flush()
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _identifier() -> LanguageIdentifier:
    with _LOADING:
        return _load_identifier()


@cache
def _load_identifier() -> LanguageIdentifier:
    return LanguageIdentifier()


_LOADING = threading.Lock()

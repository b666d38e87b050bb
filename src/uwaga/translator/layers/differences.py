"""Warnings about differences between a text and its translation that are cheap to detect."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from uwaga.languages.codes import base_language
from uwaga.languages.numbers import differing_numbers
from uwaga.results.translation import Coverage, Translation
from uwaga.translator.additions import find_added_brackets, find_added_words
from uwaga.translator.text import Layer, Text

MAX_SIGNS = 8
"""Maximum number of signs in a warning."""
SIGN = re.compile("[¢£¥§¶©®°±×÷†‡•‰\u20a0-\u20cf\u2116\u2122\u2190-\u27bf\u2900-\u2bff\U0001f000-\U0001faff]")
"""A sign that has a meaning on its own."""
SIGN_WORDS = {
    "€": "eur",
    "£": "pfund|pound|libra|livre|sterlin|funt|gbp",
    "¥": "yen|iene|yuan|jpy|cny",
    "°": "grad|grau|degr",
    "§": "paragraph|parágrafo|párrafo|section|artig|artíc|absatz",
    "±": "plus|mais|más|più|etwa|about|cerca",
    "×": "mal|times|vezes|veces|fois|x",
}
"""Beginnings of words that translations use instead of signs, as alternatives of a regular expression."""


class DifferenceWarnings:
    """A layer that warns of lost numbers and signs and of added numbers, brackets and (in short texts) words.

    Args:
        layer: the next layer.
        languages: the codes of the source and target languages.
    """

    def __init__(self, layer: Layer, languages: tuple[str, str]) -> None:
        self._layer, self._languages = layer, languages

    def translate(self, texts: Sequence[Text]) -> None:
        self._layer.translate(texts)
        for text in texts:
            text.translation = with_difference_warnings(text.result, self._languages)


def with_difference_warnings(translation: Translation, languages: tuple[str, str]) -> Translation:
    """Return a translation with warnings about differences from its source.

    Numbers are not compared again if the coverage of the translation reports them.

    Args:
        translation: the translation.
        languages: the codes of the source and target languages.
    """
    source, target, warnings = translation.source, translation.text, tuple[str, ...]()
    if source == target:
        return translation
    lost_signs = [
        sign
        for sign in find_lost_signs(source, target)
        if not any(sign in warning for warning in translation.warnings)
    ]
    if translation.coverage is None:
        warnings = Coverage((), *differing_numbers(source, target, languages)).warnings
    terms = [term.target for term in translation.terms if term.applied]
    words = find_added_words(source, target, base_language(languages[1]), translation.alignment, terms)
    brackets = find_added_brackets(source, target, terms)
    added_parts = [*brackets, *(word for word in words if not any(word in part for part in brackets))]
    if lost_signs:
        warnings += (f"signs of the text are missing: {' '.join(lost_signs[:MAX_SIGNS])}",)
    if added_parts:
        warnings += (f"added by the translation: {', '.join(map(repr, added_parts))}",)
    return replace(translation, warnings=(*translation.warnings, *warnings)) if warnings else translation


def find_lost_signs(source: str, target: str) -> list[str]:
    """Return the signs of a text that its translation neither contains nor spells out."""
    missing_counts = Counter(SIGN.findall(source))
    if not missing_counts:
        return []
    missing_counts.subtract(SIGN.findall(target))
    return [
        sign
        for sign, count in missing_counts.items()
        if count > 0
        and not (sign in SIGN_WORDS and re.search(rf"\b(?:{SIGN_WORDS[sign]})", target, re.IGNORECASE))
    ]

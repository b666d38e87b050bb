"""Reasons to doubt translations that cost little to find, added to their warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from uwaga.languages.codes import base_language
from uwaga.results.coverage import differing_numbers
from uwaga.results.translation import Coverage, Translation
from uwaga.translator.additions import added_brackets, added_words
from uwaga.translator.text import Layer, Text


class Doubts:
    """Compares translations with their texts: numbers, brackets and, in short texts, words.

    Args:
        layer: the next layer.
        language: the code of the target language.
    """

    def __init__(self, layer: Layer, language: str) -> None:
        self._layer, self._language = layer, language

    def translate(self, texts: Sequence[Text]) -> None:
        self._layer.translate(texts)
        for text in texts:
            text.translation = with_doubts(text.result, self._language)


def with_doubts(translation: Translation, language: str) -> Translation:
    """Return a translation with the reasons to doubt it, except numbers that its coverage reports.

    Args:
        translation: the translation.
        language: the code of its language.
    """
    source, target, warnings = translation.source, translation.text, tuple[str, ...]()
    if source == target:
        return translation
    if translation.coverage is None:
        warnings = Coverage((), *differing_numbers(source, target)).warnings
    terms = [term.target for term in translation.terms if term.applied]
    words = added_words(source, target, base_language(language), translation.alignment, terms)
    brackets = added_brackets(source, target, terms)
    added = [*brackets, *(word for word in words if not any(word in part for part in brackets))]
    if added:
        warnings += (f"added by the translation: {', '.join(map(repr, added))}",)
    return replace(translation, warnings=(*translation.warnings, *warnings)) if warnings else translation

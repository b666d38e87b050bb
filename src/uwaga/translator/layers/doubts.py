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
        self._layer, self._language = layer, base_language(language)

    def translate(self, texts: Sequence[Text]) -> None:
        self._layer.translate(texts)
        for text in texts:
            warnings = self._warnings(text.result)
            if warnings:
                text.translation = replace(text.result, warnings=(*text.result.warnings, *warnings))

    def _warnings(self, translation: Translation) -> tuple[str, ...]:
        """Return the reasons to doubt a translation; its coverage has the numbers already."""
        source, target, warnings = translation.source, translation.text, tuple[str, ...]()
        if source == target:
            return ()
        if translation.coverage is None:
            warnings = Coverage((), *differing_numbers(source, target)).warnings
        terms = [term.target for term in translation.terms if term.applied]
        words = added_words(source, target, self._language, translation.alignment, terms)
        brackets = added_brackets(source, target, terms)
        added = [*brackets, *(word for word in words if not any(word in part for part in brackets))]
        if added:
            warnings += (f"added by the translation: {', '.join(map(repr, added))}",)
        return warnings

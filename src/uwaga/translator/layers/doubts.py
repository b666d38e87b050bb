"""Reasons to doubt translations that cost nothing to find, added to their warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from uwaga.results.coverage import differing_numbers
from uwaga.results.translation import Coverage, Translation
from uwaga.translator.text import Layer, Text


class Doubts:
    """Compares translations with their texts: their numbers, unless their coverage has been checked.

    Args:
        layer: the next layer.
    """

    def __init__(self, layer: Layer) -> None:
        self._layer = layer

    def translate(self, texts: Sequence[Text]) -> None:
        self._layer.translate(texts)
        for text in texts:
            warnings = _warnings(text.result)
            if warnings:
                text.translation = replace(text.result, warnings=(*text.result.warnings, *warnings))


def _warnings(translation: Translation) -> tuple[str, ...]:
    """Return the reasons to doubt a translation."""
    if translation.coverage is not None:
        return ()
    return Coverage((), *differing_numbers(translation.source, translation.text)).warnings

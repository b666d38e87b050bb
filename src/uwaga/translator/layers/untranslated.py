"""Copying of texts that are already in the target language."""

from __future__ import annotations

from collections.abc import Sequence

from uwaga.results.translation import Translation
from uwaga.translator.text import Layer, Text

ALREADY_TRANSLATED = "the text is already in the target language"
"""The warning about a text that is copied."""


class Untranslated:
    """A layer that copies the given texts; the next layer translates all other texts."""

    def __init__(self, layer: Layer, texts: frozenset[str]) -> None:
        self._layer, self._texts = layer, texts

    def translate(self, texts: Sequence[Text]) -> None:
        remaining_texts = []
        for text in texts:
            [content] = text.content
            if isinstance(content, str) and content in self._texts:
                text.translation = copy_text(content)
            else:
                remaining_texts.append(text)
        if remaining_texts:
            self._layer.translate(remaining_texts)


def copy_text(text: str) -> Translation:
    """Return a translation that equals the text, with a warning if the text has letters."""
    warnings = (ALREADY_TRANSLATED,) if any(map(str.isalpha, text)) else ()
    return Translation(text, 0.0, (), (), source=text, warnings=warnings)

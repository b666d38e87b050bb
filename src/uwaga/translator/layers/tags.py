"""Translation of texts with tags: tags are stripped, and inserted again around the corresponding words."""

from __future__ import annotations

from collections.abc import Sequence

from uwaga.markup.strip_tags import StrippedText, strip_tags
from uwaga.scheduling.call_context import while_active
from uwaga.translator.text import Layer, Text


class Tags:
    """A layer that translates texts without their tags; the translation contains every tag exactly once.

    A pair of tags is placed around the translations of the words that it enclosed. Words are aligned
    only if a tag is inside the text.

    Args:
        layer: the next layer.
        can_align: whether words can be aligned.
    """

    def __init__(self, layer: Layer, can_align: bool) -> None:
        self._layer, self._can_align = layer, can_align

    def translate(self, texts: Sequence[Text]) -> None:
        stripped_texts = {text: strip_tags(text.content) for text in while_active(texts) if text.has_tags}
        texts_without_tags = {
            text: self._remove_tags(text, stripped_text) for text, stripped_text in stripped_texts.items()
        }
        self._layer.translate([texts_without_tags.get(text, text) for text in texts])
        if not stripped_texts:
            return
        from uwaga.markup.insert_tags import insert_tags

        for text, stripped_text in while_active(stripped_texts.items()):
            text.translation = texts_without_tags[text].result
            pairs = [(symbol.text, symbol.text) for symbol in text.symbols]
            pairs += [(term.source, term.target) for term in text.result.terms if term.applied]
            text.inlines = [
                insert_tags(stripped_text, translation.text, translation.alignment, pairs)
                for translation in text.translations
            ]

    def _remove_tags(self, text: Text, stripped_text: StrippedText) -> Text:
        needs_alignment = text.needs_alignment or (self._can_align and has_inner_tags(stripped_text))
        content, examples = (stripped_text.text,), text.examples
        return Text(
            content, text.name, text.prefix, parent=text, needs_alignment=needs_alignment, examples=examples
        )


def has_inner_tags(stripped_text: StrippedText) -> bool:
    """Return True if a tag is inside the text, not at one of its ends, so that words must be aligned."""
    text = stripped_text.text
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    return any(start < mark.position < end for mark in stripped_text.marks)

"""Handling of characters that the model does not know: they are replaced, kept or reported."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from uwaga.markup.inline import Inline, Tag, join_parts, lines, plain_text
from uwaga.markup.typography import (
    ASCII_EQUIVALENTS,
    Edit,
    apply_edits,
    ascii_edits,
    count_quotation_marks,
    enclose_quotations,
    insertions,
    inverse_edits,
    mark_unknown_characters,
    move_spans,
    project_alignment,
    typographic_edits,
    visible_text,
)
from uwaga.markup.units import is_translatable
from uwaga.results.translation import Span, Translation
from uwaga.tokenizers.text import clusters, compose
from uwaga.translator.checks import UNFAMILIAR_TEXT, script_warning
from uwaga.translator.split import KnownCharacters
from uwaga.translator.text import Layer, Text

MAX_SHOWN_CODE_POINTS = 8
"""Maximum number of code points of a character in a warning."""
MAX_SHOWN_CHARACTERS = 50
"""Maximum number of unfamiliar characters that a warning lists."""


class Characters:
    """A layer that translates texts with characters that the model does not know.

    Args:
        layer: the next layer.
        known_characters: the characters that the first model of the chain knows.
        languages: codes of the source and target language.
    """

    def __init__(self, layer: Layer, known_characters: KnownCharacters, languages: tuple[str, str]) -> None:
        self._layer, self._known_characters = layer, known_characters
        self._source_language, self._language = languages

    def translate(self, texts: Sequence[Text]) -> None:
        known_characters = self._known_characters
        edits = {  # a text without letters will be copied
            text: ascii_edits(visible_text(text.content), known_characters.find_unknown)
            for text in texts
            if known_characters.find_unfamiliar(text.words) and is_translatable(text.content)
        }
        readable = {text: self._make_readable(text, text_edits) for text, text_edits in edits.items()}
        self._layer.translate([readable.get(text, text) for text in texts])
        retried = {
            text: self._enclose_quotations(copy)
            for text, copy in readable.items()
            if _has_unequal_quotations(copy)
        }
        if retried:
            self._layer.translate(list(retried.values()))
        for text, copy in readable.items():
            self._set_translation(text, retried.get(text, copy), edits[text])

    def _make_readable(self, text: Text, edits: Sequence[Edit]) -> Text:
        """Return the text with plain equivalents of unknown characters.

        Characters without an equivalent become pieces that are not translated.
        """
        content = apply_edits(text.content, edits)
        if not text.prefix:  # no piece may precede a prefix
            parts: list[str | Tag] = []
            for line in lines(content):
                parts += self._with_pieces(line) if is_translatable(line) else line
            content = join_parts(parts)
        return Text(
            content,
            text.name,
            text.prefix,
            parent=text,
            needs_alignment=text.needs_alignment,
            examples=text.examples,
        )

    def _with_pieces(self, line: Inline) -> list[str | Tag]:
        parts: list[str | Tag] = []
        for part in line:
            if isinstance(part, Tag):
                parts.append(part)
            else:
                parts += mark_unknown_characters(part, self._known_characters.find_unknown(part))
        return parts

    def _enclose_quotations(self, copy: Text) -> Text:
        """Return the text with its quotation marks replaced by tags."""
        content = enclose_quotations(copy.content, self._language)
        return Text(content, copy.name, copy.prefix, parent=copy, needs_alignment=copy.needs_alignment)

    def _set_translation(self, text: Text, copy: Text, source_edits: Sequence[Edit]) -> None:
        """Set the translation of a text to that of its readable copy, with the characters of the text."""
        source, results = plain_text(text.content), list[Translation]()
        source_parts = {id(part) for part in text.content}
        quotations = {
            id(part) for part in copy.content if isinstance(part, Tag) and not part.text
        } - source_parts

        def original_spans(spans: Sequence[Span]) -> list[Span]:
            """Return the spans in the text of words of its readable copy."""
            spans = move_spans(spans, insertions(copy.content, quotations))
            return move_spans(spans, inverse_edits(source_edits, source))

        for hypothesis, inline in copy.tagged_translations:
            edits = typographic_edits(text.words, visible_text(inline), self._language)
            marked_inline = apply_edits(inline, edits)
            parts = [
                part.raw if isinstance(part, Tag) and id(part) not in source_parts else part
                for part in marked_inline
            ]
            text.inlines.append(join_parts(parts))
            words, alignment = plain_text(text.inlines[-1]), hypothesis.alignment
            if alignment is not None:
                sources = original_spans(alignment.source)
                targets = move_spans(alignment.target, edits)
                targets = move_spans(targets, insertions(marked_inline, quotations))
                alignment = project_alignment(alignment, (source, sources), (words, targets))
            coverage = hypothesis.coverage
            if coverage is not None:
                coverage = replace(coverage, omitted_spans=tuple(original_spans(coverage.omitted_spans)))
            results.append(
                replace(hypothesis, text=words, source=source, alignment=alignment, coverage=coverage)
            )
        best, *alternatives = results
        warnings: tuple[str, ...] = ()
        if lost_characters := self._lost_characters(source, best.text):
            warnings = (f"characters that the model does not know are missing: {lost_characters}",)
        if not is_translatable(copy.content):
            unexpected_script = script_warning(source, self._source_language)
            warnings = (
                unexpected_script or f"{UNFAMILIAR_TEXT}: it knows none of the words, which were copied",
            )
        text.translation = replace(
            best, warnings=(*best.warnings, *warnings), alternatives=tuple(alternatives)
        )

    def _lost_characters(self, source: str, translation: str) -> str:
        """Return the unfamiliar characters that a translation lacks, except those with plain equivalents."""
        source, translation = compose(source), compose(translation)
        unfamiliar_characters = self._known_characters.find_unfamiliar(source).difference(ASCII_EQUIVALENTS)
        if not unfamiliar_characters:
            return ""
        missing_clusters = Counter(clusters(source)) - Counter(clusters(translation))
        formatted_characters = [
            _format_character(cluster)
            for cluster in missing_clusters
            if not unfamiliar_characters.isdisjoint(cluster)
        ]
        return " ".join(formatted_characters[:MAX_SHOWN_CHARACTERS]) + (
            " ..." if len(formatted_characters) > MAX_SHOWN_CHARACTERS else ""
        )


def _format_character(cluster: str) -> str:
    """Return a character as text for a warning, or its code points if it would be invisible."""
    is_visible = unicodedata.category(cluster[0])[0] not in "CMZ"
    first_marks = cluster[:MAX_SHOWN_CODE_POINTS]
    return first_marks if is_visible else " ".join(f"U+{ord(character):04X}" for character in first_marks)


def _has_unequal_quotations(copy: Text) -> bool:
    """Return True if the number of quotation marks differs between a text and its translation."""
    expected_count = count_quotation_marks(visible_text(copy.content))
    return expected_count > 0 and expected_count != count_quotation_marks(
        visible_text(copy.tagged_translations[0].inline)
    )

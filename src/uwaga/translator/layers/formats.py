"""Translation of texts in a format: they are divided into parts, whose translations are written back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from uwaga.errors import DataError
from uwaga.markup.formats import read_fragment
from uwaga.markup.inline import Inline, keep_tags_of, written_text
from uwaga.markup.placeholders import Placeholders as Patterns
from uwaga.markup.units import Fragment
from uwaga.results.confidence import END
from uwaga.results.coverage import combine_coverage
from uwaga.results.translation import Translation
from uwaga.scheduling.call_context import while_active
from uwaga.translator.layers.failures import check_string, for_each
from uwaga.translator.layers.placeholders import with_placeholders
from uwaga.translator.memories import contexts_in_order
from uwaga.translator.request import Request
from uwaga.translator.text import InlineText, Layer, TaggedTranslation, Text


class TextWithPlaceholders:
    """A layer for texts without a format, whose placeholders become tags for the next layer.

    Args:
        layer: the next layer.
        placeholders: the patterns of placeholders; None for no placeholders.
        alignment: whether translations keep their alignment; False if words are aligned only to place tags.
    """

    def __init__(self, layer: Layer, placeholders: Patterns | None, alignment: bool) -> None:
        self._layer, self._placeholders, self._alignment = layer, placeholders, alignment

    def translate(self, texts: Sequence[Text]) -> None:
        parts = {
            text: Text(
                with_placeholders(text.content, self._placeholders, text.prefix),
                text.name,
                text.prefix,
                parent=text,
                context=text.context,
            )
            for text in texts
        }
        self._layer.translate(list(parts.values()))
        for text, part in parts.items():
            text.translation = write_translation(
                text.words, Fragment.plain(text.words), [part], self._alignment
            )


class Markup:
    """A layer that translates texts in HTML, XML or Markdown, each of which has any number of parts.

    Args:
        layer: the next layer.
        placeholders: the patterns of placeholders; None for no placeholders.
        request: the format, the elements to leave untranslated, and the outline of XML.
    """

    def __init__(self, layer: Layer, placeholders: Patterns | None, request: Request) -> None:
        self._layer, self._placeholders, self._request = layer, placeholders, request
        self._ignored = frozenset(name.lower() for name in request.ignore_tags)

    def translate(self, texts: Sequence[Text]) -> None:
        documents: dict[Text, tuple[Fragment, list[Text]]] = {}

        def read(text: Text) -> None:
            check_string(text)
            fragment, prefix, parts = self._read(text), text.prefix, list[Text]()
            contexts = contexts_in_order([*map(written_text, fragment.inlines)], text.context)
            for part in map(InlineText, fragment.inlines, contexts):
                content = with_placeholders(part.inline, self._placeholders, prefix)
                parts.append(Text(content, text.name, prefix, parent=text, context=part.context))
                prefix = ""  # only the first part begins with it
            documents[text] = fragment, parts

        for_each(while_active(texts), read)
        self._layer.translate([part for _, parts in documents.values() for part in parts])
        for text, (fragment, parts) in while_active(documents.items()):
            text.translation = write_translation(text.words, fragment, parts, alignment=False)

    def _read(self, text: Text) -> Fragment:
        try:
            return read_fragment(text.words, self._request.format, self._ignored, self._request.outline)
        except DataError as error:
            if self._request.on_error != "raise":
                raise
            raise DataError(f"{text.name}: {error}") from None


def write_translation(source: str, fragment: Fragment, parts: Sequence[Text], alignment: bool) -> Translation:
    """Return the translation of a text in a format from the translations of its parts.

    Args:
        source: the text.
        fragment: the parsed text.
        parts: the translated parts of the text.
        alignment: whether to keep the alignment of the words between the tags.
    """
    written_parts = list(map(_write_part, parts, fragment.inlines))
    if len(parts) == 1:
        results = []
        for hypothesis, inline in written_parts[0]:
            text, words = fragment.write([inline]), hypothesis.alignment if alignment else None
            if words is not None:
                words = words.moved(0, _indent(text) - _indent(hypothesis.text))
            coverage = hypothesis.coverage
            if coverage is not None and hypothesis.source != source:
                coverage = replace(coverage, omitted_spans=())
            results.append(replace(hypothesis, text=text, source=source, alignment=words, coverage=coverage))
        return replace(results[0], alternatives=tuple(results[1:]))
    text = fragment.write([best.inline for best, *_ in written_parts])
    return join_results([part.result for part in parts], text, source)


def _write_part(part: Text, original_inline: Inline) -> list[TaggedTranslation]:
    """Return the translations of a part, in which tags that the original part lacks become words."""
    return [
        TaggedTranslation(best, keep_tags_of(inline, original_inline))
        for best, inline in part.spaced_translations()
    ]


def join_results(
    results: Sequence[Translation], text: str, source: str, starts: Sequence[int] = ()
) -> Translation:
    """Return the translation of a text from the translations of its parts.

    The end symbol separates the pieces of two parts, so that ``words`` are the words of all parts. A part
    without tokens, such as one from a memory, has none.

    Args:
        results: the translations of the parts.
        text: the complete translated text.
        source: the complete source text.
        starts: the position of each part in ``source``, if it is known.
    """
    searched_results = [result for result in results if result.tokens]
    return Translation(
        text=text,
        score=math.fsum(result.score for result in searched_results) / max(len(searched_results), 1),
        tokens=_join_pieces(searched_results, [result.tokens for result in searched_results]),
        token_scores=tuple(score for result in results for score in result.token_scores),
        log_prob=math.fsum(result.log_prob for result in results),
        truncated=any(result.truncated for result in results),
        source_tokens=_join_pieces(searched_results, [result.source_tokens for result in searched_results]),
        source=source,
        warnings=tuple(dict.fromkeys(warning for result in results for warning in result.warnings)),
        entropies=tuple(entropy for result in results for entropy in result.entropies),
        terms=tuple(use for result in results for use in result.terms),
        memory=tuple(use for result in results for use in result.memory),
        coverage=combine_coverage([result.coverage for result in results], starts),
    )


def _join_pieces(results: Sequence[Translation], pieces: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the pieces of results, with the end symbol after each but the last, unless it was cut."""
    joined_parts = list[str]()
    for index, part in enumerate(pieces):
        joined_parts += part
        if index + 1 < len(pieces) and len(results[index].token_scores) > len(results[index].tokens):
            joined_parts.append(END)
    return tuple(joined_parts)


def _indent(text: str) -> int:
    """Return the number of white-space characters at the beginning of a text."""
    return len(text) - len(text.lstrip())

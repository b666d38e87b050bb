"""XLIFF 1.2 and 2 files: missing targets are added, with the inline codes of the source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from uwaga.errors import DataError, quoted
from uwaga.languages.codes import base_language
from uwaga.markup import Inline, Tag, plain_text
from uwaga.markup.icu import find_messages
from uwaga.markup.inline import join_parts
from uwaga.markup.units import (
    MARKUP,
    ONLY_UNTRANSLATED,
    Piece,
    Unit,
    Untranslated,
    is_translatable,
    pair_texts,
    split_ends,
    text_unit,
    untranslated,
    with_key,
)
from uwaga.markup.xml import (
    Element,
    Token,
    Treatment,
    attributes,
    children,
    elements,
    escape_attribute,
    unescape,
    with_attribute,
    write_xml,
    xml_inline,
    xml_tokens,
)
from uwaga_documents.document import DocumentFormat, DocumentSource, ParsedDocument
from uwaga_documents.encodings import xml_text
from uwaga_documents.language import format_code
from uwaga_documents.messages import MessageSyntax, inline_message_unit

SYNTAX = MessageSyntax(accelerators=True)
PAIRED_ELEMENTS = frozenset(("g", "mrk", "pc"))
LOCKED_ATTRIBUTE = re.compile(
    r"""\slocked\s*=\s*["'](?:true|locked|1)["']|:locked\s*=\s*["'](?:true|locked|1)["']"""
)
"""An attribute with which Trados or memoQ marks a segment as locked."""
OUTSIDE_SEGMENTS = "outside the segments"
"""The reason why text between the segments of a unit is copied."""
SEGMENT_TAG = re.compile(r"<sdl:seg\s[^<>]*>")
GETTEXT_CONTEXT = "x-gettext-msgctxt"
UNTRANSLATED_STATES = frozenset(("new", "needs-translation", "initial", ""))
"""States of targets that are not yet translated."""


def read(source: DocumentSource) -> ParsedDocument:
    """Read the units of a file."""
    decoded = xml_text(source)
    text = decoded.text
    root = next((token for token in xml_tokens(text) if token.kind in ("open", "empty")), None)
    root_attributes = attributes(text[root.start : root.end]) if root is not None else {}
    version = root_attributes.get("version", "")
    if root is None or root.name.rpartition(":")[2] != "xliff" or version[:1] not in ("1", "2"):
        raise DataError(f"{source.name}: not an XLIFF file of version 1 or 2")
    prefix = root.name.removesuffix("xliff")
    pieces = _XliffUnits(text, prefix, version[0] == "2", source).pieces()
    return decoded.parsed(pieces, "xmlcharrefreplace")


class _XliffUnits:
    """A reader of the units of an XLIFF file."""

    def __init__(self, text: str, prefix: str, is_version_2: bool, source: DocumentSource) -> None:
        self._text, self._prefix, self._is_version_2 = text, prefix, is_version_2
        self._options = source.options
        self._unit = f"{prefix}{'unit' if is_version_2 else 'trans-unit'}"
        self._other_language = ""

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of the file, in order."""
        text, position = self._text, 0
        names = {
            self._unit,
            *(f"{self._prefix}{name}" for name in ("xliff", "file", "group", "body", "unit")),
        }
        untranslated_elements: list[str] = []
        skip_to = 0
        for token in xml_tokens(text):
            if token.start < skip_to or token.name not in names:
                continue
            if token.kind == "close":
                if untranslated_elements and untranslated_elements[-1] == token.name:
                    untranslated_elements.pop()
                continue
            tag = text[token.start : token.end]
            is_untranslated = attributes(tag).get("translate") == "no"
            if token.name == self._unit and token.kind == "open":
                unit = next(elements(text, (self._unit,), token.start))
                skip_to = unit.end
                yield text[position : unit.inner]
                pieces = list(self._unit_pieces(unit, is_untranslated or bool(untranslated_elements)))
                count = sum(isinstance(piece, Unit) for piece in pieces)
                key = self._key(unit, count) if count else ""
                yield from (with_key(piece, key) for piece in pieces)
                position = unit.inner_end
            elif token.kind == "open":
                if untranslated_elements or is_untranslated:
                    untranslated_elements.append(token.name)
                yield text[position : token.start]
                yield self._with_language(token, tag)
                position = token.end
        yield text[position:]

    def _key(self, unit: Element, count: int) -> str:
        """Return the key of a unit's segments: the gettext context or, if the unit has only one segment, the
        unit's name.
        """
        for context in elements(self._text, (f"{self._prefix}context",), unit.inner, unit.inner_end):
            if attributes(context.tag(self._text)).get("context-type") == GETTEXT_CONTEXT:
                return unescape(context.content(self._text))
        names = attributes(unit.tag(self._text)) if count == 1 else {}
        return unescape(names.get("resname") or names.get("name", ""))

    def _with_language(self, token: Token, tag: str) -> str:
        """Return a tag with the target language, if it is the tag that declares the languages."""
        name, source_name = (
            ("trgLang", "srcLang") if self._is_version_2 else ("target-language", "source-language")
        )
        declares_languages = token.name == f"{self._prefix}{'xliff' if self._is_version_2 else 'file'}"
        target = self._options.target
        if not declares_languages or target is None:
            return tag
        declared = attributes(tag)
        self._other_language = ""
        target_code = format_code(target, "-")
        if name not in declared:
            return f'{tag[:-1]} {name}="{escape_attribute(target_code)}">'
        if base_language(declared[name]) == base_language(target):
            return tag
        if base_language(declared[name]) != base_language(declared.get(source_name, "")):
            self._other_language = declared[name]
        return with_attribute(tag, name, target_code)

    def _unit_pieces(self, unit: Element, is_untranslated: bool) -> Iterator[Piece]:
        """Yield the pieces of the content of a unit."""
        text = self._text
        if not self._is_version_2:
            yield from self._segment_pieces(unit, unit.tag(text), is_untranslated)
            return
        position = unit.inner
        for segment in children(text, unit):
            if segment.name == f"{self._prefix}segment":
                yield text[position : segment.start]
                tag = segment.tag(text)
                yield _mark_translated(tag) if self._reason(segment, tag, is_untranslated) is None else tag
                yield from self._segment_pieces(segment, tag, is_untranslated)
                position = segment.inner_end
            elif segment.name == f"{self._prefix}ignorable":
                yield text[position : segment.start]
                source = self._child(segment, "source")
                words = MARKUP.sub("", source.content(text)) if source is not None else ""
                yield untranslated(text[segment.start : segment.end], "marked as ignorable", words)
                position = segment.end
        yield text[position : unit.inner_end]

    def _child(self, parent: Element, name: str) -> Element | None:
        matching_children = (
            child for child in children(self._text, parent) if child.name == f"{self._prefix}{name}"
        )
        return next(matching_children, None)

    def _reason(self, segment: Element, tag: str, is_untranslated: bool) -> str | None:
        """Return the reason why a segment is not translated, or None if it is translated."""
        text, target = self._text, self._child(segment, "target")
        if is_untranslated:
            return "marked as not to be translated"
        if LOCKED_ATTRIBUTE.search(tag):
            return "locked"
        if target is None or not _has_words(target.content(text)) or self._options.retranslate:
            return None
        state = attributes(tag if self._is_version_2 else target.tag(text)).get("state", "")
        return None if state in UNTRANSLATED_STATES - {""} else "already translated"

    def _segment_pieces(self, segment: Element, tag: str, is_untranslated: bool) -> Iterator[Piece]:
        """Yield the pieces of the content of a segment (version 2) or a unit (version 1)."""
        text, raw = self._text, self._text[segment.inner : segment.inner_end]
        source, target = self._child(segment, "source"), self._child(segment, "target")
        seg_source = None if self._is_version_2 else self._child(segment, "seg-source")
        parts = list(_segments(text, seg_source, self._prefix)) if seg_source is not None else []
        if source is None:
            yield raw
            return
        reason = self._reason(segment, tag, is_untranslated)
        old_parts = list(_segments(text, target, self._prefix)) if target is not None else []
        if reason is not None and not (reason == "already translated" and parts and old_parts):
            if reason == "already translated":
                self._check_language()
            translations = tuple if is_untranslated else partial(self._translations, source, target)
            yield untranslated(raw, reason, MARKUP.sub("", source.content(text)), translations)
            return
        name = f"{self._prefix}target"
        if target is not None:
            start = text[segment.inner : target.start] + _open_tag(_mark_translated(target.tag(text)))
            end = f"</{name}>{text[target.end : segment.inner_end]}"
        else:
            source_end = seg_source.end if seg_source is not None else source.end
            space = text[segment.inner : source.start]
            start = f"{text[segment.inner : source_end]}{space[len(space.rstrip()) :]}<{name}>"
            end = f"</{name}>{text[source_end : segment.inner_end]}"
        if seg_source is None or not parts:
            piece = self._text_piece(source)
            if isinstance(piece, str):
                yield untranslated(raw, ONLY_UNTRANSLATED) if isinstance(piece, Untranslated) else raw
            else:
                yield Unit(piece.inlines, lambda inlines: f"{start}{piece.write(inlines)}{end}")
            return
        if not any(_has_words(part.content(text)) for part in parts):
            yield untranslated(raw, OUTSIDE_SEGMENTS, MARKUP.sub("", seg_source.content(text)))
            return
        yield start
        yield from self._part_pieces(segment, seg_source, parts, target, old_parts, reason)
        yield end

    def _part_pieces(
        self,
        unit: Element,
        seg_source: Element,
        parts: Sequence[Element],
        target: Element | None,
        old_parts: Sequence[Element],
        reason: str | None,
    ) -> Iterator[Piece]:
        """Yield the pieces of a target whose segments are ``mrk`` elements with the ids of the source's
        segments.
        """
        text = self._text
        sources = {_mark_id(text, part): part for part in parts}
        old_parts_by_id = {_mark_id(text, part): part for part in old_parts}
        tags = SEGMENT_TAG.findall(unit.content(text))
        locked_ids = {attributes(tag).get("id", "") for tag in tags if LOCKED_ATTRIBUTE.search(tag)}
        parent, template = seg_source, parts
        if target is not None and old_parts_by_id.keys() == sources.keys():
            parent, template = target, old_parts
        position = parent.inner
        for part in template:
            mark_id = _mark_id(text, part)
            yield _untranslated_part(text[position : part.start])
            yield _open_tag(part.tag(text))
            content = old_parts_by_id[mark_id].content(text) if mark_id in old_parts_by_id else ""
            words = MARKUP.sub("", sources[mark_id].content(text))
            translations = partial(self._translations, sources[mark_id], old_parts_by_id.get(mark_id))
            if mark_id in locked_ids:
                yield untranslated(content, "locked", words, translations)
            elif reason is not None and _has_words(content):
                self._check_language()
                yield untranslated(content, reason, words, translations)
            else:
                yield self._text_piece(sources[mark_id])
            yield f"</{part.name}>"
            position = part.end
        yield _untranslated_part(text[position : parent.inner_end])

    def _translations(self, source: Element, target: Element | None) -> Iterator[tuple[Inline, Inline]]:
        """Yield the texts of a segment with their translations."""
        if target is not None and _has_words(target.content(self._text)):
            yield from pair_texts(self._text_piece(source), self._text_piece(target))

    def _check_language(self) -> None:
        if self._other_language:
            raise DataError(
                f"declares the target language {quoted(self._other_language)} and has translations; set --to "
                "to that language, or replace all translations with --retranslate"
            )

    def _text_piece(self, source: Element) -> Piece:
        """Return the content of a source or target as a piece that is written as the content of a target."""
        raw = source.content(self._text)
        leading_parts, core, trailing_parts = split_ends(_inline(self._text, source, self._prefix))
        if not is_translatable(core):
            return text_unit(raw, core, write_xml)

        def write(inline: Inline) -> str:
            return write_xml(join_parts((*leading_parts, *inline, *trailing_parts)))

        if any(isinstance(part, Tag) for part in core) and not any(find_messages(plain_text(core))):
            return Unit((core,), lambda inlines: write(inlines[0]))
        message = inline_message_unit(raw, core, write, SYNTAX)
        return message if isinstance(message, str) else replace(message, raw=None)


def _has_words(content: str) -> bool:
    return bool(MARKUP.sub("", content).strip())


def _untranslated_part(raw: str) -> str:
    """Return the text between segments as a copied piece, with the reason if it has words."""
    return untranslated(raw, OUTSIDE_SEGMENTS, MARKUP.sub("", raw))


def _mark_id(text: str, part: Element) -> str:
    return attributes(part.tag(text)).get("mid", "")


def _open_tag(tag: str) -> str:
    """Return a tag as an opening tag, even if it is the tag of an empty element."""
    return tag.removesuffix("/>").removesuffix(">").rstrip() + ">"


def _segments(text: str, element: Element, prefix: str) -> Iterator[Element]:
    """Yield the segments of a source or target: its outermost ``mrk`` elements with the type ``seg``."""
    depth = 0
    first_token: Token | None = None
    for token in xml_tokens(text, element.inner, element.inner_end):
        if token.name != f"{prefix}mrk":
            continue
        if first_token is None:
            if attributes(text[token.start : token.end]).get("mtype") != "seg":
                continue
            if token.kind == "empty":
                yield Element(token.name, token.start, token.end, token.end, token.end)
            elif token.kind == "open":
                first_token, depth = token, 1
        elif token.kind in ("open", "close"):
            depth += 1 if token.kind == "open" else -1
            if not depth:
                yield Element(first_token.name, first_token.start, first_token.end, token.start, token.end)
                first_token = None


def _mark_translated(tag: str) -> str:
    return re.sub(r"""(\sstate\s*=\s*)(["'])(?:new|needs-translation|initial)\2""", r"\1\2translated\2", tag)


def _inline(text: str, source: Element, prefix: str) -> Inline:
    def treatment_of(token: Token, raw: str) -> Treatment:
        name = token.name.removeprefix(prefix)
        tag_attributes = attributes(raw)
        if name == "mrk" and (
            "protected" in tag_attributes.get("mtype", "") or tag_attributes.get("translate") == "no"
        ):
            return "kept"
        if tag_attributes.get("translate") == "no" and name in PAIRED_ELEMENTS:
            return "kept"
        return "pair" if name in PAIRED_ELEMENTS else "void"

    return xml_inline(text, source.inner, source.inner_end, treatment_of)


FORMAT = DocumentFormat("xliff", (".xlf", ".xliff", ".sdlxliff", ".mqxliff"), read)

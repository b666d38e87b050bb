"""XLIFF 1.2 and 2: missing targets are added, with the inline codes of the source."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from uwaga.errors import DataError
from uwaga.markup import Inline, Tag, plain_text
from uwaga.markup.icu import find_messages
from uwaga.markup.inline import join_parts
from uwaga.markup.units import Piece, Unit, peel, translatable
from uwaga.markup.xml import (
    Element,
    Token,
    Treatment,
    attributes,
    elements,
    escape_attribute,
    find_child,
    write_xml,
    xml_inline,
    xml_tokens,
)
from uwaga_documents.document import DocumentFormat, DocumentSource, Reading
from uwaga_documents.encodings import xml_text
from uwaga_documents.messages import MessageSyntax, inline_message_unit

PAIRED = frozenset(("g", "mrk", "pc"))
SYNTAX = MessageSyntax(accelerators=True)
UNTRANSLATED_STATES = frozenset(("new", "needs-translation", "initial", ""))
"""States of targets that are not yet translated."""


def read(source: DocumentSource) -> Reading:
    """Read the units of a file."""
    text, encoding, mark = xml_text(source)
    root = next((token for token in xml_tokens(text) if token.kind in ("open", "empty")), None)
    root_attributes = attributes(text[root.start : root.end]) if root is not None else {}
    version = root_attributes.get("version", "")
    if root is None or root.name.rpartition(":")[2] != "xliff" or version[:1] not in ("1", "2"):
        raise DataError(f"{source.name}: not XLIFF of version 1 or 2")
    prefix = root.name.removesuffix("xliff")
    pieces = _XliffUnits(text, prefix, version[0] == "2", source).pieces()
    return Reading(pieces, encoding, "xmlcharrefreplace", mark)


class _XliffUnits:
    def __init__(self, text: str, prefix: str, is_version_2: bool, source: DocumentSource) -> None:
        self._text, self._prefix, self._is_version_2 = text, prefix, is_version_2
        self._options = source.options
        self._unit = f"{prefix}{'unit' if is_version_2 else 'trans-unit'}"

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of the file, in order."""
        text, position = self._text, 0
        names = {
            self._unit,
            *(f"{self._prefix}{name}" for name in ("xliff", "file", "group", "body", "unit")),
        }
        untranslated: list[str] = []
        skip_to = 0
        for token in xml_tokens(text):
            if token.start < skip_to or token.name not in names:
                continue
            if token.kind == "close":
                untranslated = (
                    untranslated[:-1] if untranslated and untranslated[-1] == token.name else untranslated
                )
                continue
            tag = text[token.start : token.end]
            is_untranslated = attributes(tag).get("translate") == "no"
            if token.name == self._unit and token.kind == "open":
                unit = next(elements(text, (self._unit,), token.start))
                skip_to = unit.end
                if not is_untranslated and not untranslated:
                    yield text[position : unit.inner]
                    yield from self._unit_pieces(unit)
                    position = unit.inner_end
            elif token.kind == "open":
                if untranslated or is_untranslated:
                    untranslated.append(token.name)
                yield text[position : token.start]
                yield self._with_language(token, tag)
                position = token.end
        yield text[position:]

    def _with_language(self, token: Token, tag: str) -> str:
        """Add the target language to the tag that declares the languages, if it lacks one."""
        name = "trgLang" if self._is_version_2 else "target-language"
        declares_languages = token.name == f"{self._prefix}{'xliff' if self._is_version_2 else 'file'}"
        if not declares_languages or self._options.target is None or name in attributes(tag):
            return tag
        return f'{tag[:-1]} {name}="{escape_attribute(self._options.target)}">'

    def _unit_pieces(self, unit: Element) -> Iterator[Piece]:
        """Yield the pieces of a unit, in version 2 those of its segments."""
        text = self._text
        if not self._is_version_2:
            yield from self._segment_pieces(unit, unit.tag(text))
            return
        position = unit.inner
        for segment in elements(text, (f"{self._prefix}segment",), unit.inner, unit.inner_end):
            yield text[position : segment.start]
            yield from self._segment_pieces(segment, segment.tag(text), with_tag=True)
            position = segment.inner_end
        yield text[position : unit.inner_end]

    def _segment_pieces(self, segment: Element, tag: str, with_tag: bool = False) -> Iterator[Piece]:
        text, prefix = self._text, self._prefix
        raw = text[segment.start if with_tag else segment.inner : segment.inner_end]
        source = find_child(text, segment, f"{prefix}source")
        target = find_child(text, segment, f"{prefix}target")
        state = attributes(target.tag(text) if target and not with_tag else tag).get("state", "")
        is_translated = (
            target is not None and target.content(text).strip() and state not in UNTRANSLATED_STATES - {""}
        )
        if source is None or (is_translated and not self._options.retranslate):
            yield raw
            return
        before, core, after = peel(_inline(text, source, prefix))
        if not translatable(core):
            yield raw
            return
        write = _TargetWriter(text, prefix, segment, source, target, with_tag, before, after)
        if any(isinstance(part, Tag) for part in core) and not any(find_messages(plain_text(core))):
            yield Unit((core,), lambda translations: write(translations[0]))
            return
        message = inline_message_unit(raw, core, write, SYNTAX)
        yield message if isinstance(message, str) else Unit(message.inlines, message.write)


@dataclass(frozen=True)
class _TargetWriter:
    """Writes a segment with its target, between the parts around its words."""

    text: str
    prefix: str
    segment: Element
    source: Element
    target: Element | None
    with_tag: bool
    before: Inline
    after: Inline

    def __call__(self, inline: Inline) -> str:
        text, segment, source, target = self.text, self.segment, self.source, self.target
        body = write_xml(join_parts((*self.before, *inline, *self.after)))
        prefix = _translated_state(segment.tag(text)) if self.with_tag else ""
        name = f"{self.prefix}target"
        if target is not None:
            tag = _translated_state(target.tag(text)).removesuffix("/>").removesuffix(">").rstrip() + ">"
            return (
                prefix
                + text[segment.inner : target.start]
                + f"{tag}{body}</{name}>"
                + text[target.end : segment.inner_end]
            )
        seg_source = find_child(text, segment, f"{self.prefix}seg-source")
        end = seg_source.end if seg_source is not None else source.end
        space = text[segment.inner : source.start]
        space = space[len(space.rstrip()) :]
        return (
            prefix
            + text[segment.inner : end]
            + f"{space}<{name}>{body}</{name}>"
            + text[end : segment.inner_end]
        )


def _translated_state(tag: str) -> str:
    return re.sub(r"""(\sstate\s*=\s*)(["'])(?:new|needs-translation|initial)\2""", r"\1\2translated\2", tag)


def _inline(text: str, source: Element, prefix: str) -> Inline:
    def treat(token: Token, raw: str) -> Treatment:
        name = token.name.removeprefix(prefix)
        tag_attributes = attributes(raw)
        if name == "mrk" and (
            "protected" in tag_attributes.get("mtype", "") or tag_attributes.get("translate") == "no"
        ):
            return "kept"
        if tag_attributes.get("translate") == "no" and name in PAIRED:
            return "kept"
        return "pair" if name in PAIRED else "void"

    return xml_inline(text, source.inner, source.inner_end, treat)


FORMAT = DocumentFormat("xliff", (".xlf", ".xliff", ".sdlxliff", ".mqxliff"), read)

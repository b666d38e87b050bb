"""OpenDocument (.odt, .odp, .ods): paragraphs and headings, including those in notes, frames and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from uwaga.errors import DataError
from uwaga.files.zip import Archive
from uwaga.markup import Inline, Tag
from uwaga.markup.inline import join_parts
from uwaga.markup.units import MARKUP, Piece, balance_tags, text_unit, untranslated
from uwaga.markup.xml import (
    Element,
    Token,
    Treatment,
    children,
    content_pieces,
    text_elements,
    unescape,
    write_xml,
    xml_inline,
)
from uwaga_documents.compared import COMPARED_REASON, ComparedTexts
from uwaga_documents.document import DocumentFormat, Reader
from uwaga_documents.encodings import xml_reader
from uwaga_documents.runs import MAX_PARAGRAPH_DEPTH

BLOCKS = ("text:p", "text:h")
COPIED_ELEMENTS = (
    "text:tracked-changes",
    "office:scripts",
    "office:font-face-decls",
    "office:automatic-styles",
)
PAIRED_ELEMENTS = frozenset(("text:span", "text:a", "text:meta", "text:ruby", "text:ruby-base"))
BREAK = re.compile(r"<text:(?:line-break|tab)(?![\w-])")
WHITESPACE = re.compile(r"[ \t\r\n]+")
MEMBER = re.compile(r"(?:[^/]+/)?(?:content|styles)\.xml")
"""The members with the content and styles of the document, and of the charts and formulas in it."""
DESCRIPTIONS = ("svg:title", "svg:desc")
"""Elements with the alternative texts of frames."""
INNER_TEXT = re.compile(r"<(?:text:[ph]|svg:title|svg:desc)[\s>]")
PROPERTIES = ("dc:title", "dc:subject", "dc:description", "meta:keyword")
FORMULA = re.compile(r"""\stable:(?:formula|condition)="([^"<>]*)\"""")
ESCAPED_QUOTE = "&quot;"
CELL_ELEMENT, FORMULA_ATTRIBUTE = "table:table-cell", "table:formula="


def members(archive: Archive) -> Mapping[str, Reader]:
    """Return the readers of the members that contain text: the content, the styles (headers and footers), the
    metadata.
    """
    if "content.xml" not in archive or "META-INF/manifest.xml" not in archive:
        raise DataError(
            f"{archive.path}: not an OpenDocument file: the archive lacks content.xml or a manifest"
        )
    if b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise DataError(f"{archive.path}: is encrypted; remove the password")
    readers = {name: xml_reader(_document_pieces) for name in archive.names if MEMBER.fullmatch(name)}
    if "meta.xml" in archive:
        readers["meta.xml"] = xml_reader(lambda text: text_elements(text, PROPERTIES))
    return readers


def _document_pieces(text: str) -> Iterator[Piece]:
    formulas = FORMULA.findall(text) if ESCAPED_QUOTE in text else []
    return _pieces(
        text, ComparedTexts.from_formulas(unescape(value) for value in formulas if ESCAPED_QUOTE in value)
    )


def _pieces(text: str, compared_texts: ComparedTexts, depth: int = 1) -> Iterator[Piece]:
    if depth > MAX_PARAGRAPH_DEPTH:
        raise DataError(f"more than {MAX_PARAGRAPH_DEPTH} nested paragraphs")

    def read(element: Element) -> Iterator[Piece]:
        raw = element.content(text)
        if element.name == CELL_ELEMENT:
            yield from (
                read_result(element) if FORMULA_ATTRIBUTE in element.tag(text) else read_inside(element)
            )
        elif element.name == "text:tracked-changes":
            yield untranslated(raw, "tracked deletions", MARKUP.sub("", raw))
        elif element.name in COPIED_ELEMENTS:
            yield raw
        elif element.name in DESCRIPTIONS:
            yield text_unit(raw, (unescape(raw),), write_xml)
        else:
            yield _block(text, element, compared_texts, depth)

    def read_inside(element: Element) -> Iterator[Piece]:
        return content_pieces(text, names, read, element.inner, element.inner_end)

    def read_result(cell: Element) -> Iterator[Piece]:
        position = cell.inner
        for child in children(text, cell):
            yield text[position : child.inner]
            if child.name in BLOCKS:
                raw = child.content(text)
                yield untranslated(raw, "results of formulas", MARKUP.sub("", raw))
            else:
                yield from read_inside(child)
            position = child.inner_end
        yield text[position : cell.inner_end]

    names = (
        *BLOCKS,
        *DESCRIPTIONS,
        *COPIED_ELEMENTS,
        *((CELL_ELEMENT,) if FORMULA_ATTRIBUTE in text else ()),
    )
    return content_pieces(text, names, read)


def _block(text: str, element: Element, compared_texts: ComparedTexts, depth: int) -> Piece:
    if compared_texts and compared_texts.contains(unescape(MARKUP.sub("", element.content(text)))):
        return untranslated(element.content(text), COMPARED_REASON)

    def treatment_of(token: Token, raw: str) -> Treatment:
        return "pair" if token.name in PAIRED_ELEMENTS and token.kind == "open" else "void"

    inline: Inline = join_parts(
        WHITESPACE.sub(" ", part)
        if isinstance(part, str)
        else Tag(part.kind, part.raw, "\n" if BREAK.match(part.raw) else "")
        for part in xml_inline(text, element.inner, element.inner_end, treatment_of)
    )
    nested_pieces = {
        part.raw: list(_pieces(part.raw, compared_texts, depth + 1))
        for part in inline
        if isinstance(part, Tag) and part.kind == "void" and INNER_TEXT.search(part.raw)
    }
    return text_unit(element.content(text), balance_tags(inline), write_xml, nested_pieces)


FORMAT = DocumentFormat("odt", (".odt", ".ott", ".odp", ".ods"), members=members)

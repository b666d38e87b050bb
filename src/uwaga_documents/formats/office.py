"""Office Open XML: Word (.docx), PowerPoint (.pptx) and Excel (.xlsx)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from uwaga.errors import DataError
from uwaga.files.zip import Archive
from uwaga.markup.units import Piece, text_unit
from uwaga.markup.xml import attributes, elements, find_child, unescape, write_xml
from uwaga_documents.document import DocumentFormat, Reader
from uwaga_documents.encodings import xml_reader
from uwaga_documents.runs import DRAWING, SHEET, WORD, paragraph, paragraphs

CONTENT_TYPES = "[Content_Types].xml"
RELATIONS = "_rels/.rels"


def find_parts(archive: Archive, pattern: re.Pattern[str], main: str, format_name: str) -> list[str]:
    """Return the names of the parts with text.

    Args:
        archive: the document.
        pattern: the pattern of their names.
        main: the prefix of the name of the main part.
        format_name: the format, for messages.
    """
    names = [name for name in archive.names if pattern.fullmatch(name)]
    declared = _declared_main(archive)
    has_main = any(name.startswith(main) for name in archive.names)
    if CONTENT_TYPES not in archive or not (has_main or declared.startswith(f"{main.partition('/')[0]}/")):
        raise DataError(f"{archive.path}: not a {format_name}: the archive lacks {CONTENT_TYPES} or {main}")
    if declared in archive and declared not in names and pattern.fullmatch(f"{main}.xml"):
        names.append(declared)
    return names


def _declared_main(archive: Archive) -> str:
    """Return the declared name of the main part."""
    if RELATIONS not in archive:
        return ""
    text = archive.read(RELATIONS).decode("utf-8", "replace")
    for tag in re.findall(r"<(?:\w+:)?Relationship\b[^<>]*>", text):
        relationship = attributes(tag)
        if relationship.get("Type", "").endswith("/officeDocument"):
            return relationship.get("Target", "").lstrip("/")
    return ""


WORD_PARTS = re.compile(r"word/(?:document\d*|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
WORD_DRAWINGS = re.compile(r"word/(?:charts/chart\d+|diagrams/data\d+|diagrams/drawing\d+)\.xml")


def _word_pieces(text: str) -> Iterator[Piece]:
    return paragraphs(text, WORD)


def _drawing_pieces(text: str) -> Iterator[Piece]:
    return paragraphs(text, DRAWING)


def word_members(archive: Archive) -> Mapping[str, Reader]:
    """Return the parts of a document that hold text."""
    readers = dict.fromkeys(
        find_parts(archive, WORD_PARTS, "word/document", "Word document"), xml_reader(_word_pieces)
    )
    if "word/styles.xml" in archive:  # has the language of the text
        readers["word/styles.xml"] = xml_reader(lambda text: iter([text]))
    return {
        **readers,
        **{name: xml_reader(_drawing_pieces) for name in archive.names if WORD_DRAWINGS.fullmatch(name)},
    }


DOCX = DocumentFormat("docx", (".docx", ".docm", ".dotx"), members=word_members)


SLIDE_PARTS = re.compile(
    r"ppt/(?:slides/slide\d+|notesSlides/notesSlide\d+|charts/chart\d+|diagrams/data\d+|diagrams/drawing\d+)\.xml"
)


def presentation_members(archive: Archive) -> Mapping[str, Reader]:
    """Return the parts of a presentation that hold text."""
    return dict.fromkeys(
        find_parts(archive, SLIDE_PARTS, "ppt/presentation", "presentation"), xml_reader(_drawing_pieces)
    )


PPTX = DocumentFormat("pptx", (".pptx", ".pptm", ".ppsx"), members=presentation_members)


SHEET_PARTS = re.compile(r"xl/sharedStrings\.xml|xl/worksheets/sheet\d+\.xml|xl/comments/?\w*\.xml")
SHEET_DRAWINGS = re.compile(r"xl/(?:drawings/drawing\d+|charts/chart\d+|diagrams/data\d+)\.xml")
TABLES = re.compile(r"xl/(?:tables/table\d+|pivotCache/pivotCacheDefinition\d+)\.xml")
COLUMN_NAME = re.compile(r"""<(?:tableColumn|cacheField)\b[^<>]*?\sname=(?:"([^"<]*)"|'([^'<]*)')""")
TEXT_HOLDERS = ("si", "is", "text")


def workbook_members(archive: Archive) -> Mapping[str, Reader]:
    """Return the parts of a workbook with text: cells, comments and drawings.

    Names that formulas and tables refer to are copied: those of sheets, and the header cells of tables and
    pivot tables, which Excel requires to equal the column names.
    """
    names = find_parts(archive, SHEET_PARTS, "xl/workbook", "workbook")
    column_names = frozenset(
        unescape(double or single)
        for name in archive.names
        if TABLES.fullmatch(name)
        for double, single in COLUMN_NAME.findall(archive.read(name).decode("utf-8", "replace"))
    )
    strings = xml_reader(lambda text: _strings(text, column_names))
    read_drawing = xml_reader(_drawing_pieces)
    drawings = {name: read_drawing for name in archive.names if SHEET_DRAWINGS.fullmatch(name)}
    return {**dict.fromkeys(names, strings), **drawings}


def _strings(text: str, column_names: frozenset[str]) -> Iterator[Piece]:
    position = 0
    if "<si" not in text and "<is" not in text and "<text" not in text:
        yield text
        return
    for element in elements(text, TEXT_HOLDERS):
        text_element = find_child(text, element, "t")
        if text_element is None or (
            unescape(text_element.content(text)) in column_names and "<r>" not in element.content(text)
        ):
            continue
        is_plain = "<r>" not in element.content(text) and "<r " not in element.content(text)
        start, end = (
            (text_element.inner, text_element.inner_end) if is_plain else (element.inner, element.inner_end)
        )
        yield text[position:start]
        if is_plain:
            yield text_unit(text_element.content(text), (unescape(text_element.content(text)),), write_xml)
        else:
            yield paragraph(text, element, SHEET)
        position = end
    yield text[position:]


XLSX = DocumentFormat("xlsx", (".xlsx", ".xlsm", ".xltx"), members=workbook_members)

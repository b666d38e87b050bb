"""Office Open XML: Word (.docx), PowerPoint (.pptx) and Excel (.xlsx)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from uwaga.documents.document import DocumentFormat, Reader
from uwaga.documents.encodings import xml_reader
from uwaga.documents.runs import DRAWING, SHEET, WORD, paragraph, paragraphs
from uwaga.errors import DataError
from uwaga.files.zip import Archive
from uwaga.markup.units import Piece, text_unit
from uwaga.markup.xml import attributes, child, elements, unescape, write_xml

CONTENT_TYPES = "[Content_Types].xml"
RELATIONS = "_rels/.rels"


def parts(archive: Archive, wanted: re.Pattern[str], main: str, what: str) -> list[str]:
    """Return the names of the parts that hold text.

    Args:
        archive: the document.
        wanted: the pattern of their names.
        main: the beginning of the name of the main part.
        what: the format, for messages.
    """
    found = [name for name in archive.names if wanted.fullmatch(name)]
    stated = _stated_main(archive)
    known = any(name.startswith(main) for name in archive.names)
    if CONTENT_TYPES not in archive or not (known or stated.startswith(f"{main.partition('/')[0]}/")):
        raise DataError(f"{archive.path}: not a {what}: the archive lacks {CONTENT_TYPES} or {main}")
    if stated in archive and stated not in found and wanted.fullmatch(f"{main}.xml"):
        found.append(stated)
    return found


def _stated_main(archive: Archive) -> str:
    """Return the name of the main part, as the package declares it."""
    if RELATIONS not in archive:
        return ""
    text = archive.read(RELATIONS).decode("utf-8", "replace")
    for tag in re.findall(r"<(?:\w+:)?Relationship\b[^<>]*>", text):
        named = attributes(tag)
        if named.get("Type", "").endswith("/officeDocument"):
            return named.get("Target", "").lstrip("/")
    return ""


WORD_PARTS = re.compile(r"word/(?:document\d*|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
WORD_DRAWINGS = re.compile(r"word/(?:charts/chart\d+|diagrams/data\d+|diagrams/drawing\d+)\.xml")


def _word(text: str) -> Iterator[Piece]:
    return paragraphs(text, WORD)


def _drawn(text: str) -> Iterator[Piece]:
    return paragraphs(text, DRAWING)


def word_members(archive: Archive) -> Mapping[str, Reader]:
    """Return the parts of a document that hold text."""
    found = dict.fromkeys(parts(archive, WORD_PARTS, "word/document", "Word document"), xml_reader(_word))
    if "word/styles.xml" in archive:  # has the language of the text
        found["word/styles.xml"] = xml_reader(lambda text: iter([text]))
    return {**found, **{name: xml_reader(_drawn) for name in archive.names if WORD_DRAWINGS.fullmatch(name)}}


DOCX = DocumentFormat("docx", (".docx", ".docm", ".dotx"), members=word_members)


SLIDE_PARTS = re.compile(
    r"ppt/(?:slides/slide\d+|notesSlides/notesSlide\d+|charts/chart\d+|diagrams/data\d+|diagrams/drawing\d+)\.xml"
)


def presentation_members(archive: Archive) -> Mapping[str, Reader]:
    """Return the parts of a presentation that hold text."""
    return dict.fromkeys(parts(archive, SLIDE_PARTS, "ppt/presentation", "presentation"), xml_reader(_drawn))


PPTX = DocumentFormat("pptx", (".pptx", ".pptm", ".ppsx"), members=presentation_members)


SHEET_PARTS = re.compile(r"xl/sharedStrings\.xml|xl/worksheets/sheet\d+\.xml|xl/comments/?\w*\.xml")
SHEET_DRAWINGS = re.compile(r"xl/(?:drawings/drawing\d+|charts/chart\d+|diagrams/data\d+)\.xml")
TABLES = re.compile(r"xl/(?:tables/table\d+|pivotCache/pivotCacheDefinition\d+)\.xml")
NAMED = re.compile(r"""<(?:tableColumn|cacheField)\b[^<>]*?\sname=(?:"([^"<]*)"|'([^'<]*)')""")
HOLDERS = ("si", "is", "text")


def workbook_members(archive: Archive) -> Mapping[str, Reader]:
    """Return the parts of a workbook that hold text: cells, comments and drawings.

    Names that formulas and tables refer to are copied: those of sheets, and the texts of cells that head a
    table or a pivot table, which Excel requires to equal the table's own names.
    """
    found = parts(archive, SHEET_PARTS, "xl/workbook", "workbook")
    named = frozenset(
        unescape(double or single)
        for name in archive.names
        if TABLES.fullmatch(name)
        for double, single in NAMED.findall(archive.read(name).decode("utf-8", "replace"))
    )
    strings = xml_reader(lambda text: _strings(text, named))
    drawn = xml_reader(_drawn)
    drawings = {name: drawn for name in archive.names if SHEET_DRAWINGS.fullmatch(name)}
    return {**dict.fromkeys(found, strings), **drawings}


def _strings(text: str, named: frozenset[str]) -> Iterator[Piece]:
    at = 0
    if "<si" not in text and "<is" not in text and "<text" not in text:
        yield text
        return
    for one in elements(text, HOLDERS):
        first = child(text, one, "t")
        if first is None or (unescape(first.content(text)) in named and "<r>" not in one.content(text)):
            continue
        plain = "<r>" not in one.content(text) and "<r " not in one.content(text)
        start, end = (first.inner, first.inner_end) if plain else (one.inner, one.inner_end)
        yield text[at:start]
        if plain:
            yield text_unit(first.content(text), (unescape(first.content(text)),), write_xml)
        else:
            yield paragraph(text, one, SHEET)
        at = end
    yield text[at:]


XLSX = DocumentFormat("xlsx", (".xlsx", ".xlsm", ".xltx"), members=workbook_members)

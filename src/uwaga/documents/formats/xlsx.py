"""Excel (.xlsx): the texts of cells, comments and drawings.

Names that formulas and tables refer to stay: those of sheets, and the texts of cells that head a table or a
pivot table, which Excel wants equal to the table's own names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from uwaga.documents.document import Reader
from uwaga.documents.office import parts, xml_reader
from uwaga.documents.registry import DocumentFormat
from uwaga.documents.runs import DRAWING, SHEET, paragraph, paragraphs
from uwaga.files.zip import Archive
from uwaga.markup.units import Piece, text_unit
from uwaga.markup.xml import child, elements, unescape, write_xml

STRINGS = re.compile(r"xl/sharedStrings\.xml|xl/worksheets/sheet\d+\.xml|xl/comments/?\w*\d*\.xml")
DRAWN = re.compile(r"xl/(?:drawings/drawing\d+|charts/chart\d+|diagrams/data\d+)\.xml")
TABLES = re.compile(r"xl/(?:tables/table\d+|pivotCache/pivotCacheDefinition\d+)\.xml")
NAMED = re.compile(r"""<(?:tableColumn|cacheField)\b[^>]*?\sname=(?:"([^"]*)"|'([^']*)')""")
HOLDERS = ("si", "is", "text")


def members(archive: Archive) -> Mapping[str, Reader]:
    """The parts of a workbook that hold text."""
    found = parts(archive, STRINGS, "xl/workbook", "workbook")
    named = frozenset(
        unescape(double or single)
        for name in archive.names
        if TABLES.fullmatch(name)
        for double, single in NAMED.findall(archive.read(name).decode("utf-8", "replace"))
    )
    strings = xml_reader(lambda text: _strings(text, named))
    drawn = xml_reader(lambda text: paragraphs(text, DRAWING))
    drawings = {name: drawn for name in archive.names if DRAWN.fullmatch(name)}
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


FORMAT = DocumentFormat("xlsx", (".xlsx", ".xlsm", ".xltx"), members=members)

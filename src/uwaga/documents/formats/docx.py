"""Word (.docx): body, headers, footers, notes, comments and text boxes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from uwaga.documents.document import Reader
from uwaga.documents.office import parts, xml_reader
from uwaga.documents.registry import DocumentFormat
from uwaga.documents.runs import DRAWING, WORD, paragraphs
from uwaga.files.zip import Archive
from uwaga.markup.units import Piece

PARTS = re.compile(r"word/(?:document\d*|header\d*|footer\d*|footnotes|endnotes|comments)\.xml")
DRAWN = re.compile(r"word/(?:charts/chart\d+|diagrams/data\d+|diagrams/drawing\d+)\.xml")


def _word(text: str) -> Iterator[Piece]:
    return paragraphs(text, WORD)


def _drawn(text: str) -> Iterator[Piece]:
    return paragraphs(text, DRAWING)


def members(archive: Archive) -> Mapping[str, Reader]:
    """The parts of a document that hold text."""
    found = dict.fromkeys(parts(archive, PARTS, "word/document", "Word document"), xml_reader(_word))
    return {**found, **{name: xml_reader(_drawn) for name in archive.names if DRAWN.fullmatch(name)}}


FORMAT = DocumentFormat("docx", (".docx", ".docm", ".dotx"), members=members)

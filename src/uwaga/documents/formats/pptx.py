"""PowerPoint (.pptx): slides, their notes, diagrams and the titles of charts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from uwaga.documents.document import Reader
from uwaga.documents.office import parts, xml_reader
from uwaga.documents.registry import DocumentFormat
from uwaga.documents.runs import DRAWING, paragraphs
from uwaga.files.zip import Archive
from uwaga.markup.units import Piece

PARTS = re.compile(
    r"ppt/(?:slides/slide\d+|notesSlides/notesSlide\d+|charts/chart\d+|diagrams/data\d+|diagrams/drawing\d+)\.xml"
)


def _drawn(text: str) -> Iterator[Piece]:
    return paragraphs(text, DRAWING)


def members(archive: Archive) -> Mapping[str, Reader]:
    """The parts of a presentation that hold text."""
    return dict.fromkeys(parts(archive, PARTS, "ppt/presentation", "presentation"), xml_reader(_drawn))


FORMAT = DocumentFormat("pptx", (".pptx", ".pptm", ".ppsx"), members=members)

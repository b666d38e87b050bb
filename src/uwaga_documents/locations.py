"""The location of a text in a document, as shown to users: line, paragraph, slide or cell."""

from __future__ import annotations

import re
from functools import cached_property

from uwaga.files.zip import Archive
from uwaga.markup.xml import attributes, unescape

SLIDE = re.compile(r"ppt/(slides/slide|notesSlides/notesSlide)(\d{1,9})\.xml")
PARAGRAPH_END = re.compile(r"</(?:\w+:)?[ph]>|<(?:w|a|text):p(?:\s[^<>]*)?/>")
"""The end of a paragraph or heading of an office document, or an empty paragraph."""
STRING_END = re.compile(r"</(?:\w+:)?si>|<(?:\w+:)?si/>")
CELL = re.compile(r"<(?:\w+:)?c\s[^<>]*>")
SHARED = re.compile(r"(<(?:\w+:)?c\s[^<>]*>)\s*<(?:\w+:)?v>\s*(\d{1,9})\s*<")
SHEET = re.compile(r"<(?:\w+:)?sheet\s[^<>]*>")
RELATIONSHIP = re.compile(r"<(?:\w+:)?Relationship\s[^<>]*>")
WORKBOOK, WORKBOOK_RELATIONS = "xl/workbook.xml", "xl/_rels/workbook.xml.rels"
STRINGS = "xl/sharedStrings.xml"


class Location:
    """The location that has been reached while a document is written, as a line number.

    Args:
        name: the name of a member of an archive, as shown to users; None for the document itself.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name, self._count = name, 1

    def follow(self, text: str) -> None:
        """Move past the next text of the document."""
        self._count += text.count("\n") + text.count("\r") - text.count("\r\n")

    def __str__(self) -> str:
        line = f"line {self._count}"
        return line if self._name is None else f"{self._name}, {line}"


class Paragraph(Location):
    """The location of a paragraph of an office document."""

    def follow(self, text: str) -> None:
        self._count += len(PARAGRAPH_END.findall(text))

    def __str__(self) -> str:
        return f"{self._name}, paragraph {self._count}"


class Cell(Location):
    """The location of a cell whose text is in the sheet rather than in a shared string."""

    _cell = ""

    def follow(self, text: str) -> None:
        for tag in CELL.findall(text, max(text.rfind("row "), 0))[-1:]:
            self._cell = attributes(tag).get("r", "")

    def __str__(self) -> str:
        return f"{self._name}!{self._cell}" if self._cell else str(self._name)


class SharedString(Location):
    """The location of a shared string of a workbook: the first cell that contains the string.

    Args:
        archive: the locations of the members of the workbook.
    """

    def __init__(self, archive: ArchiveLocations) -> None:
        super().__init__()
        self._archive, self._count = archive, 0

    def follow(self, text: str) -> None:
        self._count += len(STRING_END.findall(text))

    def __str__(self) -> str:
        return self._archive.string_cells.get(self._count, f"text {self._count + 1} of the workbook")


class ArchiveLocations:
    """The locations of the members of an archive.

    The names of a workbook's sheets and cells are read once, when they are needed.

    Args:
        archive: the archive.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def member(self, name: str) -> Location:
        """Return the location of the start of a member."""
        if name == STRINGS:
            return SharedString(self)
        if name.startswith("xl/worksheets/"):
            return Cell(self.sheet_names.get(name, name))
        if slide := SLIDE.fullmatch(name):
            notes = "notes of " if slide[1].startswith("notes") else ""
            return Paragraph(f"{notes}slide {slide[2]}")
        return Paragraph(name) if name.endswith(".xml") else Location(name)

    @cached_property
    def sheet_names(self) -> dict[str, str]:
        """The name of each sheet of a workbook, by the name of the sheet's member in the archive."""
        return _sheet_names(self._archive)

    @cached_property
    def string_cells(self) -> dict[int, str]:
        """The first cell of each shared string, by the index of the string."""
        cells: dict[int, str] = {}
        for member, sheet in self.sheet_names.items():
            text = self._archive.read(member).decode("utf-8", "replace")
            for tag, string_index in SHARED.findall(text):
                values = attributes(tag)
                if values.get("t") == "s":
                    cells.setdefault(int(string_index), f"{sheet}!{values.get('r', '')}")
        return cells


def _sheet_names(archive: Archive) -> dict[str, str]:
    if WORKBOOK not in archive or WORKBOOK_RELATIONS not in archive:
        return {}
    targets = {}
    for tag in RELATIONSHIP.findall(archive.read(WORKBOOK_RELATIONS).decode("utf-8", "replace")):
        values = attributes(tag)
        target = values.get("Target", "")
        targets[values.get("Id", "")] = target[1:] if target.startswith("/") else f"xl/{target}"
    names = {}
    for tag in SHEET.findall(archive.read(WORKBOOK).decode("utf-8", "replace")):
        values = attributes(tag)
        relation_id = next((value for key, value in values.items() if key.endswith(":id")), "")
        if (member := targets.get(relation_id, "")) in archive:
            names[member] = unescape(values.get("name", ""))
    return names

"""What the formats of Office Open XML have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from uwaga.documents.document import DocumentSource, Reader, Reading
from uwaga.documents.encodings import xml_text
from uwaga.errors import DataError
from uwaga.files.zip import Archive
from uwaga.markup.units import Piece
from uwaga.markup.xml import attributes

CONTENT_TYPES = "[Content_Types].xml"
RELATIONS = "_rels/.rels"


def xml_reader(pieces: Callable[[str], Iterator[Piece]]) -> Reader:
    """A reader of members in XML, of what takes their text apart."""

    def read(source: DocumentSource) -> Reading:
        text, encoding, mark = xml_text(source)
        return Reading(pieces(text), encoding, "xmlcharrefreplace", mark)

    return read


def parts(archive: Archive, wanted: re.Pattern[str], main: str, what: str) -> list[str]:
    """The names of the parts that hold text.

    Args:
        archive: the document.
        wanted: what their names look like.
        main: what the name of the part that no such document lacks begins with.
        what: the format, for messages.

    Raises:
        DataError: it is no such document.
    """
    found = [name for name in archive.names if wanted.fullmatch(name)]
    stated = _stated_main(archive)
    known = any(name.startswith(main) for name in archive.names)
    if CONTENT_TYPES not in archive or not (known or stated.startswith(f"{main.partition('/')[0]}/")):
        raise DataError(f"{archive.path}: is an archive but no {what}: it lacks {CONTENT_TYPES} or {main}")
    if stated in archive and stated not in found and wanted.fullmatch(f"{main}.xml"):
        found.append(stated)
    return found


def _stated_main(archive: Archive) -> str:
    """The part that a package names as its document, wherever it lies."""
    if RELATIONS not in archive:
        return ""
    text = archive.read(RELATIONS).decode("utf-8", "replace")
    for tag in re.findall(r"<(?:\w+:)?Relationship\b[^>]*>", text):
        named = attributes(tag)
        if named.get("Type", "").endswith("/officeDocument"):
            return named.get("Target", "").lstrip("/")
    return ""

"""From a document's bytes to its text and back, byte for byte."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from xml.parsers import expat

from uwaga.documents.document import DocumentSource, Reader, Reading
from uwaga.errors import DataError, SettingsError, shown
from uwaga.markup.units import Piece

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
STATED = re.compile(
    rb"""<meta[^>]*?charset\s*=\s*["']?\s*([A-Za-z0-9._:-]+)|^\s*<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]+)""",
    re.IGNORECASE,
)
LOOKED = 4096
"""Bytes in which a page states its encoding; the standard asks for 1024."""
SUPERSETS = {"iso8859-1": "cp1252", "ascii": "cp1252"}
"""What browsers read these as."""
NO_MARK = {"utf-16", "utf-16-le", "utf-16-be", "utf-32"}
"""A page that states one of these in bytes that could be read is in UTF-8 (WHATWG encoding, 4.2)."""
DEEPEST = 256
"""Most XML elements inside each other."""
XML_STATED = re.compile(rb"""^\s*<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")


def marked_encoding(content: bytes) -> tuple[bytes, str | None]:
    """The byte order mark that a document begins with, and the encoding it says."""
    for mark, encoding in MARKS:
        if content.startswith(mark):
            return mark, encoding
    return b"", None


def known_encoding(name: str, where: str) -> str:
    """The name of an encoding as Python has it.

    Raises:
        SettingsError: there is none, or it is none of text.
    """
    try:
        info = codecs.lookup(name)
        "".encode(info.name)
    except (LookupError, ValueError):
        raise SettingsError(
            f"{where}: {shown(name)} is no encoding of text that is known; try utf-8 or iso-8859-1"
        ) from None
    return info.name


def decode(content: bytes, encoding: str, where: str) -> str:
    """A document's text, from which its bytes can be made again.

    Args:
        content: without a byte order mark.
        encoding: as Python calls it.
        where: the file, for messages.

    Raises:
        DataError: a byte is not of the encoding: names byte and line; or the encoding writes it another way.
    """
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{where}: line {line}, byte {error.start + 1} of the file is not {encoding} "
            f"({shown(content[error.start : error.start + 4])}); name its encoding with --encoding, or save "
            "it as UTF-8"
        ) from None
    except UnicodeError:
        raise DataError(f"{where}: is not {encoding}; name its encoding with --encoding") from None
    if encoding not in ("utf-8", "ascii", "iso8859-1") and text.encode(encoding) != content:
        raise DataError(f"{where}: {encoding} writes it with other bytes; save it as UTF-8 first")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(f"{where}: line {line} holds a NUL, so this is no text in {encoding}")
    return text


def decode_text(content: bytes, encoding: str | None, where: str) -> tuple[str, str, bytes]:
    """A text, its encoding and its byte order mark; UTF-8 where nobody says another.

    Raises:
        DataError, SettingsError: as :func:`decode` and :func:`known_encoding`.
    """
    mark, marked = marked_encoding(content)
    name = marked or (known_encoding(encoding, where) if encoding else "utf-8")
    return decode(content[len(mark) :], name, where), name, mark


def html_text(source: DocumentSource) -> tuple[str, str, bytes]:
    """The text of a page, its encoding and its byte order mark.

    Raises:
        DataError: a byte is not of the encoding.
        SettingsError: the user names an encoding that nobody knows.
    """
    mark, encoding = marked_encoding(source.content)
    if encoding is None and source.options.encoding:
        encoding = known_encoding(source.options.encoding, source.name)
    if encoding is None:
        encoding = _stated(source)
    content = source.content[len(mark) :]
    if encoding == "cp1252" and any(byte in content for byte in b"\x81\x8d\x8f\x90\x9d"):
        encoding = "iso8859-1"
    return decode(content, encoding, source.name), encoding, mark


def _stated(source: DocumentSource) -> str:
    found = STATED.search(source.content[:LOOKED])
    if found is None:
        return "utf-8"
    try:
        name = known_encoding((found[1] or found[2]).decode("ascii"), source.name)
    except SettingsError:
        return "utf-8"
    return "utf-8" if name in NO_MARK else SUPERSETS.get(name, name)


def xml_text(source: DocumentSource) -> tuple[str, str, bytes]:
    """The text of a well-formed XML document, its encoding and its byte order mark.

    Raises:
        DataError: it is not well-formed (names line and column), declares entities of its own, is nested
            beyond measure or not in the encoding that it states.
    """
    _check(source)
    mark, encoding = marked_encoding(source.content)
    if encoding is None:
        stated = XML_STATED.match(source.content[:1024])
        encoding = known_encoding(stated[1].decode("ascii"), source.name) if stated else "utf-8"
        if encoding in ("utf-16", "utf-16-le", "utf-16-be"):
            raise DataError(f"{source.name}: says it is UTF-16, but has no byte order mark")
    return decode(source.content[len(mark) :], encoding, source.name), encoding, mark


def _check(source: DocumentSource) -> None:
    parser = expat.ParserCreate()
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST:
            raise DataError(
                f"{source.name}: line {parser.CurrentLineNumber}: more than {DEEPEST} elements within each "
                "other; no document needs so many"
            )

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1

    def entity(name: str, *_: object) -> None:
        raise DataError(
            f"{source.name}: line {parser.CurrentLineNumber} declares the entity {shown(name)}; entities are "
            "never followed, for they could read other files or grow without bound: write the text itself "
            "in their place"
        )

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.EntityDeclHandler = entity
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    try:
        parser.Parse(source.content, True)
    except expat.ExpatError as error:
        raise DataError(
            f"{source.name}: line {error.lineno}, column {error.offset + 1}: no well-formed XML: "
            f"{expat.ErrorString(error.code)}"
        ) from None
    except (LookupError, ValueError) as error:
        raise DataError(f"{source.name}: cannot be read: {shown(str(error))}") from None


def xml_reader(pieces: Callable[[str], Iterator[Piece]]) -> Reader:
    """A reader of members in XML, of what takes their text apart."""

    def read(source: DocumentSource) -> Reading:
        text, encoding, mark = xml_text(source)
        return Reading(pieces(text), encoding, "xmlcharrefreplace", mark)

    return read

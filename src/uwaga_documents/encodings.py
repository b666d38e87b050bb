"""Decoding of documents, so that encoding the text again restores the same bytes."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from xml.parsers import expat

from uwaga.errors import DataError, SettingsError, quoted
from uwaga.markup.units import Piece
from uwaga_documents.document import DocumentSource, ParsedDocument, Reader
from uwaga_documents.language import xml_in_target

TEXT_CODECS = re.compile(
    r"(?:cp|iso8859-|iso2022_|koi8-|mac-|gb|big5|euc_|shift_jis)\w*|utf-(?:8(?:-sig)?|(?:16|32)(?:-[lb]e)?)"
    r"|ascii|hz|johab|tis-620|kz1048|ptcp154|hp-roman8"
)
"""Python's names of the encodings of the WHATWG and of older systems; other codecs, such as ``idna`` and
``unicode-escape``, transform text."""
BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
DECLARED_ENCODING = re.compile(
    rb"""<meta[^<>]*?charset\s*+=\s*+["']?\s*+([A-Za-z0-9._:-]+)|^\s*+<\?xml[^<>]*?encoding\s*+=\s*+["']([A-Za-z0-9._-]+)""",
    re.IGNORECASE,
)
MAX_DECLARATION_BYTES = 4096
"""Number of bytes of a page that are searched for a declared encoding; the standard requires 1024."""
SUPERSETS = {"iso8859-1": "cp1252", "ascii": "cp1252"}
"""Encodings that browsers use instead of a declared encoding, by the name of the declared encoding."""
UNREADABLE_DECLARATIONS = {"utf-16", "utf-16-le", "utf-16-be", "utf-32"}
"""Encodings that a page cannot declare in ASCII bytes; a page that declares one of them is in UTF-8 (WHATWG
encoding, 4.2)."""
MAX_ELEMENT_DEPTH = 256
"""Maximum depth of XML elements."""
DECLARED_XML_ENCODING = re.compile(rb"""^\s*+<\?xml[^<>]*?\sencoding\s*+=\s*+["']([A-Za-z0-9._-]+)["']""")


def byte_order_mark(content: bytes) -> tuple[bytes, str | None]:
    """Return the byte order mark of a document and the encoding that it indicates, or b"" and None."""
    for bom, encoding in BYTE_ORDER_MARKS:
        if content.startswith(bom):
            return bom, encoding
    return b"", None


def normalise_encoding(name: str, location: str) -> str:
    """Return Python's name for an encoding."""
    try:
        codec = codecs.lookup(name).name
    except (LookupError, ValueError):
        codec = ""
    if not TEXT_CODECS.fullmatch(codec):
        raise SettingsError(
            f"{location}: {quoted(name)} is not a known text encoding; try utf-8 or iso-8859-1"
        )
    return codec


def decode(content: bytes, encoding: str, location: str) -> str:
    """Decode a document, and check that encoding the text again restores the same bytes.

    Args:
        content: the document without its byte order mark.
        encoding: Python's name of the encoding.
        location: the file, for messages.
    """
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{location}: line {line}, byte {error.start + 1} of the file is not valid {encoding} "
            f"({quoted(content[error.start : error.start + 4])}); specify its encoding with --encoding, or "
            "save it as UTF-8"
        ) from None
    except UnicodeError:
        raise DataError(
            f"{location}: is not valid {encoding}; specify its encoding with --encoding"
        ) from None
    if encoding not in ("utf-8", "ascii", "iso8859-1") and text.encode(encoding, "replace") != content:
        raise DataError(
            f"{location}: the bytes would change when written in {encoding} again; save it as UTF-8 first"
        )
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(
            f"{location}: line {line} contains a NUL character, so this is not text in {encoding}"
        )
    return text


@dataclass(frozen=True)
class DecodedText:
    """The text of a document.

    Attributes:
        text: the text, without the byte order mark.
        encoding: Python's name of the encoding.
        bom: the byte order mark; empty if there is none.
    """

    text: str
    encoding: str
    bom: bytes

    def parsed(self, pieces: Iterable[Piece], errors: str = "strict") -> ParsedDocument:
        """Return the pieces of the text as a document in its encoding; see :class:`ParsedDocument`."""
        return ParsedDocument(pieces, self.encoding, errors, self.bom)


def decode_text(source: DocumentSource, default: str = "utf-8") -> DecodedText:
    """Decode a document in the encoding of its byte order mark, ``options.encoding`` or ``default``.

    The first of these that is present is used.

    Raises:
        DataError: the content is not valid in the encoding; the message gives the line number.
        SettingsError: the encoding is unknown.
    """
    bom, encoding = byte_order_mark(source.content)
    if encoding is None:
        requested_encoding = source.options.encoding
        encoding = normalise_encoding(requested_encoding, source.name) if requested_encoding else default
    return DecodedText(decode(source.content[len(bom) :], encoding, source.name), encoding, bom)


def html_text(source: DocumentSource) -> DecodedText:
    """Decode an HTML page as :func:`decode_text` does; the default is the encoding that the page declares."""
    bom, encoding = byte_order_mark(source.content)
    if encoding is None and source.options.encoding:
        encoding = normalise_encoding(source.options.encoding, source.name)
    if encoding is None:
        encoding = _declared_encoding(source)
    content = source.content[len(bom) :]
    if encoding == "cp1252" and any(byte in content for byte in b"\x81\x8d\x8f\x90\x9d"):
        encoding = "iso8859-1"
    return DecodedText(decode(content, encoding, source.name), encoding, bom)


def _declared_encoding(source: DocumentSource) -> str:
    match = DECLARED_ENCODING.search(source.content[:MAX_DECLARATION_BYTES])
    if match is None:
        return "utf-8"
    try:
        name = normalise_encoding((match[1] or match[2]).decode("ascii"), source.name)
    except SettingsError:
        return "utf-8"
    return "utf-8" if name in UNREADABLE_DECLARATIONS else SUPERSETS.get(name, name)


def xml_text(source: DocumentSource) -> DecodedText:
    """Decode a well-formed XML document in the encoding of its byte order mark or of its declaration."""
    bom, encoding = byte_order_mark(source.content)
    if encoding is None:
        declaration = DECLARED_XML_ENCODING.match(source.content[:1024])
        try:
            encoding = (
                normalise_encoding(declaration[1].decode("ascii"), source.name) if declaration else "utf-8"
            )
        except SettingsError as error:
            raise DataError(str(error)) from None
        if encoding in ("utf-16", "utf-16-le", "utf-16-be"):
            raise DataError(f"{source.name}: is declared as UTF-16 but has no byte order mark")
    _check_xml(source)
    return DecodedText(decode(source.content[len(bom) :], encoding, source.name), encoding, bom)


def _check_xml(source: DocumentSource) -> None:
    parser = expat.ParserCreate(intern=None)  # interned names would be kept in memory
    depth = 0

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_ELEMENT_DEPTH:
            raise DataError(
                f"{source.name}: line {parser.CurrentLineNumber}: more than {MAX_ELEMENT_DEPTH} nested "
                "elements"
            )

    def end(name: str) -> None:
        nonlocal depth
        depth -= 1

    def entity(name: str, *_: object) -> None:
        raise DataError(
            f"{source.name}: line {parser.CurrentLineNumber} declares the entity {quoted(name)}; entities "
            "are never expanded, because they could read other files or grow without bound: write the text "
            "itself instead"
        )

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.EntityDeclHandler = entity
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    try:
        parser.Parse(source.content, True)
    except expat.ExpatError as error:
        raise DataError(
            f"{source.name}: line {error.lineno}, column {error.offset + 1}: not well-formed XML: "
            f"{expat.ErrorString(error.code)}"
        ) from None
    except (LookupError, ValueError) as error:
        raise DataError(f"{source.name}: cannot be read: {quoted(str(error))}") from None


def xml_reader(pieces: Callable[[str], Iterator[Piece]]) -> Reader:
    """Return a reader of XML files from a function that yields the pieces of their text."""

    def read(source: DocumentSource) -> ParsedDocument:
        decoded = xml_text(source)
        return decoded.parsed(pieces(xml_in_target(decoded.text, source.options)), "xmlcharrefreplace")

    return read

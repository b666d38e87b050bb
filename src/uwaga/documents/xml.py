"""XML from strangers: checked as a whole before it is taken apart, nothing outside it ever read."""

from __future__ import annotations

import re
from html.entities import name2codepoint
from xml.parsers import expat

from uwaga.documents.document import DocumentSource
from uwaga.documents.encodings import decode, known_encoding, marked_encoding
from uwaga.errors import DataError, shown

DEEPEST = 256
"""Elements within each other."""
LARGEST_TAG = 1 << 24
DECLARED = re.compile(rb"""^\s*<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
REFERENCE = re.compile(r"&(?:#(\d{1,7})|#[xX]([0-9A-Fa-f]{1,6})|([A-Za-z][\w.-]*));")
OWN = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
"""Characters that XML cannot write, in no way."""


def xml_text(source: DocumentSource) -> tuple[str, str, bytes]:
    """The text of a well-formed XML document, its encoding and its byte order mark.

    Raises:
        DataError: it is not well-formed (names line and column), declares entities of its own, is nested
            beyond measure or not in the encoding that it states.
    """
    _check(source)
    mark, encoding = marked_encoding(source.content)
    if encoding is None:
        stated = DECLARED.match(source.content[:1024])
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


def resolve(name: str) -> str | None:
    """The character that an entity of XML or HTML stands for, None where it is another's."""
    if name in OWN:
        return OWN[name]
    code = name2codepoint.get(name)
    return None if code is None else chr(code)


def unescape(raw: str) -> str:
    """What text or an attribute's value says; entities that nobody knows stay as they are written."""

    def character(found: re.Match[str]) -> str:
        decimal, hexadecimal, name = found.groups()
        if name:
            return resolve(name) or found[0]
        code = int(decimal) if decimal else int(hexadecimal, 16)
        return chr(code) if code <= 0x10FFFF and not 0xD800 <= code < 0xE000 else found[0]

    return REFERENCE.sub(character, raw) if "&" in raw else raw


def escape(text: str) -> str:
    """A text as XML and HTML write it; what XML cannot write is left out."""
    text = FORBIDDEN.sub("", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_attribute(text: str, quote: str = '"') -> str:
    """A text as the value of an attribute in such quotes."""
    return escape(text).replace(quote, "&quot;" if quote == '"' else "&#39;")

"""XML in a string, such as a segment of XLIFF: one text whose elements are all inline.

The string is checked first. Entities of its own and documents outside it are refused, never followed.
"""

from __future__ import annotations

import re
from html import unescape
from xml.parsers import expat

from uwaga.errors import DataError, shown
from uwaga.markup.fragments import Fragment, TextUnit, escaping
from uwaga.markup.inline import Tag, TagKind
from uwaga.markup.placing import joined
from uwaga.markup.tag_attributes import INSIDE

CODES = frozenset(("ph", "bpt", "ept", "it", "sub"))
"""Elements of XLIFF 1.2 and TMX that hold what another format writes."""
XML_TOKEN = re.compile(
    r"<!--.*?-->|<!\[CDATA\[(?P<data>.*?)\]\]>|<\?.*?\?>"
    rf"|<(?P<slash>/?)(?P<name>[^\s/<>!?]+){INSIDE}>",
    re.DOTALL,
)
PROTECTED = re.compile(r"""\s(?:translate\s*=\s*["']no["']|mtype\s*=\s*["']protected["'])""")
DOCUMENT = re.compile(r"\s*<(?:\?xml\s|!DOCTYPE)")
"""What a whole document begins with; other instructions may stand in a fragment."""
ROOT = "fragment"


def read_xml(text: str, ignored: frozenset[str] = frozenset()) -> Fragment:
    """A string of XML taken apart.

    Args:
        text: well-formed content of an element; a whole document too, if it declares nothing.
        ignored: names of elements to leave alone, beside those that say it and the codes of XLIFF.

    Raises:
        DataError: it is not well-formed, or declares a document type or entities.
    """
    check_xml(text)
    parts = [part for _, part in xml_parts(text, ignored)]
    words = XML_TOKEN.sub("", text)
    if not any(isinstance(part, str) and not part.isspace() for part in parts):
        return Fragment((text,) if text else ())
    return Fragment((TextUnit(joined(parts), escaping(words, unescape)),))


def xml_parts(text: str, ignored: frozenset[str]) -> list[tuple[str, str | Tag]]:
    """The words and tags of a string that is well-formed, each with how it is written.

    Args:
        text: the string.
        ignored: names of elements to leave alone, beside those that say it and the codes of XLIFF.
    """
    parts: list[tuple[str, str | Tag]] = []
    at = 0
    while (found := XML_TOKEN.search(text, at)) is not None:
        if found.start() > at:
            parts.append((text[at : found.start()], unescape(text[at : found.start()])))
        at = found.end()
        name, raw = found["name"], found.group()
        closes = bool(found["slash"])
        kind: TagKind = "void" if not name or raw.endswith("/>") else "close" if closes else "open"
        if kind == "open" and (_local(name) in CODES | ignored or PROTECTED.search(raw)):
            at = _end(text, name, at)
            raw = text[found.start() : at]
            parts.append((raw, Tag("kept", raw)))
        elif found["data"] is not None:
            parts.append((raw, Tag("kept", raw, found["data"])))
        else:
            parts.append((raw, Tag(kind, raw)))
    if at < len(text):
        parts.append((text[at:], unescape(text[at:])))
    return parts


def _local(name: str) -> str:
    return name.rsplit(":", 1)[-1].lower()


def _end(text: str, name: str, at: int) -> int:
    """Where an element ends that has begun; the text is well-formed."""
    depth = 1
    while depth and (found := XML_TOKEN.search(text, at)) is not None:
        at = found.end()
        if found["name"] == name and not found.group().endswith("/>"):
            depth += -1 if found["slash"] else 1
    return at


def check_xml(text: str) -> None:
    """Refuse what is no XML, or declares what could be followed.

    Raises:
        DataError: it is not well-formed, or declares a document type or entities.
    """
    parser = expat.ParserCreate(namespace_separator=None)

    def refuse(*_: object) -> None:
        raise DataError(
            "the XML declares a document type; entities are never followed, for they could read other files "
            "or grow without bound: take the declaration out and write the text itself"
        )

    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    whole = text if DOCUMENT.match(text) else f"<{ROOT}>{text}</{ROOT}>"
    try:
        parser.Parse(whole, True)
    except expat.ExpatError as error:
        raise DataError(
            f"no well-formed XML at line {error.lineno}: {expat.ErrorString(error.code)}: {shown(text)}; "
            "format 'html' takes broken tags"
        ) from None
    except ValueError as error:
        raise DataError(f"no XML: {error}") from None

"""Apple's property lists in XML: strings by the keys that name them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from uwaga.documents.document import DocumentSource, Piece, Reading, text_unit
from uwaga.documents.elements import write_xml
from uwaga.documents.tags import xml_tokens
from uwaga.documents.xml import unescape, xml_text
from uwaga.errors import DataError


def read_property_list(source: DocumentSource, reads: Callable[[str], bool]) -> Reading:
    """Take a property list apart into its strings.

    Args:
        source: the file.
        reads: whether the string of a key is read by people; the key is as it is written.

    Raises:
        DataError: no well-formed XML, or no property list.
    """
    text, encoding, mark = xml_text(source)
    if "<plist" not in text:
        raise DataError(f"{source.name}: no property list in XML; convert it with plutil -convert xml1")
    return Reading(_pieces(text, reads), encoding, "xmlcharrefreplace", mark)


def _pieces(text: str, reads: Callable[[str], bool]) -> Iterator[Piece]:
    at, key, inside = 0, "", ""
    for token in xml_tokens(text):
        if token.kind == "open":
            inside = token.name
        elif token.kind == "close":
            key = "" if token.name == "string" else key
            inside = ""
        elif token.kind == "text" and inside == "key":
            key = text[token.start : token.end]
        elif token.kind == "text" and inside == "string" and reads(key):
            raw = text[token.start : token.end]
            yield text[at : token.start]
            # A variable such as %#@files@ is no word, and a text of nothing else stays.
            yield (
                raw
                if raw.startswith("%#@") and raw.endswith("@") and raw.count("@") == 2
                else text_unit(raw, (unescape(raw),), write_xml)
            )
            at = token.end
    yield text[at:]

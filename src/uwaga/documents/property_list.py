"""Apple's property lists in XML: strings by the keys that name them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from uwaga.documents.document import DocumentSource, Reading
from uwaga.documents.encodings import xml_text
from uwaga.errors import DataError
from uwaga.markup import Inline, plain_text
from uwaga.markup.units import Piece, text_unit
from uwaga.markup.xml import unescape, write_xml, xml_tokens

CDATA, CDATA_END = "<![CDATA[", "]]>"


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
    at, inside = 0, ""
    keys = [""]  # of the dictionaries and arrays that are open; an array's is that of all its strings
    for token in xml_tokens(text):
        raw = text[token.start : token.end]
        if token.kind == "open":
            inside = token.name
            if inside in ("dict", "array"):
                keys.append(keys[-1] if inside == "array" else "")
        elif token.kind == "close":
            inside = ""
            if token.name in ("dict", "array") and len(keys) > 1:
                keys.pop()
        elif token.kind in ("text", "cdata") and inside == "key":
            keys[-1] = raw.removeprefix(CDATA).removesuffix(CDATA_END)
        elif token.kind in ("text", "cdata") and inside == "string" and reads(keys[-1]):
            yield text[at : token.start]
            yield _string(raw, token.kind == "cdata")
            at = token.end
    yield text[at:]


def _string(raw: str, is_data: bool) -> Piece:
    bare = raw[len(CDATA) : -len(CDATA_END)] if is_data else raw
    # A variable such as %#@files@ is no word, and a text of nothing else stays.
    if bare.startswith("%#@") and bare.endswith("@") and bare.count("@") == 2:
        return raw
    if is_data:
        return text_unit(raw, (bare,), _write_data)
    return text_unit(raw, (unescape(raw),), write_xml)


def _write_data(made: Inline) -> str:
    """A text that ends such a section is parted between two."""
    parted = f"{CDATA_END[:2]}{CDATA_END}{CDATA}{CDATA_END[2:]}"
    return f"{CDATA}{plain_text(made).replace(CDATA_END, parted)}{CDATA_END}"

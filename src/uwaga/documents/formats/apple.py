"""Apple's .strings and .stringsdict: pairs of keys and values, or property lists in XML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from uwaga.documents.document import DocumentFormat, DocumentSource, Reading
from uwaga.documents.encodings import decode_text, marked_encoding, xml_text
from uwaga.documents.messages import ORDER, message_unit
from uwaga.errors import DataError
from uwaga.markup.units import Piece
from uwaga.markup.xml import escape, unescape, xml_tokens

CDATA, CDATA_END = "<![CDATA[", "]]>"


def read_property_list(source: DocumentSource, reads: Callable[[str], bool]) -> Reading:
    """Read the strings of a property list.

    Args:
        source: the file.
        reads: returns for a key, as it is written, whether people read its string.
    """
    text, encoding, mark = xml_text(source)
    if "<plist" not in text:
        raise DataError(f"{source.name}: not a property list in XML; convert it with plutil -convert xml1")
    return Reading(_list_pieces(text, reads), encoding, "xmlcharrefreplace", mark)


def _list_pieces(text: str, reads: Callable[[str], bool]) -> Iterator[Piece]:
    at, inside = 0, ""
    keys = [""]  # of the open dictionaries and arrays; all strings of an array have its key
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
    # A text that is only a variable such as %#@files@ is copied.
    if bare.startswith("%#@") and bare.endswith("@") and bare.count("@") == 2:
        return raw
    if is_data:
        return message_unit(raw, bare, _write_data)
    return message_unit(raw, unescape(raw), escape)


def _write_data(text: str) -> str:
    """Write a CDATA section; where the text would end it, it is split in two."""
    parted = f"{CDATA_END[:2]}{CDATA_END}{CDATA}{CDATA_END[2:]}"
    return f"{CDATA}{text.replace(CDATA_END, parted)}{CDATA_END}"


SPACE = re.compile(r"(?:\s++|/\*.*?\*/|//[^\n]*+)*", re.DOTALL)
KEY = re.compile(r'"((?>(?:[^"\\]++|\\.)*))"|[A-Za-z0-9_.$:/-]+', re.DOTALL)
EQUALS = re.compile(r"\s*=\s*")
VALUE = re.compile(r'"((?>(?:[^"\\]++|\\.)*))"', re.DOTALL)
ESCAPE = re.compile(r"\\(?:[uU]([0-9a-fA-F]{4})|(.))", re.DOTALL)
BINARY = b"bplist"
SIGNS = {"n": "\n", "t": "\t", "r": "\r"}


def read_strings(source: DocumentSource) -> Reading:
    """Read the values of a file of key-value pairs."""
    if source.content.startswith(BINARY):
        raise DataError(f"{source.name}: a binary property list; convert it with plutil -convert xml1")
    encoding = source.options.encoding
    if encoding is None and marked_encoding(source.content)[1] is None and b"\0" in source.content[:2]:
        encoding = "utf-16-be" if source.content[:1] == b"\0" else "utf-16-le"
    text, encoding, mark = decode_text(source.content, encoding, source.name)
    if text.lstrip().startswith("<"):
        return read_property_list(source, lambda key: True)
    return Reading(_pair_pieces(text, source.name), encoding, mark=mark)


def _pair_pieces(text: str, where: str) -> Iterator[Piece]:
    at = copied = 0
    while True:
        at = _after(SPACE, text, at)
        if at == len(text):
            break
        key = KEY.match(text, at)
        equals = EQUALS.match(text, key.end()) if key else None
        end = _after(SPACE, text, key.end()) if key else at
        if key and equals is None and text[end : end + 1] == ";":
            at = end + 1  # a key without a value
            continue
        value = VALUE.match(text, _after(SPACE, text, equals.end())) if equals else None
        end = _after(SPACE, text, value.end()) if value else at
        if value is None or text[end : end + 1] != ";":
            line = text.count("\n", 0, at) + 1
            raise DataError(f'{where}: line {line}: expected a pair such as "key" = "value";')
        yield text[copied : value.start(1)]
        yield message_unit(value[1], _unescape(value[1]), _write)
        copied, at = value.end(1), end + 1
    yield text[copied:]


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _unescape(raw: str) -> str:
    def sign(found: re.Match[str]) -> str:
        return chr(int(found[1], 16)) if found[1] else SIGNS.get(found[2], found[2])

    return ESCAPE.sub(sign, raw) if "\\" in raw else raw


def _write(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")


STRINGS = DocumentFormat("strings", (".strings",), read_strings)


FORMS = frozenset((*ORDER, "NSStringLocalizedFormatKey"))


def read_stringsdict(source: DocumentSource) -> Reading:
    """Read the plural forms in a property list."""
    return read_property_list(source, FORMS.__contains__)


STRINGSDICT = DocumentFormat("stringsdict", (".stringsdict",), read_stringsdict)

"""Apple's .strings: the values of its pairs, or of a property list, as which Xcode may keep them too."""

from __future__ import annotations

import re
from collections.abc import Iterator

from uwaga.documents.document import DocumentSource, Reading
from uwaga.documents.encodings import decode_text, marked_encoding
from uwaga.documents.property_list import read_property_list
from uwaga.documents.registry import DocumentFormat
from uwaga.errors import DataError
from uwaga.markup import Inline, plain_text
from uwaga.markup.units import Piece, text_unit

SPACE = re.compile(r"(?:\s+|/\*.*?\*/|//[^\n]*)*", re.DOTALL)
KEY = re.compile(r'"((?:[^"\\]|\\.)*)"|[A-Za-z0-9_.$:/-]+', re.DOTALL)
EQUALS = re.compile(r"\s*=\s*")
VALUE = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
ESCAPE = re.compile(r"\\(?:[uU]([0-9a-fA-F]{4})|(.))", re.DOTALL)
BINARY = b"bplist"
SIGNS = {"n": "\n", "t": "\t", "r": "\r"}


def read(source: DocumentSource) -> Reading:
    """Take a file apart into the values of its pairs.

    Raises:
        DataError: something in it is no pair: names the line; or it is a binary property list.
    """
    if source.content.startswith(BINARY):
        raise DataError(f"{source.name}: a binary property list; convert it with plutil -convert xml1")
    encoding = source.options.encoding
    if encoding is None and marked_encoding(source.content)[1] is None and b"\0" in source.content[:2]:
        encoding = "utf-16-be" if source.content[:1] == b"\0" else "utf-16-le"
    text, encoding, mark = decode_text(source.content, encoding, source.name)
    if text.lstrip().startswith("<"):
        return read_property_list(source, lambda key: True)
    return Reading(_pieces(text, source.name), encoding, mark=mark)


def _pieces(text: str, where: str) -> Iterator[Piece]:
    at = copied = 0
    while True:
        at = _after(SPACE, text, at)
        if at == len(text):
            break
        key = KEY.match(text, at)
        equals = EQUALS.match(text, key.end()) if key else None
        end = _after(SPACE, text, key.end()) if key else at
        if key and equals is None and text[end : end + 1] == ";":
            at = end + 1  # a key that is its own value
            continue
        value = VALUE.match(text, _after(SPACE, text, equals.end())) if equals else None
        end = _after(SPACE, text, value.end()) if value else at
        if value is None or text[end : end + 1] != ";":
            line = text.count("\n", 0, at) + 1
            raise DataError(f'{where}: line {line}: no pair such as "key" = "value";')
        yield text[copied : value.start(1)]
        yield text_unit(value[1], (_unescape(value[1]),), _write)
        copied, at = value.end(1), end + 1
    yield text[copied:]


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _unescape(raw: str) -> str:
    def sign(found: re.Match[str]) -> str:
        return chr(int(found[1], 16)) if found[1] else SIGNS.get(found[2], found[2])

    return ESCAPE.sub(sign, raw) if "\\" in raw else raw


def _write(made: Inline) -> str:
    text = plain_text(made).replace("\\", "\\\\").replace('"', '\\"')
    return text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")


FORMAT = DocumentFormat("strings", (".strings",), read)

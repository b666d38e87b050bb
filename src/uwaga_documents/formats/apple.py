"""Apple's .strings and .stringsdict files: pairs of keys and values, or property lists in XML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from uwaga.errors import DataError
from uwaga.markup.units import Piece, with_key
from uwaga.markup.xml import escape, unescape, xml_tokens
from uwaga_documents.document import DocumentFormat, DocumentSource, ParsedDocument
from uwaga_documents.encodings import decode_text, xml_text
from uwaga_documents.messages import PLURAL_CATEGORIES, MessageSyntax, message_unit

SYNTAX = MessageSyntax(("objc",), numbering="printf")
CDATA, CDATA_END = "<![CDATA[", "]]>"


def read_property_list(source: DocumentSource, is_displayed: Callable[[str], bool]) -> ParsedDocument:
    """Read the strings of a property list.

    Args:
        source: the file.
        is_displayed: returns whether the string with a given raw key is displayed.
    """
    decoded = xml_text(source)
    text = decoded.text
    if "<plist" not in text:
        raise DataError(f"{source.name}: not a property list in XML; convert it with plutil -convert xml1")
    return decoded.parsed(_list_pieces(text, is_displayed), "xmlcharrefreplace")


def _list_pieces(text: str, is_displayed: Callable[[str], bool]) -> Iterator[Piece]:
    position, element = 0, ""
    keys = [""]  # of the open dictionaries and arrays; all strings of an array have its key
    for token in xml_tokens(text):
        raw = text[token.start : token.end]
        if token.kind == "open":
            element = token.name
            if element in ("dict", "array"):
                keys.append(keys[-1] if element == "array" else "")
        elif token.kind == "close":
            element = ""
            if token.name in ("dict", "array") and len(keys) > 1:
                keys.pop()
        elif token.kind in ("text", "cdata") and element == "key":
            keys[-1] = raw.removeprefix(CDATA).removesuffix(CDATA_END)
        elif token.kind in ("text", "cdata") and element == "string" and is_displayed(keys[-1]):
            yield text[position : token.start]
            yield with_key(_string(raw, token.kind == "cdata"), keys[1] if len(keys) > 1 else "")
            position = token.end
    yield text[position:]


def _string(raw: str, is_data: bool) -> Piece:
    content = raw[len(CDATA) : -len(CDATA_END)] if is_data else raw
    if is_data:
        return message_unit(raw, content, _write_data, SYNTAX)
    return message_unit(raw, unescape(raw), escape, SYNTAX)


def _write_data(text: str) -> str:
    """Return a text as a CDATA section, which is split in two at an end marker in the text."""
    split = f"{CDATA_END[:2]}{CDATA_END}{CDATA}{CDATA_END[2:]}"
    return f"{CDATA}{text.replace(CDATA_END, split)}{CDATA_END}"


SPACE = re.compile(r"(?:\s++|/\*.*?\*/|//[^\n]*+)*", re.DOTALL)
KEY = re.compile(r'"((?>(?:[^"\\]++|\\.)*))"|[A-Za-z0-9_.$:/-]+', re.DOTALL)
EQUALS = re.compile(r"\s*=\s*")
VALUE = re.compile(r'"((?>(?:[^"\\]++|\\.)*))"', re.DOTALL)
ESCAPE = re.compile(r"\\(?:[uU]([0-9a-fA-F]{4})|(.))", re.DOTALL)
BINARY = b"bplist"
ESCAPED_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r"}


def read_strings(source: DocumentSource) -> ParsedDocument:
    """Read the values of a file of key-value pairs."""
    if source.content.startswith(BINARY):
        raise DataError(
            f"{source.name}: binary property lists are not supported; convert it with `plutil -convert xml1`"
        )
    default = "utf-8"
    if b"\0" in source.content[:2]:
        default = "utf-16-be" if source.content[:1] == b"\0" else "utf-16-le"
    decoded = decode_text(source, default)
    text = decoded.text
    if text.lstrip().startswith("<"):
        return read_property_list(source, lambda key: True)
    return decoded.parsed(_pair_pieces(text, source.name))


def _pair_pieces(text: str, location: str) -> Iterator[Piece]:
    position = copied_end = 0
    while True:
        position = _match_end(SPACE, text, position)
        if position == len(text):
            break
        key = KEY.match(text, position)
        equals = EQUALS.match(text, key.end()) if key else None
        end = _match_end(SPACE, text, key.end()) if key else position
        if key and equals is None and text[end : end + 1] == ";":
            position = end + 1  # a key without a value
            continue
        value = VALUE.match(text, _match_end(SPACE, text, equals.end())) if equals else None
        end = _match_end(SPACE, text, value.end()) if value else position
        if key is None or value is None or text[end : end + 1] != ";":
            line = text.count("\n", 0, position) + 1
            raise DataError(f'{location}: line {line}: expected a pair such as "key" = "value";')
        yield text[copied_end : value.start(1)]
        name = key[0] if key[1] is None else _unescape(key[1])
        yield with_key(message_unit(value[1], _unescape(value[1]), _write, SYNTAX), name)
        copied_end, position = value.end(1), end + 1
    yield text[copied_end:]


def _match_end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _unescape(raw: str) -> str:
    def unescape_match(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else ESCAPED_CHARACTERS.get(match[2], match[2])

    return ESCAPE.sub(unescape_match, raw) if "\\" in raw else raw


def _write(text: str) -> str:
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")


STRINGS = DocumentFormat("strings", (".strings",), read_strings)


DISPLAYED_KEYS = frozenset((*PLURAL_CATEGORIES, "NSStringLocalizedFormatKey"))


def read_stringsdict(source: DocumentSource) -> ParsedDocument:
    """Read the plural forms in a property list."""
    return read_property_list(source, DISPLAYED_KEYS.__contains__)


STRINGSDICT = DocumentFormat("stringsdict", (".stringsdict",), read_stringsdict)

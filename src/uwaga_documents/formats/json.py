"""JSON message files, such as those of i18next and Chrome, and ARB, the message files of Flutter.

Values are replaced in place, so that the layout of the file is preserved.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from uwaga.errors import DataError
from uwaga.markup.units import Piece, untranslated, with_key
from uwaga_documents.document import DocumentFormat, DocumentSource, ParsedDocument
from uwaga_documents.encodings import decode_text
from uwaga_documents.language import target_code
from uwaga_documents.messages import (
    APPLICATION_SYNTAX,
    COMMON_SYNTAX,
    OTHER_KEYS,
    PLURAL_CATEGORIES,
    KeyChoice,
    KeyPath,
    MessageSyntax,
    PluralMember,
    document_pieces,
    message_unit,
)

PLURAL = re.compile(rf"(.+)(?<!_ordinal)_({'|'.join(PLURAL_CATEGORIES)})", re.DOTALL)
"""A key of i18next for a plural form."""
CHROME_SYNTAX = MessageSyntax(("chrome",))
DESCRIBED_KEYS = {"message": CHROME_SYNTAX, "defaultMessage": COMMON_SYNTAX}
"""The keys of texts in files of Chrome and FormatJS, whose entries also have descriptions, with the syntax of
the texts."""
ROOT = re.compile(r'(\s*\{\s*")([A-Za-z_-]{2,20})(?="\s*:\s*\{)')
TOKEN = re.compile(r'"(?>(?:[^"\\]++|\\.)*)"|[{}\[\],:]', re.DOTALL)


class JsonText(NamedTuple):
    """A string value of a JSON document.

    Attributes:
        start: position of the opening quotation mark.
        end: position after the closing quotation mark.
        key: the key of the value in an object, or its index in a list.
        key_start: start of the key or, in a list, of the last key before the value.
        parent: the number of the object or list that contains the value, from 1; 0 if there is none.
        top: the first key of the value's path.
        depth: number of objects and lists around the value.
        selected: whether the value is to be translated.
        name: the path of the value, such as ``menu.file.open``.
    """

    start: int
    end: int
    key: str
    key_start: int
    parent: int
    top: str
    depth: int
    selected: bool
    name: str = ""


def read_json(source: DocumentSource) -> ParsedDocument:
    """Read all string values of a file, or only those with the keys that the user selected.

    Plural forms of i18next (``files_one``, ``files_other``) are replaced with the forms of the target
    language. The root key of a file is replaced with the target language if it names the source language, as
    in i18n-js. In entries with a description, as in Chrome's ``messages.json``, only the text is translated,
    unless keys are selected.
    """
    decoded = decode_text(source)
    text = decoded.text
    described_kind = check_json(text, source.name)
    described_kind = None if source.options.keys else described_kind
    syntax = DESCRIBED_KEYS[described_kind] if described_kind else APPLICATION_SYNTAX

    def choose(value: JsonText) -> JsonText:
        is_text = described_kind is None or (value.depth, value.key) == (2, described_kind)
        return value if is_text else value._replace(selected=False)

    pieces = _pieces(text, source, choose, source.options.target, syntax)
    return decoded.parsed(_root_in_target(text, pieces, source))


def _root_in_target(text: str, pieces: Iterator[Piece], source: DocumentSource) -> Iterator[Piece]:
    first_piece = next(pieces, "")
    root = ROOT.match(first_piece) if isinstance(first_piece, str) else None
    if root and len(json.loads(text)) == 1 and isinstance(first_piece, str):
        first_piece = root[1] + target_code(root[2], source.options) + first_piece[root.end() :]
    yield first_piece
    yield from pieces


def read_arb(source: DocumentSource) -> ParsedDocument:
    """Read the messages of a file, without their descriptions, whose keys start with ``@``.

    The value of ``@@locale`` is replaced with the target language, if that is known.
    """
    decoded = decode_text(source)
    text = decoded.text
    check_json(text, source.name)
    if source.options.target:
        text = _with_locale(text, source.options.target)
    pieces = _pieces(
        text, source, lambda value: None if value.top.startswith("@") else value, None, COMMON_SYNTAX
    )
    return decoded.parsed(pieces)


def _with_locale(text: str, target: str) -> str:
    for value in json_texts(text, KeyChoice(()).root):
        if value.key == value.top == "@@locale" and value.parent == 1:
            return text[: value.start] + json.dumps(target.replace("-", "_")) + text[value.end :]
    return text


class _Entries(NamedTuple):
    """The keys of :data:`DESCRIBED_KEYS` that an object has, and those that all of its members have."""

    described_keys: frozenset[str]
    shared_by_members: frozenset[str]


def _entries(pairs: list[tuple[str, Any]]) -> _Entries:
    described_keys = frozenset(
        key for key, value in pairs if key in DESCRIBED_KEYS and isinstance(value, str)
    )
    members = [value.described_keys if isinstance(value, _Entries) else frozenset() for _, value in pairs]
    return _Entries(described_keys, frozenset.intersection(*members) if members else frozenset())


def check_json(text: str, location: str) -> str | None:
    """Check that a text is JSON.

    Returns:
        the key of the text in each entry, if all entries have one of :data:`DESCRIBED_KEYS`; otherwise None.
    """
    try:
        root = json.loads(text, object_pairs_hook=_entries)
        return min(root.shared_by_members, default=None) if isinstance(root, _Entries) else None
    except json.JSONDecodeError as error:
        raise DataError(f"{location}: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise DataError(
            f"{location}: the objects and lists are nested too deeply for a message file"
        ) from None
    except ValueError as error:
        raise DataError(f"{location}: {str(error)[:100]}") from None


def json_texts(text: str, root: KeyPath) -> Iterator[JsonText]:
    """Yield the string values of a valid document, in order."""
    stack: list[_Container] = []
    containers = key_start = 0
    for token in TOKEN.finditer(text):
        symbol = token[0]
        if symbol in "{[":
            path = stack[-1].path.child(stack[-1].key) if stack else root
            containers += 1
            stack.append(_Container(path, containers, symbol == "{"))
        elif symbol in "}]":
            stack.pop()
        elif symbol == ",":
            stack[-1].next()
        elif symbol == ":":
            stack[-1].expects_key = False
        elif stack and stack[-1].expects_key:
            stack[-1].key, key_start = str(json.loads(symbol)), token.start()
        elif stack:
            container = stack[-1]
            path = container.path.child(container.key)
            top, depth, name = stack[0].key, len(stack), path.name or ""
            yield JsonText(
                *token.span(), container.key, key_start, container.number, top, depth, path.selected, name
            )
        else:
            yield JsonText(*token.span(), "", 0, 0, "", 0, root.selected)


class _Container:
    """An object or list that is being read, and the current key or index."""

    def __init__(self, path: KeyPath, number: int, is_object: bool) -> None:
        self.path, self.number = path, number
        self.expects_key = is_object
        self.key = "" if is_object else "0"
        self._index = None if is_object else 0

    def next(self) -> None:
        """Move to the next member."""
        if self._index is None:
            self.expects_key = True
        else:
            self._index += 1
            self.key = str(self._index)


def _pieces(
    text: str,
    source: DocumentSource,
    choose: Callable[[JsonText], JsonText | None],
    target: str | None,
    syntax: MessageSyntax,
) -> Iterator[Piece]:
    """Yield the pieces of a document.

    Args:
        text: the document.
        source: the file of the document.
        choose: returns a value with ``selected`` set as required, or None to copy the value without reporting
            it.
        target: the language whose plural forms replace the forms of i18next; None to keep these.
        syntax: the syntax of the messages.
    """
    values = map(choose, json_texts(text, KeyChoice(source.options.keys).root))
    groups = (
        (stem is not None, [_member(text, value, category, syntax) for (_, category), value in group])
        for stem, group in groupby(
            ((_plural_key(value), value) for value in values if value is not None), lambda pair: pair[0][0]
        )
    )
    yield from document_pieces(text, groups, target)


def _plural_key(value: JsonText) -> tuple[tuple[int, str] | None, str]:
    """Return an identifier that the forms of a plural share, and the plural category of a key.

    The identifier is the number of the object and the key without its category. For a key that is not a
    plural form, return None and an empty string.
    """
    match = PLURAL.fullmatch(value.key) if value.selected else None
    return (None, "") if match is None else ((value.parent, match[1]), match[2])


def _member(text: str, value: JsonText, category: str, syntax: MessageSyntax) -> PluralMember:
    raw = text[value.start : value.end]
    if not value.selected:
        copied_text = untranslated(raw, OTHER_KEYS, str(json.loads(raw)))
        return PluralMember(category, value.key_start, value.start, value.end, copied_text)
    ascii_only = raw.isascii() and "\\u" in raw
    piece = message_unit(
        raw, json.loads(raw), lambda translation: json.dumps(translation, ensure_ascii=ascii_only), syntax
    )
    return PluralMember(category, value.key_start, value.start, value.end, with_key(piece, value.name))


JSON = DocumentFormat("json", (".json",), read_json)
ARB = DocumentFormat("arb", (".arb",), read_arb)

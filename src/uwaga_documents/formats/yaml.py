"""YAML message files, such as those of Rails and Symfony; comments and layout are preserved.

PyYAML reports the position of each scalar. A scalar that is written is parsed again to verify its value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, Literal, NamedTuple

import yaml

from uwaga.errors import DataError, reason
from uwaga.markup.units import Piece, untranslated, with_key
from uwaga_documents.document import DocumentFormat, DocumentSource, ParsedDocument
from uwaga_documents.encodings import decode_text
from uwaga_documents.language import target_code
from uwaga_documents.messages import (
    APPLICATION_SYNTAX,
    OTHER_KEYS,
    PLURAL_CATEGORIES,
    KeyChoice,
    KeyPath,
    PluralMember,
    document_pieces,
    message_unit,
)

MAX_DEPTH = 100
"""Maximum depth of nested mappings and lists."""
STRING_TAG = "tag:yaml.org,2002:str"
SYMBOL = re.compile(r":(?:[A-Za-z_]\w*[?!=]?|\"[^\"]*\")")
"""A symbol of Ruby, as in the key ``date.order`` of Rails."""
PLAIN_SCALAR = re.compile(r"[^\W\d_][^\n:#{}\[\],&*!|>'\"%@`]*[^\W_]")
"""A text that needs no quotes as a value."""


class _Loader(yaml.SafeLoader):
    """A loader that reads Ruby symbols in flow lists, such as ``[:year, :month]``, as strings, as
    in YAML 1.2.
    """

    def check_value(self) -> bool:
        follows_json_key = self.pointer > 0 and self.buffer[self.pointer - 1] in "\"'}]"
        return follows_json_key or (not self._starts_symbol() and super().check_value())

    def check_plain(self) -> bool:
        return self._starts_symbol() or super().check_plain()

    def _starts_symbol(self) -> bool:
        return self.flow_level > 0 and self.peek() == ":" and self.peek(1).isalpha()


class _Scalar(NamedTuple):
    """A string value, and its position.

    Attributes:
        start: start offset.
        end: end offset.
        value: the text of the value.
        style: PyYAML's name of its quoting style.
        indent: number of spaces before a line of a block scalar.
        key: the key of the value, if it is in a mapping.
        key_start: start offset of the key.
        mapping: the number of the mapping that contains the value; 0 if there is none.
        selected: whether the value is to be translated.
        name: the path of the value, such as ``menu.file.open``.
    """

    start: int
    end: int
    value: str
    style: str | None
    indent: int
    key: str = ""
    key_start: int = 0
    mapping: int = 0
    selected: bool = True
    name: str = ""


class _Collection:
    """A mapping or list that is being read.

    ``number`` is 0 for a list; ``expects_key`` is True if a key, rather than a value, is read next.
    """

    def __init__(self, path: KeyPath, number: int) -> None:
        self.path, self.number = path, number
        self.expects_key = number > 0
        self.key, self.key_start = "", 0

    def next_path(self) -> KeyPath:
        """Return the path of the mapping or list that is read next."""
        return self.path.child("" if self.expects_key or not self.number else self.key)

    def advance(self, key: str = "") -> None:
        """Record that a key or its value has been read."""
        if self.number:
            self.key, self.expects_key = key, not self.expects_key


def read(source: DocumentSource) -> ParsedDocument:
    """Read the string values; numbers, dates and other values are copied.

    The plural forms in a mapping, as in Rails, are replaced with the forms of the target language. The root
    key of a file is replaced with the target language if it is the only root key and names the source
    language.
    """
    decoded = decode_text(source)
    return decoded.parsed(_pieces_in_target(decoded.text, source))


def _pieces_in_target(text: str, source: DocumentSource) -> Iterator[Piece]:
    reader = _YamlReader(text, KeyChoice(source.options.keys), source.name)
    pieces = reader.pieces(source.options.target)
    first_piece = next(pieces)
    if len(reader.roots) == 1 and isinstance(first_piece, str):
        [(start, end, name)] = reader.roots
        code = target_code(name, source.options)
        key = text[start:end].replace(name, code)
        if code != name and yaml.safe_load(key) != code:
            key = f'"{code}"'  # "no" is a boolean
        first_piece = first_piece[:start] + key + first_piece[end:]
    yield first_piece
    yield from pieces


def yaml_pieces(text: str, keys: KeyChoice, location: str) -> Iterator[Piece]:
    """Yield the pieces of a YAML file, which may contain several documents; plural forms are kept.

    Args:
        text: the file.
        keys: the keys whose values are translated.
        location: the name of the file in messages.
    """
    return _YamlReader(text, keys, location).pieces(None)


class _YamlReader:
    """A reader of the values of a file.

    Attributes:
        roots: the start, the end and the text of each key of the outermost mappings.
    """

    def __init__(self, text: str, keys: KeyChoice, location: str) -> None:
        self.roots: list[tuple[int, int, str]] = []
        self._text, self._keys, self._location = text, keys, location
        self._open_collections: list[_Collection] = []
        self._mappings = 0
        self._non_plurals: set[int] = set()  # numbers of mappings that are not plurals
        self._resolver: Any = yaml.SafeLoader("")

    def pieces(self, target: str | None) -> Iterator[Piece]:
        """Yield the pieces; plural forms are replaced with the forms of the language ``target``, unless it is
        None.
        """
        scalars = list(self._scalars())
        groups = (
            (mapping != 0 and mapping not in self._non_plurals, [self._member(scalar) for scalar in group])
            for mapping, group in groupby(scalars, lambda scalar: scalar.mapping)
        )
        yield from document_pieces(self._text, groups, target)

    def _member(self, scalar: _Scalar) -> PluralMember:
        raw = self._text[scalar.start : scalar.end]
        if not scalar.selected:
            copied_text = untranslated(raw, OTHER_KEYS, scalar.value)
            return PluralMember(scalar.key, scalar.key_start, scalar.start, scalar.end, copied_text)
        if SYMBOL.fullmatch(scalar.value):
            copied_text = untranslated(raw, "identifiers")
            return PluralMember(scalar.key, scalar.key_start, scalar.start, scalar.end, copied_text)
        piece = message_unit(raw, scalar.value, _writer(scalar, raw), APPLICATION_SYNTAX)
        named_piece = with_key(piece, scalar.name)
        return PluralMember(scalar.key, scalar.key_start, scalar.start, scalar.end, named_piece)

    def _scalars(self) -> Iterator[_Scalar]:
        """Yield the string values."""
        try:
            for event in yaml.parse(self._text, Loader=_Loader):
                _check(event, len(self._open_collections), self._location)
                parent = self._open_collections[-1] if self._open_collections else None
                if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                    self._add_collection(parent, isinstance(event, yaml.MappingStartEvent))
                elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                    self._open_collections.pop()
                    if self._open_collections:
                        self._open_collections[-1].advance()
                elif isinstance(event, yaml.ScalarEvent) and parent is not None and parent.expects_key:
                    self._read_key(event, parent)
                elif isinstance(event, yaml.ScalarEvent):
                    yield from self._read_value(event, parent)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f"line {mark.line + 1}: " if mark is not None else ""
            problem = getattr(error, "problem", None) or reason(error)
            raise DataError(f"{self._location}: {line}not valid YAML: {problem}") from None

    def _add_collection(self, parent: _Collection | None, is_mapping: bool) -> None:
        self._mappings += is_mapping
        if parent is not None:
            self._non_plurals.add(parent.number)
        path = self._keys.root if parent is None else parent.next_path()
        self._open_collections.append(_Collection(path, self._mappings if is_mapping else 0))

    def _read_key(self, event: yaml.ScalarEvent, parent: _Collection) -> None:
        parent.key_start = _mark(event).index
        if len(self._open_collections) == 1:
            self.roots.append((parent.key_start, _mark(event, "end").index, event.value))
        if event.value not in PLURAL_CATEGORIES:
            self._non_plurals.add(parent.number)
        parent.advance(event.value)

    def _read_value(self, event: yaml.ScalarEvent, parent: _Collection | None) -> Iterator[_Scalar]:
        path = self._keys.root if parent is None else parent.path.child(parent.key)
        tag = event.tag or self._resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag == STRING_TAG and path.selected:
            scalar = _scalar(self._text, event)._replace(name=path.name or "")
            if parent is not None and parent.number:
                scalar = scalar._replace(key=parent.key, key_start=parent.key_start, mapping=parent.number)
            yield scalar
        elif parent is not None:
            self._non_plurals.add(parent.number)
        if tag == STRING_TAG and not path.selected:
            yield _scalar(self._text, event)._replace(selected=False)
        if parent is not None:
            parent.advance()


def _check(event: yaml.Event, depth: int, location: str) -> None:
    """Raise DataError for an alias, or for a mapping or list that is nested too deeply."""
    if isinstance(event, yaml.AliasEvent):
        raise DataError(
            f"{location}: line {_mark(event).line + 1} has the alias *{event.anchor}; aliases cannot be "
            "translated: write the text itself in place of the alias"
        )
    if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent) and depth >= MAX_DEPTH:
        raise DataError(f"{location}: line {_mark(event).line + 1} is nested over {MAX_DEPTH} levels deep")


def _mark(event: yaml.Event, side: Literal["start", "end"] = "start") -> Any:
    mark = event.start_mark if side == "start" else event.end_mark
    assert mark is not None  # always there for text in memory
    return mark


def _scalar(text: str, event: yaml.ScalarEvent) -> _Scalar:
    start, end = _mark(event).index, _mark(event, "end").index
    if event.style in ("|", ">"):
        raw = text[start:end]
        stripped_text = raw.rstrip(" \n\r\t")
        body = stripped_text.partition("\n")[2]
        first_line = next((line for line in body.split("\n") if line.strip()), "")
        return _Scalar(
            start,
            start + len(stripped_text),
            event.value,
            event.style,
            len(first_line) - len(first_line.lstrip(" ")),
        )
    raw = text[start:end]
    stripped_text = raw.rstrip(" \t\r\n") if event.style is None else raw
    return _Scalar(start, start + len(stripped_text), event.value, event.style, 0)


def _writer(scalar: _Scalar, raw: str) -> Callable[[str], str]:
    def write(text: str) -> str:
        for candidate in _candidates(scalar, raw, text):
            if _is_equivalent(candidate, text, scalar):
                return candidate
        return _double_quoted(text)

    return write


def _candidates(scalar: _Scalar, raw: str, text: str) -> Iterator[str]:
    if scalar.style in ("|", ">") and text.strip() and not re.search(r"[\r\x85\u2028\u2029\x00-\x08]", text):
        head = raw.partition("\n")[0]
        space = " " * scalar.indent
        lines = text.rstrip("\n").split("\n")
        if scalar.style == "|":
            yield "\n".join([head, *(space + line if line else "" for line in lines)])
        elif all(line and not line[0].isspace() for line in lines):
            yield f"{head}\n" + "\n\n".join(space + line for line in lines)
    if scalar.style is None and PLAIN_SCALAR.fullmatch(text):
        yield text
    if scalar.style in (None, "'") and "\n" not in text and text.isprintable():
        yield "'" + text.replace("'", "''") + "'"


def _is_equivalent(candidate: str, text: str, scalar: _Scalar) -> bool:
    """Return whether a written scalar is parsed as the given text."""
    try:
        document = yaml.safe_load(f"{' ' * max(0, scalar.indent - 1)}k: {candidate}\n")
    except yaml.YAMLError:
        return False
    value = document.get("k") if isinstance(document, dict) else None
    return isinstance(value, str) and value.rstrip("\n") == text.rstrip("\n")


def _double_quoted(text: str) -> str:
    dumped_text = yaml.dump(text, default_style='"', allow_unicode=True, width=1 << 30)
    return dumped_text.rstrip("\n")


FORMAT = DocumentFormat("yaml", (".yaml", ".yml"), read)

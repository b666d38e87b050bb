"""YAML files of messages, such as Rails' and Symfony's; comments and layout stay.

PyYAML reports the place of each scalar; what is written there is parsed again, to check its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, Literal, NamedTuple

import yaml

from uwaga.documents.document import DocumentFormat, DocumentSource, Reading
from uwaga.documents.encodings import decode_text
from uwaga.documents.language import target_code
from uwaga.documents.messages import ORDER, KeyChoice, KeyPath, PluralMember, member_pieces, message_unit
from uwaga.errors import DataError, reason
from uwaga.markup.units import Piece

DEEPEST = 100
TEXT = "tag:yaml.org,2002:str"
PLAIN = re.compile(r"[^\W\d_][^\n:#{}\[\],&*!|>'\"%@`]*[^\W_]")
"""A text that may stand without quotes wherever a value may."""


class _Scalar(NamedTuple):
    """A value to translate, and its place.

    Attributes:
        start: where it begins.
        end: where it ends.
        value: its text.
        style: how it is quoted, as PyYAML names it.
        indent: the indentation of a block scalar.
        key: its key, if it is in a mapping.
        key_start: where the key begins.
        mapping: the number of its mapping, 0 for none.
    """

    start: int
    end: int
    value: str
    style: str | None
    indent: int
    key: str = ""
    key_start: int = 0
    mapping: int = 0


class _Collection:
    """An open mapping or list; ``number`` is 0 for a list, ``at_key`` is false where a value is next."""

    def __init__(self, path: KeyPath, number: int) -> None:
        self.path, self.number = path, number
        self.at_key = number > 0
        self.key, self.key_start = "", 0

    def below(self) -> KeyPath:
        """Return the path of what is read next, if that is a mapping or list."""
        return self.path.child("" if self.at_key or not self.number else self.key)

    def advance(self, key: str = "") -> None:
        """Note that a key, or the value of one, has been read."""
        if self.number:
            self.key, self.at_key = key, not self.at_key


def read(source: DocumentSource) -> Reading:
    """Read the values that are text; numbers, dates and the like are copied.

    A mapping of plural forms, as Rails has them, gets those of the target language, and a file whose only
    root is the source language gets the target language as its root.
    """
    text, encoding, mark = decode_text(source.content, source.options.encoding, source.name)
    return Reading(_in_target(text, source), encoding, mark=mark)


def _in_target(text: str, source: DocumentSource) -> Iterator[Piece]:
    reader = _YamlReader(text, KeyChoice(source.options.keys), source.name)
    pieces = reader.pieces(source.options.target)
    first = next(pieces)
    if len(reader.roots) == 1 and isinstance(first, str):
        [(start, end, name)] = reader.roots
        key = text[start:end].replace(name, target_code(name, source.options))
        first = first[:start] + key + first[end:]
    yield first
    yield from pieces


def yaml_pieces(text: str, keys: KeyChoice, where: str) -> Iterator[Piece]:
    """Yield the pieces of a document, or of several in one file; plurals keep their forms.

    Args:
        text: the file.
        keys: those whose values are translated.
        where: the file, for messages.
    """
    return _YamlReader(text, keys, where).pieces(None)


class _YamlReader:
    """Reads the values of a file.

    Attributes:
        roots: the start, the end and the text of each key of the outermost mappings.
    """

    def __init__(self, text: str, keys: KeyChoice, where: str) -> None:
        self.roots: list[tuple[int, int, str]] = []
        self._text, self._keys, self._where = text, keys, where
        self._open: list[_Collection] = []
        self._mappings = 0
        self._no_plurals: set[int] = set()  # mappings with a key that is no plural form, or another value
        self._resolver: Any = yaml.SafeLoader("")

    def pieces(self, target: str | None) -> Iterator[Piece]:
        """Yield the pieces; mappings of plural forms get those of a language, unless that is None."""
        scalars = list(self._scalars())
        groups = (
            (mapping != 0 and mapping not in self._no_plurals, [self._member(one) for one in group])
            for mapping, group in groupby(scalars, lambda one: one.mapping)
        )
        yield from member_pieces(self._text, groups, target)

    def _member(self, scalar: _Scalar) -> PluralMember:
        raw = self._text[scalar.start : scalar.end]
        piece = message_unit(raw, scalar.value, _writer(scalar, raw))
        return PluralMember(scalar.key, scalar.key_start, scalar.start, scalar.end, piece)

    def _scalars(self) -> Iterator[_Scalar]:
        """Yield the scalars to translate."""
        try:
            for event in yaml.parse(self._text, Loader=yaml.SafeLoader):
                _check(event, len(self._open), self._where)
                parent = self._open[-1] if self._open else None
                if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                    self._begin(parent, isinstance(event, yaml.MappingStartEvent))
                elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                    self._open.pop()
                    if self._open:
                        self._open[-1].advance()
                elif isinstance(event, yaml.ScalarEvent) and parent is not None and parent.at_key:
                    self._read_key(event, parent)
                elif isinstance(event, yaml.ScalarEvent):
                    yield from self._read_value(event, parent)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            line = f"line {mark.line + 1}: " if mark is not None else ""
            problem = getattr(error, "problem", None) or reason(error)
            raise DataError(f"{self._where}: {line}not valid YAML: {problem}") from None

    def _begin(self, parent: _Collection | None, is_mapping: bool) -> None:
        self._mappings += is_mapping
        if parent is not None:
            self._no_plurals.add(parent.number)
        path = self._keys.root if parent is None else parent.below()
        self._open.append(_Collection(path, self._mappings if is_mapping else 0))

    def _read_key(self, event: yaml.ScalarEvent, parent: _Collection) -> None:
        parent.key_start = _mark(event).index
        if len(self._open) == 1:
            self.roots.append((parent.key_start, _mark(event, "end").index, event.value))
        if event.value not in ORDER:
            self._no_plurals.add(parent.number)
        parent.advance(event.value)

    def _read_value(self, event: yaml.ScalarEvent, parent: _Collection | None) -> Iterator[_Scalar]:
        path = self._keys.root if parent is None else parent.path.child(parent.key)
        tag = event.tag or self._resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag == TEXT and path.chosen:
            scalar = _scalar(self._text, event)
            if parent is not None and parent.number:
                scalar = scalar._replace(key=parent.key, key_start=parent.key_start, mapping=parent.number)
            yield scalar
        elif parent is not None:
            self._no_plurals.add(parent.number)
        if parent is not None:
            parent.advance()


def _check(event: yaml.Event, depth: int, where: str) -> None:
    """Refuse aliases and nesting that is too deep."""
    if isinstance(event, yaml.AliasEvent):
        raise DataError(
            f"{where}: line {_mark(event).line + 1} has the alias *{event.anchor}; write the text itself "
            "there, because a translation has one place"
        )
    if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent) and depth >= DEEPEST:
        raise DataError(f"{where}: line {_mark(event).line + 1} is nested more than {DEEPEST} deep")


def _mark(event: yaml.Event, side: Literal["start", "end"] = "start") -> Any:
    mark = event.start_mark if side == "start" else event.end_mark
    assert mark is not None  # always there for text in memory
    return mark


def _scalar(text: str, event: yaml.ScalarEvent) -> _Scalar:
    start, end = _mark(event).index, _mark(event, "end").index
    if event.style in ("|", ">"):
        raw = text[start:end]
        kept = raw.rstrip(" \n\r\t")
        body = kept.partition("\n")[2]
        first = next((line for line in body.split("\n") if line.strip()), "")
        return _Scalar(
            start, start + len(kept), event.value, event.style, len(first) - len(first.lstrip(" "))
        )
    raw = text[start:end]
    kept = raw.rstrip(" \t\r\n") if event.style is None else raw
    return _Scalar(start, start + len(kept), event.value, event.style, 0)


def _writer(scalar: _Scalar, raw: str) -> Callable[[str], str]:
    def write(text: str) -> str:
        for attempt in _attempts(scalar, raw, text):
            if _reads(attempt, text, scalar):
                return attempt
        return _double(text)

    return write


def _attempts(scalar: _Scalar, raw: str, text: str) -> Iterator[str]:
    if scalar.style in ("|", ">") and text.strip() and not re.search(r"[\r\x85\u2028\u2029\x00-\x08]", text):
        head = raw.partition("\n")[0]
        space = " " * scalar.indent
        lines = text.rstrip("\n").split("\n")
        if scalar.style == "|":
            yield "\n".join([head, *(space + line if line else "" for line in lines)])
        elif all(line and not line[0].isspace() for line in lines):
            yield f"{head}\n" + "\n\n".join(space + line for line in lines)
    if scalar.style is None and PLAIN.fullmatch(text):
        yield text
    if scalar.style in (None, "'") and "\n" not in text and text.isprintable():
        yield "'" + text.replace("'", "''") + "'"


def _reads(attempt: str, text: str, scalar: _Scalar) -> bool:
    """Return True if a scalar is parsed as the same text after writing."""
    try:
        found = yaml.safe_load(f"{' ' * max(0, scalar.indent - 1)}k: {attempt}\n")
    except yaml.YAMLError:
        return False
    value = found.get("k") if isinstance(found, dict) else None
    return isinstance(value, str) and value.rstrip("\n") == text.rstrip("\n")


def _double(text: str) -> str:
    written = yaml.dump(text, default_style='"', allow_unicode=True, width=1 << 30)
    return written.rstrip("\n")


FORMAT = DocumentFormat("yaml", (".yaml", ".yml"), read)

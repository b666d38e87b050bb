"""YAML files of messages, such as Rails' and Symfony's; comments and layout stay.

PyYAML says where each scalar stands; what is to be written there is parsed again before it is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, Literal, NamedTuple

import yaml

from uwaga.documents.document import DocumentFormat, DocumentSource, Reading
from uwaga.documents.encodings import decode_text
from uwaga.documents.messages import ORDER, KeyChoice, KeyPath, PluralMember, member_pieces
from uwaga.errors import DataError, reason
from uwaga.markup import Inline, plain_text
from uwaga.markup.units import Piece

DEEPEST = 100
TEXT = "tag:yaml.org,2002:str"
PLAIN = re.compile(r"[^\W\d_][^\n:#{}\[\],&*!|>'\"%@`]*[^\W_]")
"""A text that may stand without quotes wherever a value may."""


class _Scalar(NamedTuple):
    """A value that is translated; ``mapping`` is the number of the mapping that it is in, 0 for none."""

    start: int
    end: int
    value: str
    style: str | None
    indent: int
    key: str = ""
    key_start: int = 0
    mapping: int = 0


class _Node:
    """An open mapping or list; ``number`` is 0 for a list, ``at_key`` is false where a value is next."""

    def __init__(self, path: KeyPath, number: int) -> None:
        self.path, self.number = path, number
        self.at_key = number > 0
        self.key, self.key_start = "", 0

    def below(self) -> KeyPath:
        """Return the path of what is read next, if that is a mapping or list."""
        return self.path.child("" if self.at_key or not self.number else self.key)


def read(source: DocumentSource) -> Reading:
    """Read the values that are text; numbers, dates and the like are copied.

    A mapping of plural forms, as Rails has them, gets those of the target language.

    Raises:
        DataError: it is no YAML.
    """
    text, encoding, mark = decode_text(source.content, source.options.encoding, source.name)
    chosen, target = KeyChoice(source.options.keys), source.options.target
    return Reading(yaml_pieces(text, chosen, source.name, target), encoding, mark=mark)


def yaml_pieces(text: str, keys: KeyChoice, where: str, target: str | None = None) -> Iterator[Piece]:
    """Yield the pieces of a document, or of several in one file.

    Args:
        text: the file.
        keys: those whose values are translated.
        where: the file, for messages.
        target: the language whose plural forms mappings such as ``one: ..., other: ...`` get; None to keep
            those that are there.

    Raises:
        DataError: it is no YAML (names the line), or has an alias, whose text would have to change in two
            places.
    """
    others: set[int] = set()  # mappings with a key that is no plural form
    scalars = list(_scalars(text, keys.root, where, others))
    groups = (
        (mapping != 0 and mapping not in others, [_member(text, one) for one in group])
        for mapping, group in groupby(scalars, lambda one: one.mapping)
    )
    yield from member_pieces(text, groups, target)


def _member(text: str, scalar: _Scalar) -> PluralMember:
    write = _writer(scalar, text[scalar.start : scalar.end])
    return PluralMember(scalar.key, scalar.key_start, scalar.start, scalar.end, (scalar.value,), write)


def _scalars(text: str, root: KeyPath, where: str, others: set[int]) -> Iterator[_Scalar]:
    """Yield the scalars to translate; the numbers of mappings that are no plurals are added to ``others``."""
    stack: list[_Node] = []
    mappings = 0
    resolver: Any = yaml.SafeLoader("")
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            _check(event, len(stack), where)
            last = stack[-1] if stack else None
            if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                is_list = isinstance(event, yaml.SequenceStartEvent)
                mappings += not is_list
                if last is not None:
                    others.add(last.number)  # a mapping that holds more than texts is no plural
                stack.append(_Node(last.below() if last else root, 0 if is_list else mappings))
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                stack.pop()
                _advance(stack, "")
            elif isinstance(event, yaml.ScalarEvent):
                if last is not None and last.at_key:
                    last.key_start = _mark(event).index
                    if event.value not in ORDER:
                        others.add(last.number)
                    _advance(stack, event.value)
                    continue
                path = root if last is None else last.path.child(last.key)
                tag = event.tag or resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
                if tag == TEXT and path.chosen:
                    scalar = _placed(text, event)
                    if last is not None and last.number:
                        scalar = scalar._replace(key=last.key, key_start=last.key_start, mapping=last.number)
                    yield scalar
                elif last is not None:
                    others.add(last.number)
                _advance(stack, "")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark is not None else ""
        problem = getattr(error, "problem", None) or reason(error)
        raise DataError(f"{where}: {line}not valid YAML: {problem}") from None


def _advance(stack: list[_Node], key: str) -> None:
    """Note in the open mapping that a key, or the value of one, has been read."""
    if stack and stack[-1].number:
        stack[-1].key = key
        stack[-1].at_key = not stack[-1].at_key


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


def _placed(text: str, event: yaml.ScalarEvent) -> _Scalar:
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


def _writer(scalar: _Scalar, raw: str) -> Callable[[Inline], str]:
    def write(made: Inline) -> str:
        text = plain_text(made)
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

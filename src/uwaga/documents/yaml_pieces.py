"""The values of a YAML document, by their places, so that comments and layout stay.

PyYAML says where each scalar stands; what is written there is read again before it is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

import yaml

from uwaga.documents.document import Piece
from uwaga.documents.plural_members import ORDER, PluralMember, member_pieces
from uwaga.errors import DataError, reason
from uwaga.markup import Inline, plain_text

DEEPEST = 100
TEXT = "tag:yaml.org,2002:str"
PLAIN = re.compile(r"[^\W\d_][^\n:#{}\[\],&*!|>'\"%@`]*[^\W_]")
"""What may stand without quotes wherever a value may."""


class _Scalar(NamedTuple):
    start: int
    end: int
    value: str
    style: str | None
    indent: int
    key: str = ""
    key_start: int = 0
    mapping: int = 0  # number of the mapping that it is a value of, 0 for none


def yaml_pieces(
    text: str, chosen: Callable[[Sequence[str]], bool], where: str, target: str | None = None
) -> Iterator[Piece]:
    """The pieces of a document, or of several in one file.

    Args:
        text: the file.
        chosen: says of a path of keys whether its value is translated.
        where: the file, for messages.
        target: the language whose plurals mappings such as ``one: ..., other: ...`` are to have; None to
            leave them as they are.

    Raises:
        DataError: it is no YAML (names the line), or has an alias, whose text would have to change in two
            places.
    """
    others: set[int] = set()  # mappings with a key that is no plural form
    every = list(_scalars(text, chosen, where, others))
    groups = (
        (mapping != 0 and mapping not in others, [_member(text, one) for one in group])
        for mapping, group in groupby(every, lambda one: one.mapping)
    )
    yield from member_pieces(text, groups, target)


def _member(text: str, scalar: _Scalar) -> PluralMember:
    write = _writer(scalar, text[scalar.start : scalar.end])
    return PluralMember(scalar.key, scalar.key_start, scalar.start, scalar.end, (scalar.value,), write)


def _scalars(
    text: str, chosen: Callable[[Sequence[str]], bool], where: str, others: set[int]
) -> Iterator[_Scalar]:
    """The scalars that are translated; mappings with other keys than plural forms are put into ``others``."""
    numbers, last, key_start = list[int](), 0, 0  # of the open nodes, 0 of a list
    keys: list[list[str | None]] = []  # of the open nodes; None waits for a key; a list's holds its number
    path: list[str] = []
    resolver: Any = yaml.SafeLoader("")
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            _check(event, len(keys), where)
            if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                path = _entered(keys, path)
                last += 1
                numbers.append(0 if isinstance(event, yaml.SequenceStartEvent) else last)
                others.update(numbers[-2:-1])  # what holds more than texts is no plural
                keys.append([] if isinstance(event, yaml.SequenceStartEvent) else [None])
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                keys.pop()
                numbers.pop()
                path = _left(keys, path)
            elif isinstance(event, yaml.ScalarEvent):
                if keys and keys[-1] == [None]:
                    keys[-1][0], key_start = event.value, _mark(event).index
                    if event.value not in ORDER:
                        others.add(numbers[-1])
                    continue
                here = [*path, (keys[-1][0] or "") if keys[-1] else ""] if keys else path
                key = here[-1] if keys and keys[-1] else ""
                if keys and keys[-1]:
                    keys[-1][0] = None
                tag = event.tag or resolver.resolve(yaml.ScalarNode, event.value, event.implicit)
                if tag == TEXT and chosen(here):
                    number = numbers[-1] if numbers else 0
                    yield _placed(text, event)._replace(key=key, key_start=key_start, mapping=number)
                elif numbers:
                    others.add(numbers[-1])
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark is not None else ""
        problem = getattr(error, "problem", None) or reason(error)
        raise DataError(f"{where}: {line}no YAML that can be read: {problem}") from None


def _check(event: yaml.Event, depth: int, where: str) -> None:
    """Refuse aliases, and what is too deep."""
    if isinstance(event, yaml.AliasEvent):
        raise DataError(
            f"{where}: line {_mark(event).line + 1} has the alias *{event.anchor}; write the text itself "
            "there, for a translation stands in one place"
        )
    if isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent) and depth >= DEEPEST:
        raise DataError(f"{where}: line {_mark(event).line + 1} is nested more than {DEEPEST} deep")


def _entered(keys: list[list[str | None]], path: list[str]) -> list[str]:
    """The path of what opens now."""
    if keys and keys[-1] and keys[-1][0] is not None:
        return [*path, keys[-1][0]]
    return [*path, ""] if keys else path


def _left(keys: list[list[str | None]], path: list[str]) -> list[str]:
    if keys and keys[-1]:
        keys[-1][0] = None
    return path[:-1]


def _mark(event: yaml.Event, side: Literal["start", "end"] = "start") -> Any:
    mark = event.start_mark if side == "start" else event.end_mark
    assert mark is not None  # it has, of text in memory
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
    """Whether what would be written is read as the text it should be."""
    try:
        found = yaml.safe_load(f"{' ' * max(0, scalar.indent - 1)}k: {attempt}\n")
    except yaml.YAMLError:
        return False
    value = found.get("k") if isinstance(found, dict) else None
    return isinstance(value, str) and value.rstrip("\n") == text.rstrip("\n")


def _double(text: str) -> str:
    written = yaml.dump(text, default_style='"', allow_unicode=True, width=1 << 30)
    return written.rstrip("\n")

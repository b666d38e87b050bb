"""Markup taken into tokens without building a tree, so that every byte outside the texts stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from uwaga.markup.tag_attributes import ATTRIBUTE, INSIDE

Kind = Literal["text", "open", "close", "empty", "comment", "cdata", "other"]

XML = re.compile(
    r"(?P<comment><!--.*?-->)|(?P<cdata><!\[CDATA\[.*?\]\]>)"
    r"|(?P<other><\?.*?\?>|<!(?:[^\[>\"']|\"[^\"]*\"|'[^']*'|\[.*?\]\s*(?=>))*>)"
    rf"|</(?P<close>[^\s>/]+)\s*>|<(?P<open>[^\s>/!?]+){INSIDE}>",
    re.DOTALL,
)


class Token(NamedTuple):
    """A tag, or what stands between two; ``start`` and ``end`` are places in the document."""

    kind: Kind
    name: str
    start: int
    end: int


def xml_tokens(text: str, start: int = 0, end: int | None = None) -> Iterator[Token]:
    """The tokens of a part of a well-formed XML document; joined, they are that part.

    Args:
        text: the document.
        start: where the part begins.
        end: where it ends; None for the end.
    """
    stop = len(text) if end is None else end
    at = start
    for found in XML.finditer(text, start, stop):
        if found.start() > at:
            yield Token("text", "", at, found.start())
        at = found.end()
        kind = found.lastgroup or "other"
        if kind == "open" and text[at - 2] == "/":
            yield Token("empty", found["open"].rstrip("/"), found.start(), at)
        elif kind in ("open", "close"):
            yield Token(kind, found[kind], found.start(), at)  # type: ignore[arg-type]
        else:
            yield Token(kind, "", found.start(), at)  # type: ignore[arg-type]
    if at < stop:
        yield Token("text", "", at, stop)


def attribute_span(tag: str, name: str) -> tuple[int, int] | None:
    """Where the value of an attribute stands in a tag, without its quotes; None where it has none."""
    for found in ATTRIBUTE.finditer(tag):
        if found[1].lower() == name:
            group = found.lastindex or 0
            return found.span(group)
    return None

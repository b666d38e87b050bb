"""Plain text: paragraphs between blank lines, across soft line breaks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from uwaga.documents.document import DocumentFormat, DocumentSource, Reading
from uwaga.documents.encodings import decode_text
from uwaga.markup import Inline, plain_text
from uwaga.markup.units import Piece, text_unit
from uwaga.markup.wrapping import fill

LINE = re.compile(r"([^\n\r]*)(\r\n|\n|\r|$)")
ITEM = re.compile(r"[ \t]*(?:[-*+•–—]|\(?(?:\d{1,3}|[A-Za-z])[.)])[ \t]")
"""The beginning of a list item."""
SOFT = 40
"""A line that is shorter than this, or than three quarters of the longest, ends a paragraph."""


def read(source: DocumentSource) -> Reading:
    """Read the paragraphs of a text.

    Consecutive lines are one paragraph if they have the same indentation and only the last is short; the
    translation is wrapped to the same width. A line that begins like a list item begins a paragraph.
    """
    text, encoding, mark = decode_text(source.content, source.options.encoding, source.name)
    return Reading(_pieces(text), encoding, mark=mark)


def _pieces(text: str) -> Iterator[Piece]:
    paragraph: list[tuple[str, str]] = []
    for found in LINE.finditer(text):
        line, end = found.groups()
        if not line and not end:
            continue
        if paragraph and _ends(paragraph[-1][0], line, paragraph[0][0]):
            yield from _paragraph(paragraph)
            paragraph = []
        if line.strip():
            paragraph.append((line, end))
        else:
            yield line + end
    yield from _paragraph(paragraph)


def _ends(before: str, line: str, first: str) -> bool:
    """Return whether a line begins a new paragraph."""
    if not line.strip() or ITEM.match(line):
        return True
    hanging = ITEM.match(first)
    inside = len(hanging.group()) if hanging and before is first else _indent(before)
    width = max(len(before), len(line))
    return _indent(line) != inside or len(before) < SOFT or 4 * len(before) < 3 * width


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _paragraph(lines: list[tuple[str, str]]) -> Iterator[Piece]:
    if not lines:
        return
    first = lines[0][0]
    item = ITEM.match(first)
    lead = item.group() if item else first[: _indent(first)]
    rest = lines[1][0][: _indent(lines[1][0])] if len(lines) > 1 else lead
    ends = [end for _, end in lines]
    width = max(len(line) for line, _ in lines)
    body = "".join(line + end for line, end in lines)[len(lead) :]
    body = body[: len(body) - len(ends[-1])] if ends[-1] else body
    tail = body[len(body.rstrip()) :]
    words = " ".join([first[len(lead) :].strip(), *(line.strip() for line, _ in lines[1:])])

    def write(made: Inline) -> str:
        text = plain_text(made)
        if len(lines) == 1:
            return text
        return f"{ends[0]}{rest}".join(fill(text.split(), max(width - len(rest), 20)))

    yield lead
    yield text_unit(body[: len(body) - len(tail)], (words,), write)
    yield tail + ends[-1]


FORMAT = DocumentFormat("txt", (".txt", ".text"), read)

"""Plain text, whose paragraphs are separated by blank lines and may be wrapped."""

from __future__ import annotations

import re
from collections.abc import Iterator

from uwaga.markup import Inline, plain_text
from uwaga.markup.units import Piece, text_unit
from uwaga.markup.wrapping import fill
from uwaga_documents.document import DocumentFormat, DocumentSource, ParsedDocument
from uwaga_documents.encodings import decode_text

LINE = re.compile(r"([^\n\r]*)(\r\n|\n|\r|$)")
LIST_ITEM = re.compile(r"[ \t]*(?:[-*+•–—]|\(?(?:\d{1,3}|[A-Za-z])[.)])[ \t]")
"""The beginning of a list item."""
MIN_WRAPPED_CHARACTERS = 40
"""Minimum number of characters of a wrapped line. A line that is shorter than this, or than three quarters of
the next line, ends a paragraph."""


def read(source: DocumentSource) -> ParsedDocument:
    """Read the paragraphs of a text.

    Consecutive lines are one paragraph if they have the same indentation and only the last line is short. The
    translation of a wrapped paragraph is wrapped to the same width. A list item starts a new paragraph.
    """
    decoded = decode_text(source)
    return decoded.parsed(_pieces(decoded.text))


def _pieces(text: str) -> Iterator[Piece]:
    paragraph: list[tuple[str, str]] = []
    for match in LINE.finditer(text):
        line, end = match.groups()
        if not line and not end:
            continue
        if paragraph and _ends_paragraph(paragraph[-1][0], line, paragraph[0][0]):
            yield from _paragraph(paragraph)
            paragraph = []
        if line.strip():
            paragraph.append((line, end))
        else:
            yield line + end
    yield from _paragraph(paragraph)


def _ends_paragraph(previous_line: str, line: str, first_line: str) -> bool:
    """Return whether a paragraph ends before ``line``.

    Args:
        previous_line: the last line of the paragraph.
        line: the next line.
        first_line: the first line of the paragraph.
    """
    if not line.strip() or LIST_ITEM.match(line):
        return True
    list_item = LIST_ITEM.match(first_line)
    indentation = (
        len(list_item.group()) if list_item and previous_line is first_line else _indent(previous_line)
    )
    width = max(len(previous_line), len(line))
    return (
        _indent(line) != indentation
        or len(previous_line) < MIN_WRAPPED_CHARACTERS
        or 4 * len(previous_line) < 3 * width
    )


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _paragraph(lines: list[tuple[str, str]]) -> Iterator[Piece]:
    if not lines:
        return
    first_line = lines[0][0]
    item = LIST_ITEM.match(first_line)
    prefix = item.group() if item else first_line[: _indent(first_line)]
    indentation = lines[1][0][: _indent(lines[1][0])] if len(lines) > 1 else prefix
    ends = [end for _, end in lines]
    width = max(len(line) for line, _ in lines)
    body = "".join(line + end for line, end in lines)[len(prefix) :]
    body = body[: len(body) - len(ends[-1])] if ends[-1] else body
    tail = body[len(body.rstrip()) :]
    words = " ".join([first_line[len(prefix) :].strip(), *(line.strip() for line, _ in lines[1:])])

    def write(inline: Inline) -> str:
        text = plain_text(inline)
        if len(lines) == 1:
            return text
        return f"{ends[0]}{indentation}".join(fill(text.split(), max(width - len(indentation), 20)))

    yield prefix
    yield text_unit(body[: len(body) - len(tail)], (words,), write)
    yield tail + ends[-1]


FORMAT = DocumentFormat("txt", (".txt", ".text"), read)

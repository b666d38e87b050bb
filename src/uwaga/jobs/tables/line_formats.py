"""Plain text and JSON Lines, compressed or not: a row is a line."""

from __future__ import annotations

import json
import lzma
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from uwaga.errors import DataError, shown
from uwaga.files.lines import damage, decompressed
from uwaga.jobs.tables.rows import BlockLimit, BlockRows, Columns, SourceFile, TranslatedCell

LONGEST_ROW = 1 << 26
"""Bytes of a line; what is longer is no row, and must not fill the memory."""


class _Line(NamedTuple):
    text: str
    share: float
    size: int


class TextFormat:
    """A text a line: the parts hold the translations alone, line for line."""

    name, ending = "text", ".txt"

    def check(self, file: SourceFile, columns: Columns) -> None:
        for _ in islice(_lines(file, 0), 1):  # whether it can be opened
            pass

    def read(self, file: SourceFile, columns: Columns, first: int, limit: BlockLimit) -> Iterator[BlockRows]:
        for start, lines in _blocks(file, first, limit):
            texts = [line.text.replace("\r", " ") for line in lines]
            yield BlockRows(start, len(lines), [texts], lines[-1].share)

    def write(self, rows: BlockRows, columns: Columns, made: Sequence[Sequence[TranslatedCell]]) -> bytes:
        return "".join(f"{_one_line(cell.text or '')}\n" for cell in made[0]).encode()


class JsonLinesFormat:
    """A JSON object a line: what a line holds stays as it was written, and the new keys come behind."""

    name, ending = "jsonl", ".jsonl"

    def check(self, file: SourceFile, columns: Columns) -> None:
        for line in _lines(file, 0):
            if not line.text.strip():
                continue
            row = _object(line.text, file.name, 0)
            for column in columns.columns:
                if column.source not in row:
                    there = ", ".join(row) or "none"
                    raise DataError(f"{file.name}: no column {shown(column.source)}; there are: {there}")
            for name in columns.names():
                if name in row:
                    raise DataError(
                        f"{file.name}: has a column {name} already: name another, --column NAME=OTHER"
                    )
            return

    def read(self, file: SourceFile, columns: Columns, first: int, limit: BlockLimit) -> Iterator[BlockRows]:
        for start, lines in _blocks(file, first, limit):
            texts: list[list[str | None]] = [[] for _ in columns.columns]
            faults: dict[tuple[int, int], str] = {}
            for at, line in enumerate(lines):
                row = _object(line.text, file.name, start + at) if line.text.strip() else {}
                for place, column in enumerate(columns.columns):
                    value = row.get(column.source)
                    if value is not None and not isinstance(value, str):
                        faults[place, at] = f"{column.source} holds {shown(value)}, not text"
                        value = None
                    texts[place].append(value)
            content = [line.text for line in lines]
            yield BlockRows(start, len(lines), texts, lines[-1].share, content, faults)

    def write(self, rows: BlockRows, columns: Columns, made: Sequence[Sequence[TranslatedCell]]) -> bytes:
        written: list[str] = []
        assert isinstance(rows.content, list)
        for at, line in enumerate(rows.content):
            if not line.strip():
                written.append(line)
                continue
            more = [
                f"{json.dumps(name, ensure_ascii=False)}: {_json(value)}"
                for column, cells in zip(columns.columns, made, strict=True)
                for name, value in columns.made(column, cells[at])
            ]
            begun = line.rstrip()[:-1].rstrip()  # without the brace that ends it
            written.append(f"{begun}{'' if begun.endswith('{') else ', '}{', '.join(more)}}}")
        return "".join(f"{line}\n" for line in written).encode()


def _json(value: str | float | None) -> str:
    """A value as JSON; half a surrogate pair, which UTF-8 cannot hold, is escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if any("\ud800" <= letter <= "\udfff" for letter in text) else text


def _one_line(text: str) -> str:
    return text.replace("\n", " ").replace("\r", " ")


def _object(line: str, name: str, row: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise DataError(f"{name}: line {row + 1} is not JSON: {shown(line)}") from None
    if not isinstance(value, dict):
        raise DataError(f"{name}: line {row + 1} is no JSON object: {shown(line)}")
    return value


def _blocks(file: SourceFile, first: int, limit: BlockLimit) -> Iterator[tuple[int, list[_Line]]]:
    """Lines from the given one on in blocks, each with the index of its first."""
    block: list[_Line] = []
    for line in _lines(file, first):
        block.append(line)
        if limit.ends_after(line.size):
            yield first, block
            first, block = first + len(block), []
    if block:
        yield first, block


def _lines(file: SourceFile, first: int) -> Iterator[_Line]:
    """Lines without their ends (LF or CR LF), from the given one on; a byte order mark is dropped."""
    number = 0
    plain = file.open()
    try:
        with decompressed(plain, file.name) as content:
            while raw := content.readline(LONGEST_ROW):
                number += 1
                if len(raw) == LONGEST_ROW and not raw.endswith(b"\n"):
                    raise DataError(
                        f"{file.name}: line {number} is longer than {LONGEST_ROW >> 20} MB; is it text?"
                    )
                if number == 1:
                    raw = raw.removeprefix(b"\xef\xbb\xbf")
                if number <= first:
                    continue
                text = _decoded(raw.removesuffix(b"\n").removesuffix(b"\r"), file.name, number)
                yield _Line(text, min(1.0, plain.tell() / max(1, file.size)), len(raw))
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise damage(file.name, error, f"after line {number}") from None
    finally:
        plain.close()


def _decoded(raw: bytes, name: str, number: int) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: line {number} is not UTF-8 at byte {error.start + 1}") from None

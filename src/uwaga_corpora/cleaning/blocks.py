"""Blocks of lines: reading, sending to workers, and splitting into pairs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from uwaga.data.report import Fault
from uwaga.data.sources import Row, find_sources
from uwaga.errors import DataError
from uwaga.files.lines import read_lines
from uwaga.settings import CorpusSettings, parse
from uwaga_corpora.cleaning.pairs import SPACE, Counts, PairBlock, Side, character_bits

BLOCK_LINES = 8192
"""Maximum number of lines of a block."""
CHUNK_LINES = 128
"""Number of lines read at once, so that a block of long lines has little more than :data:`BLOCK_BYTES`."""
BLOCK_BYTES = 1 << 22

TOO_LONG: Fault = "line over 1 MiB"
_BREAKS = re.compile(rb"[\t\r\n]+")
FAULTS: tuple[Fault, ...] = (
    "line over 1 MiB",
    "bad UTF-8",
    "not a JSON object",
    "missing column",
    "missing language",
    "empty source",
    "empty target",
    "NUL character",
)
"""Reasons why a line is not a pair, as in training; verdict ``n + 1`` means the fault with index ``n``."""
RawLine = bytes | Fault | None
"""A line, the fault of a line, or None if the line is too long."""
Verdicts = NDArray[np.int16]
"""(lines,) 0 for kept lines; otherwise the number of the fault or, from ``len(FAULTS) + 1``, of the rule."""


@dataclass
class LineBlock:
    """Consecutive lines.

    Attributes:
        first: number of the first line, counted from 1.
        columns: the lines of a TSV, or the sources and the targets.
        faults: faults found while reading, by line index; these lines are empty.
    """

    first: int
    columns: tuple[list[bytes], ...]
    faults: dict[int, Fault]

    def __len__(self) -> int:
        return len(self.columns[0])

    def pack(self) -> RawBlock:
        """Return the block in a form that is fast to send to a worker process."""
        return RawBlock(tuple(b"\n".join(column) for column in self.columns), len(self), self.faults)

    def line(self, index: int) -> bytes:
        """Return a line as TSV."""
        return b"\t".join(column[index] for column in self.columns)

    def sides(self) -> Sequence[list[bytes]]:
        """Return the sources and the targets."""
        if len(self.columns) > 1:
            return self.columns
        cells = [line.split(b"\t", 2) for line in self.columns[0]]
        return [cell[0] for cell in cells], [cell[1] if len(cell) > 1 else b"" for cell in cells]

    def texts(self, index: int) -> tuple[str, str]:
        """Return both sides of a line, with invalid bytes replaced."""
        cells = [cell.decode("utf-8", "replace") for cell in self.line(index).split(b"\t")]
        return cells[0], cells[1] if len(cells) > 1 else ""


class RawBlock(NamedTuple):
    """A block with the lines of each column joined, the number of lines, and the faults."""

    columns: tuple[bytes, ...]
    lines: int
    faults: dict[int, Fault]


class CorpusLines:
    """A corpus as lines: the unchanged lines of a TSV or of two text files, or TSV lines of other formats."""

    def __init__(self, paths: Sequence[Path | str], languages: tuple[str, str]) -> None:
        files = tuple(str(path) for path in paths)
        corpus = parse(CorpusSettings, {"files": files, "languages": languages}, "the corpus")
        self._sources = find_sources(corpus)
        self.files, self.name = self._sources.files, self._sources.name
        self.aligned = self._sources.format == "text"

    def blocks(self) -> Iterator[LineBlock]:
        """Yield the blocks in order."""
        if self._sources.format == "tsv":
            sides: list[Iterator[RawLine]] = [chain.from_iterable(map(read_lines, self._sources.files))]
        elif self.aligned:
            sides = [read_lines(path) for path in self._sources.files]
        else:
            sides = [_as_tsv(self._sources.rows())]
        first_line = 1
        while True:
            columns, faults = self._read_columns(sides, first_line)
            if not columns[0]:
                return
            yield LineBlock(first_line, columns, faults)
            first_line += len(columns[0])

    def _read_columns(
        self, sides: list[Iterator[RawLine]], first_line: int
    ) -> tuple[tuple[list[bytes], ...], dict[int, Fault]]:
        columns: tuple[list[bytes], ...] = tuple([] for _ in sides)
        faults: dict[int, Fault] = {}
        size = 0
        while len(columns[0]) < BLOCK_LINES and size < BLOCK_BYTES:
            chunk = [list(islice(side, CHUNK_LINES)) for side in sides]
            if len(chunk[0]) != len(chunk[-1]):
                self._raise_misaligned(first_line + len(columns[0]) - 1, list(map(len, chunk)), sides)
            if not chunk[0]:
                break
            for column, lines in zip(columns, chunk, strict=True):
                if set(map(type, lines)) != {bytes}:
                    faulty = {index: line for index, line in enumerate(lines) if not isinstance(line, bytes)}
                    faults |= {len(column) + index: line or TOO_LONG for index, line in faulty.items()}
                texts = [line if isinstance(line, bytes) else b"" for line in lines]
                column += texts
                size += sum(map(len, texts))
        return columns, faults

    def _raise_misaligned(
        self, line_count: int, read_counts: list[int], sides: list[Iterator[RawLine]]
    ) -> NoReturn:
        counts = [
            line_count + read_count + sum(1 for _ in side)
            for read_count, side in zip(read_counts, sides, strict=True)
        ]
        raise DataError(
            f"the files are not aligned: {self.files[0]} has {counts[0]} lines, {self.files[1]} has "
            f"{counts[1]}; line n of one must translate line n of the other"
        )


def _as_tsv(rows: Iterator[Row]) -> Iterator[RawLine]:
    """Yield rows as lines of TSV, with tabs and line breaks of texts replaced by spaces."""
    for row in rows:
        if isinstance(row.cells, str):
            yield row.cells
            continue
        cells = [cell if isinstance(cell, bytes) else cell.encode("utf-8", "replace") for cell in row.cells]
        yield b"\t".join(_BREAKS.sub(b" ", cell) for cell in cells)


def read_block(raw_block: RawBlock, languages: tuple[str, str]) -> tuple[PairBlock, Verdicts]:
    """Return the pairs of a block, and the verdicts of the lines that are not pairs.

    Lines that are not pairs are returned as pairs with empty sides.
    """
    verdicts = np.zeros(raw_block.lines, np.int16)
    if len(raw_block.columns) == 1:
        codes, starts, line_ends = _decode(raw_block.columns[0], raw_block.lines, verdicts)
        tabs = np.append(np.flatnonzero(codes == ord("\t")), [len(codes)] * 2)
        first_tabs = np.searchsorted(tabs, starts)
        source_ends, target_ends = (
            np.minimum(tabs[first_tabs], line_ends),
            np.minimum(tabs[first_tabs + 1], line_ends),
        )
        is_missing = source_ends == line_ends
        source = Side.spans(codes, starts, source_ends)
        target = Side.spans(codes, np.minimum(source_ends + 1, target_ends), target_ends)
    else:
        source, target = (
            Side.spans(*_decode(column, raw_block.lines, verdicts)) for column in raw_block.columns
        )
        is_missing = np.zeros(raw_block.lines, np.bool_)
    empty_source, empty_target = (_are_blank(side) for side in (source, target))
    nul = (source.count(source.codes == 0) + target.count(target.codes == 0)) > 0
    _mark(verdicts, is_missing & ~empty_source, "missing column")
    _mark(verdicts, empty_source, "empty source")
    _mark(verdicts, empty_target, "empty target")
    _mark(verdicts, nul, "NUL character")
    for index, fault in raw_block.faults.items():
        verdicts[index] = FAULTS.index(fault) + 1
    return PairBlock(source, target, languages), verdicts


def _decode(raw_bytes: bytes, lines: int, verdicts: Verdicts) -> tuple[NDArray[np.uint32], Counts, Counts]:
    """Return the characters of joined lines, and the start and the end (lines,) of each line."""
    try:
        text = raw_bytes.decode("utf-8")
    except UnicodeDecodeError:
        decoded_sides = []
        for index, line in enumerate(raw_bytes.split(b"\n")):
            try:
                decoded_sides.append(line.decode("utf-8"))
            except UnicodeDecodeError:
                decoded_sides.append("")
                verdicts[index] = FAULTS.index("bad UTF-8") + 1
        text = "\n".join(decoded_sides)
    codes = np.frombuffer(text.encode("utf-32-le"), "<u4")
    line_ends = np.append(np.flatnonzero(codes == ord("\n")), len(codes))
    return codes, np.concatenate([[0], line_ends[:-1] + 1]), line_ends


def _are_blank(texts: Side) -> NDArray[np.bool_]:
    """Return the mask (pairs,) of texts that are empty or white space."""
    blank: NDArray[np.bool_] = texts.count((character_bits()[texts.codes] & SPACE) == 0) == 0
    return blank


def _mark(verdicts: Verdicts, lines: NDArray[np.bool_], fault: Fault) -> None:
    verdicts[lines & (verdicts == 0)] = FAULTS.index(fault) + 1

"""Pairs of texts from one TSV, two aligned files, or standard input."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from uwaga.cli.lines import STANDARD_INPUT, Chunk, file_chunks, standard_input_chunks
from uwaga.errors import DataError, SettingsError

MOST_FILES = 2
Files = Annotated[
    list[Path] | None,
    typer.Argument(
        help="One TSV of source and target, or two aligned files; standard input (TSV) without any.",
        show_default=False,
    ),
]


class Pairs(NamedTuple):
    """Pairs that follow each other; ``chunk`` holds their source lines."""

    chunk: Chunk
    pairs: list[tuple[str, str]]


def pairs_of(files: list[Path]) -> Iterator[Pairs]:
    """The pairs of a TSV, of two files, or without any of standard input.

    Raises:
        SettingsError: there are more files.
        DataError: a file cannot be read, a line has no tab, or two files have not as many lines.
    """
    if len(files) > MOST_FILES:
        raise SettingsError(f"{len(files)} files: give one TSV, or a file of sources and one of targets")
    if len(files) == MOST_FILES:
        return _aligned(files[0], files[1])
    if files:
        return _columns(file_chunks(files[0]), str(files[0]))
    return _columns(standard_input_chunks(), STANDARD_INPUT)


def _columns(chunks: Iterator[Chunk], name: str) -> Iterator[Pairs]:
    for chunk in chunks:
        pairs = []
        for number, line in enumerate(chunk.lines, start=chunk.first):
            cells = line.split("\t")
            if len(cells) < 2:
                raise DataError(f"{name}: line {number} has no tab: put source, tab, target on a line")
            pairs.append((cells[0], cells[1]))
        yield Pairs(chunk, pairs)


def _aligned(source: Path, target: Path) -> Iterator[Pairs]:
    counts = [0, 0]
    for left, right in zip_longest(file_chunks(source), file_chunks(target)):
        counts = [
            count + (len(part.lines) if part else 0)
            for count, part in zip(counts, (left, right), strict=True)
        ]
        if counts[0] == counts[1]:
            yield Pairs(left, list(zip(left.lines, right.lines, strict=True)))
    if counts[0] != counts[1]:
        raise DataError(f"{source} has {counts[0]} lines but {target} has {counts[1]}: they must be aligned")

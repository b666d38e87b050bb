"""Reading of translations and references from plain or compressed files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from uwaga.errors import DataError, SettingsError
from uwaga.files.lines import text_lines


def read_lines(path: Path) -> list[str]:
    """Return the lines of a UTF-8 text file."""
    return list(text_lines(path))


def read_aligned(path: Path, other: str, count: int) -> list[str]:
    """Return the lines of a file that is aligned line by line with another file.

    Args:
        path: the file.
        other: name of the other file.
        count: number of lines of the other file.
    """
    lines = read_lines(path)
    check_aligned(str(path), len(lines), other, count)
    return lines


def read_references(paths: Sequence[Path], columns: str = "2-") -> list[tuple[str, ...]]:
    """Return the references of each line from one or more files.

    A plain file has one reference per line. A ``.tsv`` file has references in ``columns``; empty cells are
    ignored, so lines may have different numbers of references.
    """
    ranges = _parse_columns(columns)
    combined_references: list[tuple[str, ...]] = []
    for path in paths:
        lines = read_lines(path)
        if ".tsv" in path.suffixes:
            line_references = [_pick_columns(line, ranges) for line in lines]
            for number, line in enumerate(line_references, start=1):
                if not line:
                    raise DataError(f"{path}: line {number} has no reference in columns {columns}")
        else:
            line_references = [(line,) for line in lines]
        if path is paths[0]:
            combined_references = line_references
            continue
        check_aligned(str(path), len(line_references), str(paths[0]), len(combined_references))
        combined_references = [
            earlier_references + additional_references
            for earlier_references, additional_references in zip(
                combined_references, line_references, strict=True
            )
        ]
    return combined_references


def read_test_set(
    sources: Path, references: Sequence[Path], columns: str = "2-"
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the sources, and the references of each source as read by :func:`read_references`."""
    lines, references_by_line = read_lines(sources), read_references(references, columns)
    check_aligned(str(references[0]), len(references_by_line), str(sources), len(lines))
    return lines, references_by_line


def check_aligned(name: str, count: int, other: str, other_count: int) -> None:
    """Check that two files have the same number of lines."""
    if count != other_count:
        raise DataError(f"{name} has {count} lines but {other} has {other_count}: they must be aligned")


def _pick_columns(line: str, ranges: Sequence[tuple[int, int | None]]) -> tuple[str, ...]:
    cells = line.split("\t")
    return tuple(cell for first, last in ranges for cell in cells[first - 1 : last] if cell.strip())


def _parse_columns(columns: str) -> list[tuple[int, int | None]]:
    """Return the first and the last column of each range, counted from 1, or None for an open end."""
    ranges: list[tuple[int, int | None]] = []
    for part in columns.split(","):
        match = re.fullmatch(r"\s*+([1-9]\d{0,8})\s*+(-?)\s*+([1-9]\d{0,8})?\s*", part)
        if not match or (match[3] and not match[2]):
            raise SettingsError(f"columns {columns!r}: expected column numbers such as 2 or 2,4 or 2-")
        first = int(match[1])
        last = int(match[3]) if match[3] else None if match[2] else first
        if last is not None and last < first:
            raise SettingsError(f"columns {columns!r}: the range {first}-{last} ends before it begins")
        ranges.append((first, last))
    return ranges

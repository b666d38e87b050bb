"""Rows of integers of different lengths, such as token ids, concatenated in one array."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Ids

LARGE_FILE_BYTES = 1 << 25  # file size above which memory pages are released after reading
SLICE_ROWS = 2048  # number of rows whose lengths are read before pages are released


class Block(NamedTuple):
    """Rows padded to the same length: the first ``lengths[r]`` values of ``tokens[r]`` are not padding.

    ``tokens`` is (rows, length), ``lengths`` is (rows,).
    """

    tokens: Ids
    lengths: Ids

    def token_mask(self) -> NDArray[np.bool_]:
        """Return a boolean mask (rows, length), False on padding."""
        is_token: NDArray[np.bool_] = np.arange(self.tokens.shape[1]) < self.lengths[:, None]
        return is_token


class TokenRows(Protocol):
    """Protocol for read access to rows of integers by number, in one or more columns."""

    def row_lengths(self, rows: Ids) -> Ids:
        """Return the lengths of the given rows, (rows,)."""
        ...

    def row(self, index: int) -> NDArray[Any]:
        """Return the values of a row, (length,)."""
        ...

    def block(self, rows: Ids) -> Block:
        """Return the given rows, padded with 0."""
        ...


class Column:
    """Rows of integers in one array: row i is ``values[offsets[i] : offsets[i + 1]]``.

    After each read, the pages of large memory-mapped files are released (they stay in the system's cache), so
    that the memory of the process does not grow.
    """

    def __init__(
        self, values: NDArray[Any], offsets: NDArray[np.int64], maps: Sequence[mmap.mmap] = ()
    ) -> None:
        """Create a column; ``maps`` are the memory maps that contain its arrays."""
        self.values = values
        self.offsets = offsets
        self._maps = [
            mapped_file
            for mapped_file in maps
            if len(mapped_file) > LARGE_FILE_BYTES and hasattr(mmap, "MADV_DONTNEED")
        ]

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[int] | NDArray[Any]]) -> Column:
        """Create a column in memory from its rows."""
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)  # (pairs + 1,)
        np.cumsum(np.fromiter(map(len, rows), np.int64, count=len(rows)), out=offsets[1:])
        return cls(np.fromiter(chain.from_iterable(rows), np.int32, count=int(offsets[-1])), offsets)

    @classmethod
    def open(cls, values_path: Path, dtype: str, offsets_path: Path) -> Column:
        """Memory-map a column from its two files; ``dtype`` is the type of its values."""
        values, values_map = _map_file(values_path, dtype)
        offsets, offsets_map = _map_file(offsets_path, "<i8")
        return cls(
            values,
            offsets,
            [mapped_file for mapped_file in (values_map, offsets_map) if mapped_file is not None],
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int32]:
        """The lengths of all rows, (pairs,)."""
        return np.diff(self.offsets).astype(np.int32)

    def row_lengths(self, rows: Ids) -> Ids:
        """Return the lengths of the given rows, (rows,)."""
        if not self._maps:
            return np.asarray(self.offsets[rows + 1] - self.offsets[rows], dtype=np.int64)
        lengths = np.empty(len(rows), dtype=np.int64)
        for start in range(0, len(rows), SLICE_ROWS):
            part = rows[start : start + SLICE_ROWS]
            lengths[start : start + SLICE_ROWS] = self.offsets[part + 1] - self.offsets[part]
            self.release_pages()
        return lengths

    def row(self, index: int) -> NDArray[Any]:
        """Return the values of a row, (length,)."""
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def block(self, rows: Ids) -> Block:
        """Return the given rows, padded with 0."""
        starts = self.offsets[rows]  # (sentences,)
        lengths = np.asarray(self.offsets[rows + 1] - starts, dtype=np.int64)  # (sentences,)
        block = Block(np.zeros((len(rows), int(lengths.max())), dtype=np.int64), lengths)
        row_starts = np.cumsum(lengths) - lengths  # (sentences,)
        indices = np.repeat(starts - row_starts, lengths) + np.arange(int(lengths.sum()))  # (tokens,)
        block.tokens[block.token_mask()] = self.values[indices]
        self.release_pages()
        return block

    def release_pages(self) -> None:
        """Release the memory pages of large files that have been read."""
        for mapped_file in self._maps:
            mapped_file.madvise(mmap.MADV_DONTNEED)


class JoinedColumn:
    """The rows of several columns, numbered consecutively."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._starts = np.cumsum([0, *map(len, columns)])  # (columns + 1,)

    def row_lengths(self, rows: Ids) -> Ids:
        """Return the lengths of the given rows, (rows,)."""
        lengths = np.empty(len(rows), dtype=np.int64)
        for column_index, positions in self._group_by_column(rows):
            lengths[positions] = self._columns[column_index].row_lengths(
                rows[positions] - self._starts[column_index]
            )
        return lengths

    def row(self, index: int) -> NDArray[Any]:
        """Return the values of a row, (length,)."""
        column_index = int(np.searchsorted(self._starts, index, side="right")) - 1
        return self._columns[column_index].row(index - int(self._starts[column_index]))

    def block(self, rows: Ids) -> Block:
        """Return the given rows, padded with 0."""
        return _combine_blocks(
            rows,
            (
                (positions, self._columns[column_index].block(rows[positions] - self._starts[column_index]))
                for column_index, positions in self._group_by_column(rows)
            ),
        )

    def _group_by_column(self, rows: Ids) -> list[tuple[int, Ids]]:
        """Return the index of each column that contains some of ``rows``, and these rows' positions."""
        column_indices = np.searchsorted(self._starts, rows, side="right") - 1  # (rows,)
        return [
            (int(column_index), np.flatnonzero(column_indices == column_index))
            for column_index in np.unique(column_indices)
        ]


class SurfaceForms:
    """The sources of a mixture in every surface form; form -1 is the plain text."""

    def __init__(self, plain_rows: TokenRows, surface_rows: Sequence[TokenRows]) -> None:
        """Create the sources from the rows of the plain text and the rows of each form, in order."""
        self._columns = [*surface_rows, plain_rows]  # so that -1 is the last

    def row_lengths(self, rows: Ids, forms: Ids) -> Ids:
        """Return the length of each given row in its form, (rows,); ``forms`` is (rows,)."""
        lengths = np.empty(len(rows), dtype=np.int64)
        for form in np.unique(forms):
            positions = np.flatnonzero(forms == form)
            lengths[positions] = self._columns[form].row_lengths(rows[positions])
        return lengths

    def block(self, rows: Ids, forms: Ids) -> Block:
        """Return each given row in the form with the given number, padded with 0; ``forms`` is (rows,)."""
        return _combine_blocks(
            rows,
            (
                (positions, self._columns[form].block(rows[positions]))
                for form in np.unique(forms)
                for positions in [np.flatnonzero(forms == form)]
            ),
        )

    def row(self, index: int, form: int) -> NDArray[Any]:
        """Return a row in a form, (length,)."""
        return self._columns[form].row(index)


def _combine_blocks(rows: Ids, parts: Any) -> Block:
    """Combine ``parts``, each a pair of row positions and a block, into one block."""
    blocks = list(parts)
    width = max(part.tokens.shape[1] for _, part in blocks)
    combined_block = Block(np.zeros((len(rows), width), dtype=np.int64), np.empty(len(rows), dtype=np.int64))
    for positions, part in blocks:
        combined_block.tokens[positions, : part.tokens.shape[1]] = part.tokens
        combined_block.lengths[positions] = part.lengths
    return combined_block


def _map_file(path: Path, dtype: str) -> tuple[NDArray[Any], mmap.mmap | None]:
    if path.stat().st_size == 0:  # an empty file cannot be mapped
        return np.zeros(0, dtype=dtype), None
    with path.open("rb") as file:
        mapped_file = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(mapped_file, dtype=dtype), mapped_file

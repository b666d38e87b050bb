"""Rows of tokens of unequal length, end to end in one array."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uwaga.contracts import Ids


class Block(NamedTuple):
    """``tokens`` (sentences, tokens), of whose row r the first ``lengths[r]`` are real, the rest 0."""

    tokens: Ids
    lengths: Ids

    def real(self) -> NDArray[np.bool_]:
        """(sentences, tokens) true where a row has a token."""
        real: NDArray[np.bool_] = np.arange(self.tokens.shape[1]) < self.lengths[:, None]
        return real


class Column:
    """Rows of numbers: ``values`` flat, row i from ``offsets[i]`` to ``offsets[i + 1]``."""

    def __init__(self, values: NDArray[Any], offsets: NDArray[np.int64]) -> None:
        self.values = values
        self.offsets = offsets
        self.lengths: NDArray[np.int32] = np.diff(offsets).astype(np.int32)  # (pairs,)

    @classmethod
    def of(cls, rows: Sequence[Sequence[int] | NDArray[Any]]) -> Column:
        """The column of rows held in memory."""
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)  # (pairs + 1,)
        np.cumsum(np.fromiter(map(len, rows), np.int64, count=len(rows)), out=offsets[1:])
        return cls(np.fromiter(chain.from_iterable(rows), np.int32, count=int(offsets[-1])), offsets)

    def __len__(self) -> int:
        return len(self.lengths)

    def row(self, index: int) -> NDArray[Any]:
        """(length,) the row's numbers."""
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def block(self, rows: Ids) -> Block:
        """Some rows, padded."""
        lengths = self.lengths[rows].astype(np.int64)  # (sentences,)
        block = Block(np.zeros((len(rows), int(lengths.max())), dtype=np.int64), lengths)
        before = np.cumsum(lengths) - lengths  # (sentences,)
        indices = np.repeat(self.offsets[rows] - before, lengths) + np.arange(int(lengths.sum()))  # (tokens,)
        block.tokens[block.real()] = self.values[indices]
        return block


class Forms:
    """The sources, each in the surface form chosen for it: -1 for the text as it is."""

    def __init__(self, plain: Column, shown: Sequence[Column], chosen: Ids) -> None:
        """``shown[form]`` is the column of a form; ``chosen`` (pairs,) the form of each pair."""
        self._columns = [*shown, plain]  # so that -1 is the last
        self.chosen = chosen
        self.lengths = plain.lengths.copy()  # (pairs,)
        for form, column in enumerate(shown):
            rows = chosen == form
            self.lengths[rows] = column.lengths[rows]

    def block(self, rows: Ids) -> Block:
        """Some rows, padded."""
        lengths = self.lengths[rows].astype(np.int64)  # (sentences,)
        tokens = np.zeros((len(rows), int(lengths.max())), dtype=np.int64)  # (sentences, tokens)
        forms = self.chosen[rows]  # (sentences,)
        for form in np.unique(forms):
            indices = np.flatnonzero(forms == form)
            part = self._columns[form].block(rows[indices]).tokens
            tokens[indices, : part.shape[1]] = part
        return Block(tokens, lengths)

    def row(self, index: int) -> NDArray[Any]:
        """(length,) one row."""
        return self._columns[int(self.chosen[index])].row(index)

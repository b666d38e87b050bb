"""Rows of a lake: what is read of them, what is made of them, and how they are cut into blocks."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from uwaga.errors import SettingsError


class TranslatedCell(NamedTuple):
    """What became of a text: its translation, or None and why there is none.

    ``score`` and ``alignment``, links as Moses writes them, are None of a text without anything to translate.
    ``cut`` says that a limit has cut the translation.
    """

    text: str | None
    score: float | None = None
    alignment: str | None = None
    error: str | None = None
    cut: bool = False


class TextColumn(NamedTuple):
    """A column of texts, and that of their translations."""

    source: str
    target: str

    @classmethod
    def parse(cls, text: str) -> TextColumn:
        """From ``NAME``, whose translations are called ``NAME_translated``, or ``NAME=TRANSLATIONS``.

        Raises:
            SettingsError: a name is empty.
        """
        source, equals, target = text.partition("=")
        if not source or (equals and not target):
            raise SettingsError(f"--column {text}: give NAME, or NAME=COLUMN_OF_TRANSLATIONS")
        return cls(source, target or f"{source}_translated")


@dataclass(frozen=True)
class Columns:
    """The columns that are translated, and what is written beside their translations.

    Of a column whose translations are called ``de``, these are ``de_score``, ``de_alignment`` and
    ``de_error``, which is always there.
    """

    columns: tuple[TextColumn, ...]
    score: bool = False
    alignment: bool = False

    def made(self, column: TextColumn, cell: TranslatedCell) -> Iterator[tuple[str, str | float | None]]:
        """The new columns of a row with their values, in order."""
        yield column.target, cell.text
        if self.score:
            yield f"{column.target}_score", cell.score
        if self.alignment:
            yield f"{column.target}_alignment", cell.alignment
        yield f"{column.target}_error", cell.error

    def names(self) -> list[str]:
        """All new columns.

        Raises:
            SettingsError: two have one name.
        """
        names = [name for column in self.columns for name, _ in self.made(column, TranslatedCell(None))]
        for name in names:
            if names.count(name) > 1:
                raise SettingsError(
                    f"two new columns would be called {name}: name others with --column NAME=OTHER"
                )
        return names


class BlockLimit:
    """Says where a block ends: it has ``rows`` rows, or ``size`` bytes with the row that makes it so.

    Where blocks end depends on their own rows alone, so that reading may begin at any block.
    """

    def __init__(self, rows: int, size: int) -> None:
        self.rows, self.size = rows, size
        self._rows = self._size = 0

    def ends_after(self, size: int) -> bool:
        """Whether the block ends with the next row, which has so many bytes."""
        self._rows += 1
        self._size += size
        full = self._rows >= self.rows or self._size >= self.size
        if full:
            self._rows = self._size = 0
        return full


@dataclass(frozen=True)
class BlockRows:
    """Rows of one file that become one part.

    Attributes:
        first: index of the first in its file.
        count: how many.
        texts: (columns, rows) what is to be translated; None where there is nothing.
        share: of the file that has been read with them.
        content: the rows as they were read, for who writes them again.
        faults: why a cell, by column and row, is no text.
    """

    first: int
    count: int
    texts: Sequence[Sequence[str | None]]
    share: float
    content: object = None
    faults: Mapping[tuple[int, int], str] = field(default_factory=dict)


class SourceFile(NamedTuple):
    """A file to read: its name for messages, its bytes, and how it is opened."""

    name: str
    size: int
    open: Callable[[], io.BufferedReader]


class RowFormat(Protocol):
    """A format of files with rows."""

    name: str
    ending: str

    def check(self, file: SourceFile, columns: Columns) -> None:
        """Refuse columns that are not there, or new ones that are.

        Raises:
            DataError: names the column and those there are.
        """
        ...

    def read(self, file: SourceFile, columns: Columns, first: int, limit: BlockLimit) -> Iterator[BlockRows]:
        """The rows of a file from ``first`` on, block by block.

        Raises:
            DataError: the file cannot be read as what it should be; names file and row.
        """
        ...

    def write(self, rows: BlockRows, columns: Columns, made: Sequence[Sequence[TranslatedCell]]) -> bytes:
        """A part with the rows and (columns, rows) what was made of them."""
        ...

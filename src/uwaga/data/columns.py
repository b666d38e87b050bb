"""The columns of a corpus whose format knows them by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from uwaga.data.report import Fault
from uwaga.errors import SHOWN, DataError
from uwaga.settings import CorpusSettings

Cells = tuple[bytes | str, ...]
"""Source, target and further references: text, or UTF-8 that has not been decoded."""
Placed = tuple[int, Cells | Fault]
"""A row's number in its file, from 1, and its cells or what is wrong with them."""
USUAL = ("source", "target")
BREAKS = re.compile(r"[\t\r\n]+")
"""What no sentence of a line of a TSV holds."""


def cell_text(cell: bytes | str) -> str:
    """The text of a cell; a line break of a format that can hold one is a space in a sentence.

    Raises:
        UnicodeError: it is not UTF-8, or holds half a surrogate pair.
    """
    if isinstance(cell, bytes):
        return cell.decode("utf-8")
    cell.encode("utf-8")
    return BREAKS.sub(" ", cell)


def present_columns(file: str, corpus: CorpusSettings, there: Iterable[str]) -> Sequence[str]:
    """The names of the columns of source, target and further references.

    Those that the settings name; else the languages' codes (``en`` and ``de``, also within ``translation``,
    as the Hugging Face hub's corpora have them), else ``source`` and ``target``.

    Args:
        file: for messages.
        corpus: ``columns`` and ``languages`` are used.
        there: the columns of the file; those within another as ``outer.inner``.

    Raises:
        DataError: one is not there; lists those that are.
    """
    names = list(there)
    wanted: tuple[str, ...] = tuple(str(column) for column in corpus.columns)
    if any(isinstance(column, int) for column in corpus.columns):
        raise DataError(f"{file}: its columns have names, {_listed(names)}; say columns: [NAME, NAME]")
    if not wanted:
        codes = corpus.languages or USUAL
        guesses = (codes, tuple(f"translation.{code}" for code in codes), USUAL)
        wanted = next((guess for guess in guesses if set(guess) <= set(names)), codes)
    if missing := [name for name in wanted if name not in names]:
        raise DataError(
            f"{file}: no column {', '.join(missing)}; there are {_listed(names)}: name two of them, "
            "columns: [SOURCE, TARGET]"
        )
    return wanted


def inner_value(row: Any, column: str) -> Any:
    """The value of a column; of ``outer.inner`` within another, None where it is not there."""
    if not isinstance(row, dict):
        return None
    if column in row:
        return row[column]
    outer, dot, inner = column.partition(".")
    return inner_value(row.get(outer), inner) if dot else None


def _listed(names: list[str]) -> str:
    kept = ", ".join(name[:SHOWN] for name in names[:SHOWN])
    return (kept or "none") + (", ..." if len(names) > SHOWN else "")

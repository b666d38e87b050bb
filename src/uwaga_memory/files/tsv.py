r"""Reading and writing of tab-separated values, with one pair per line.

A first line that contains the names ``source`` and ``target`` is a header. In a file with a header, ``\t``,
``\n``, ``\r`` and ``\\`` in a column represent a tab, line breaks and a backslash, as in the files that uwaga
writes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import IO

from uwaga.errors import DataError, SettingsError
from uwaga.files.lines import read_lines
from uwaga_memory.files.file import TranslationFile
from uwaga_memory.store import Pair

COLUMN_NAMES = ("source", "target", "origin", "key", "before", "after", "created", "properties")
REQUIRED_COLUMNS = 2
MAX_NUMBERED_COLUMNS = 4
"""Number of columns that can be selected by number: source, target, origin and key."""
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
ESCAPE_SEQUENCE = re.compile(r"\\([tnr\\])")
UNESCAPED_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}


def read_tsv(file: TranslationFile) -> Iterator[Pair]:
    """Yield the pairs of a TSV file."""
    columns: dict[str, int] = {}
    has_header = False
    for line_number, line in enumerate(read_lines(file.path), start=1):
        if line is None:
            file.skipped["a line over 1 MiB"] += 1
            continue
        file.position += len(line) + 1
        try:
            cells = line.decode("utf-8").split("\t")
        except UnicodeDecodeError:
            file.skipped["not UTF-8"] += 1
            continue
        if line_number == 1:
            columns, has_header = _columns(file, cells)
            if has_header:
                continue
        if len(cells) <= max(columns["source"], columns["target"]):
            file.skipped["a missing column"] += 1
            continue
        values = {name: cells[index] for name, index in columns.items() if index < len(cells)}
        if has_header:
            values = {name: _unescape(value) for name, value in values.items()}
        yield _pair(file, values, line_number)


def _pair(file: TranslationFile, values: dict[str, str], line: int) -> Pair:
    properties = values.pop("properties", "")
    try:
        parsed_properties = (
            tuple((str(name), str(value)) for name, value in json.loads(properties)) if properties else ()
        )
    except (ValueError, TypeError, RecursionError):
        raise DataError(
            f"{file.path}: line {line}: the column `properties` is invalid: it must be empty or a JSON list "
            "of pairs"
        ) from None
    return Pair(**{"origin": file.origin, **values}, properties=parsed_properties)


def _columns(file: TranslationFile, cells: Sequence[str]) -> tuple[dict[str, int], bool]:
    """Return the index of each column by name, and whether the first line is a header."""
    names = file.options.columns
    if names and len(names) < REQUIRED_COLUMNS:
        raise SettingsError(
            "--columns: state at least two columns, source and translation, such as --columns 1,2"
        )
    if names and all(name.isdecimal() for name in names):
        if len(names) > MAX_NUMBERED_COLUMNS or "0" in names:
            raise SettingsError(
                "--columns: state at most four numbers, counted from 1: source, target, origin, key"
            )
        return {
            name: int(column_number) - 1 for name, column_number in zip(COLUMN_NAMES, names, strict=False)
        }, False
    if names:
        if missing_columns := [name for name in names if name not in cells]:
            raise DataError(
                f"{file.path}: line 1 has no column {missing_columns[0]}; its columns are "
                f"{', '.join(cells)[:200]}"
            )
        return {name: cells.index(column) for name, column in zip(COLUMN_NAMES, names, strict=False)}, True
    if "source" in cells and "target" in cells:
        return {name: cells.index(name) for name in COLUMN_NAMES if name in cells}, True
    if len(cells) != REQUIRED_COLUMNS:
        raise DataError(
            f"{file.path}: line 1 has {len(cells)} columns; state those of the source and the translation, "
            "such as --columns 1,2"
        )
    return {"source": 0, "target": 1}, False


def write_tsv(file: IO[bytes], pairs: Iterable[Pair], languages: tuple[str, str]) -> None:
    """Write pairs as TSV, with a header and all their properties."""
    file.write(("\t".join(COLUMN_NAMES) + "\n").encode())
    for pair in pairs:
        values = [getattr(pair, name) for name in COLUMN_NAMES[:-1]]
        values.append(json.dumps(pair.properties, ensure_ascii=False) if pair.properties else "")
        file.write(("\t".join(map(_escape, values)) + "\n").encode())


def _escape(text: str) -> str:
    return text.translate(ESCAPES)


def _unescape(text: str) -> str:
    return ESCAPE_SEQUENCE.sub(lambda match: UNESCAPED_CHARACTERS[match[1]], text) if "\\" in text else text

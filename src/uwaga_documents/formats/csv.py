"""CSV and TSV files with a header line, of which the user selects the columns to translate."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from uwaga.errors import DataError, SettingsError, quoted
from uwaga.markup.units import Piece, untranslated, with_key
from uwaga_documents.document import DocumentFormat, DocumentOptions, DocumentSource, ParsedDocument
from uwaga_documents.encodings import decode_text
from uwaga_documents.messages import APPLICATION_SYNTAX, message_unit

SEPARATORS = ",;\t|"
KEY_COLUMNS = frozenset({"key", "id"})
"""Names of columns that contain the key of a row."""


def check(options: DocumentOptions) -> None:
    """Check that the options select at least one column."""
    if not options.columns:
        raise SettingsError("choose the columns to translate, such as --columns title,description")


def read(source: DocumentSource) -> ParsedDocument:
    """Read the cells of the selected columns."""
    decoded = decode_text(source)
    text = decoded.text
    header = next(iter(text.splitlines()), "")
    separator = max(SEPARATORS, key=header.count) if not source.name.lower().endswith(".tsv") else "\t"
    if header.count(separator) == 0:
        separator = ","
    return decoded.parsed(_pieces(text, separator, source))


def _pieces(text: str, separator: str, source: DocumentSource) -> Iterator[Piece]:
    rows = _rows(text, separator, source.name)
    names = [_value(text[start:end]) for start, end in next(rows, [])]
    columns = _selected_columns(names, source)
    keys = [index for index, name in enumerate(names) if name.lower() in KEY_COLUMNS and index not in columns]
    position = 0
    for row in rows:
        if len(row) != len(names) and row != [(row[0][0], row[0][0])]:
            line = text.count("\n", 0, row[0][0]) + 1
            raise DataError(
                f"{source.name}: line {line} has {len(row)} cells, but the first line has {len(names)}"
            )
        key = _value(text[slice(*row[keys[0]])]) if keys and len(row) == len(names) else ""
        for column, (start, end) in enumerate(row):
            raw = text[start:end]
            yield text[position:start]
            if column not in columns:
                yield untranslated(raw, "in other columns")
            else:
                piece = message_unit(raw, _value(raw), _CellWriter(raw, separator), APPLICATION_SYNTAX)
                yield with_key(piece, key)
            position = end
    yield text[position:]


def _selected_columns(names: Sequence[str], source: DocumentSource) -> frozenset[int]:
    for name in source.options.columns:
        if name not in names:
            raise SettingsError(
                f"{source.name}: has no column {quoted(name)}; its columns are {', '.join(names)[:200]}"
            )
    return frozenset(index for index, name in enumerate(names) if name in source.options.columns)


def _rows(text: str, separator: str, location: str) -> Iterator[list[tuple[int, int]]]:
    """Yield the spans of the cells of each row, quotation marks included."""
    cell = re.compile(
        rf'("(?>(?:[^"]++|"")*)"|(?!")[^{re.escape(separator)}\r\n]*)({re.escape(separator)}|\r\n|\n|\r|\Z)'
    )
    position, row = 0, list[tuple[int, int]]()
    while position < len(text) or row:
        match = cell.match(text, position)
        if match is None:
            line = text.count("\n", 0, position) + 1
            raise DataError(
                f"{location}: line {line}: a quotation mark is never closed, or text follows a closing one"
            )
        row.append(match.span(1))
        position = match.end()
        if match[2] != separator:
            yield row
            row = []
        if match[2] == "":
            break


def _value(raw: str) -> str:
    return raw[1:-1].replace('""', '"') if raw.startswith('"') else raw


class _CellWriter:
    """A function that writes a cell, in quotation marks if the source has them or they are necessary."""

    def __init__(self, raw: str, separator: str) -> None:
        self._raw, self._separator = raw, separator

    def __call__(self, text: str) -> str:
        needs_quotes = text.startswith('"') or any(
            character in text for character in (self._separator, "\n", "\r", '"')
        )
        if not needs_quotes and not self._raw.startswith('"'):
            return text
        return '"' + text.replace('"', '""') + '"'


FORMAT = DocumentFormat("csv", (".csv", ".tsv"), read, check=check)

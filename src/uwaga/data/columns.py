"""Readers of Parquet and JSON Lines files, and the selection of columns for all formats."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from uwaga.data.report import Fault
from uwaga.errors import MAX_QUOTED_CHARACTERS, DataError, MissingExtraError, reason
from uwaga.files.lines import read_lines
from uwaga.files.store import open_stream
from uwaga.settings import CorpusSettings

Cells = tuple[bytes | str, ...]
"""Source, target and further references, as text or undecoded UTF-8."""
NumberedRow = tuple[int, Cells | Fault]
"""The number of a row in its file, counted from 1, and its cells or the fault that makes it unusable."""
DEFAULT_COLUMNS = ("source", "target")
BREAKS_AND_TABS = re.compile(r"[\t\r\n]+")
"""Characters that a sentence in a line of TSV cannot contain."""


def cell_text(cell: bytes | str) -> str:
    """Return the text of a cell, with line breaks and tabs replaced by spaces."""
    if isinstance(cell, bytes):
        return cell.decode("utf-8")
    cell.encode("utf-8")
    return BREAKS_AND_TABS.sub(" ", cell)


def select_columns(file: str, corpus: CorpusSettings, column_names: Iterable[str]) -> Sequence[str]:
    """Return the names of the columns that contain the source, the target and further references.

    The names in the settings are used if given; otherwise the language codes (``en`` and ``de``, or
    nested in ``translation``, as in corpora of the Hugging Face hub), or ``source`` and ``target``.

    Args:
        file: the name of the file, for messages.
        corpus: settings of the corpus; ``columns`` and ``languages`` are used.
        column_names: the names of the columns in the file; those of nested columns are ``outer.inner``.
    """
    names = list(column_names)
    columns: tuple[str, ...] = tuple(str(column) for column in corpus.columns)
    if any(isinstance(column, int) for column in corpus.columns):
        raise DataError(
            f"{file}: its columns have names, {_format_names(names)}, not numbers; set columns: [NAME, NAME]"
        )
    if not columns:
        codes = corpus.languages or DEFAULT_COLUMNS
        candidates = (codes, tuple(f"translation.{code}" for code in codes), DEFAULT_COLUMNS)
        columns = next((candidate for candidate in candidates if set(candidate) <= set(names)), codes)
    if missing_names := [name for name in columns if name not in names]:
        raise DataError(
            f"{file}: no column {', '.join(missing_names)}; the columns are {_format_names(names)}: select "
            "two of them with columns: [SOURCE, TARGET]"
        )
    return columns


def get_nested_value(row: Any, column: str) -> Any:
    """Return the value of a column, which may be nested (``outer_name.inner``), or None if it is missing."""
    if not isinstance(row, dict):
        return None
    if column in row:
        return row[column]
    outer_name, dot, inner_name = column.partition(".")
    return get_nested_value(row.get(outer_name), inner_name) if dot else None


def _format_names(names: list[str]) -> str:
    name_list = ", ".join(name[:MAX_QUOTED_CHARACTERS] for name in names[:MAX_QUOTED_CHARACTERS])
    return (name_list or "none") + (", ..." if len(names) > MAX_QUOTED_CHARACTERS else "")


BATCH_ROWS = 4096  # number of rows of a Parquet file that are read at a time


def parquet_rows(file: str, corpus: CorpusSettings) -> Iterator[NumberedRow]:
    """Yield the numbered rows of a Parquet file."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingExtraError(
            f"{file}: reading Parquet files needs pyarrow: pip install 'uwaga[corpora]'"
        ) from None
    row_number = 0
    with open_stream(file) as content:
        try:
            table = parquet.ParquetFile(content, pre_buffer=False)
            columns = _text_columns(file, corpus, table.schema_arrow)
            for batch in table.iter_batches(BATCH_ROWS, columns=columns, use_threads=False):
                for row in batch.to_pylist():
                    row_number += 1
                    cells = tuple(get_nested_value(row, column) for column in columns)
                    yield row_number, tuple("" if cell is None else cell for cell in cells)
        except (DataError, GeneratorExit):
            raise
        except Exception as error:  # raised by pyarrow or Python
            raise DataError(
                f"{file}: not a complete Parquet file: {reason(error)} (after row {row_number}); fetch it "
                "again"
            ) from None


def _text_columns(file: str, corpus: CorpusSettings, schema: Any) -> list[str]:
    import pyarrow

    types = {}
    for field in schema:
        types[field.name] = field.type
        if pyarrow.types.is_struct(field.type):
            types |= {f"{field.name}.{nested_field.name}": nested_field.type for nested_field in field.type}
    columns = list(select_columns(file, corpus, types))
    for column in columns:
        if schema.names.count(column.partition(".")[0]) > 1:
            raise DataError(f"{file}: two columns are named {column}; rename one of them")
        column_type = types[column]
        if pyarrow.types.is_dictionary(column_type):
            column_type = column_type.value_type
        if not (pyarrow.types.is_string(column_type) or pyarrow.types.is_large_string(column_type)):
            raise DataError(f"{file}: the column {column} holds {types[column]}, not text")
    return columns


def json_rows(file: str, corpus: CorpusSettings) -> Iterator[NumberedRow]:
    """Yield the numbered rows of a JSON Lines file; the keys of its first object are the columns."""
    columns: tuple[str, ...] = ()
    for line_number, line in enumerate(read_lines(file), start=1):
        if line is None:
            yield line_number, "line over 1 MiB"
            continue
        try:
            row: Any = json.loads(line)
        except UnicodeDecodeError:
            yield line_number, "bad UTF-8"
            continue
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            yield line_number, "not a JSON object"
            continue
        columns = columns or tuple(select_columns(file, corpus, _column_names(row)))
        cells = tuple(get_nested_value(row, column) for column in columns)
        texts = tuple(cell for cell in cells if isinstance(cell, str))
        if not all(isinstance(cell, str) for cell in cells[:2]):
            yield line_number, "missing column"
        elif not all(map(_is_unicode, texts)):
            yield line_number, "bad UTF-8"
        else:
            yield line_number, texts


def _is_unicode(text: str) -> bool:
    r"""Return whether a text can be encoded in UTF-8: JSON may contain a lone surrogate, ``"\ud800"``."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _column_names(row: dict[str, Any]) -> list[str]:
    names = list(row)
    for name, value in row.items():
        if isinstance(value, dict):
            names += [f"{name}.{nested_name}" for nested_name in value]
    return names

"""Pairs of a Parquet file, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from uwaga.data.columns import Placed, inner_value, present_columns
from uwaga.errors import DataError, MissingExtraError, reason
from uwaga.files.store import open_stream
from uwaga.settings import CorpusSettings

BATCH = 4096  # rows


def parquet_rows(file: str, corpus: CorpusSettings) -> Iterator[Placed]:
    """The pairs of a Parquet file.

    Raises:
        DataError: missing, damaged, no Parquet file, or it lacks a column of text.
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingExtraError(
            f"{file}: reading Parquet files needs pyarrow: pip install 'uwaga[corpora]'"
        ) from None
    number = 0
    with open_stream(file) as content:
        try:
            table = parquet.ParquetFile(content, pre_buffer=False)
            columns = _text_columns(file, corpus, table.schema_arrow)
            for batch in table.iter_batches(BATCH, columns=columns, use_threads=False):
                for row in batch.to_pylist():
                    number += 1
                    cells = tuple(inner_value(row, column) for column in columns)
                    yield number, tuple("" if cell is None else cell for cell in cells)
        except (DataError, GeneratorExit):
            raise
        except Exception as error:  # of pyarrow's own kinds and of those of Python
            raise DataError(
                f"{file}: not a whole Parquet file: {reason(error)} (after row {number}); fetch it again"
            ) from None


def _text_columns(file: str, corpus: CorpusSettings, schema: Any) -> list[str]:
    import pyarrow

    kinds = {}
    for field in schema:
        kinds[field.name] = field.type
        if pyarrow.types.is_struct(field.type):
            kinds |= {f"{field.name}.{inner.name}": inner.type for inner in field.type}
    columns = list(present_columns(file, corpus, kinds))
    for column in columns:
        if schema.names.count(column.partition(".")[0]) > 1:
            raise DataError(f"{file}: two columns are called {column}: rename one, so that it is clear which")
        kind = kinds[column]
        if pyarrow.types.is_dictionary(kind):
            kind = kind.value_type
        if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)):
            raise DataError(f"{file}: the column {column} holds {kinds[column]}, not text")
    return columns

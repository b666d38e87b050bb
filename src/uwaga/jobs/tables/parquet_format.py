"""Parquet: every column stays, and the new ones come behind."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

from uwaga.errors import DataError, MissingExtraError, reason, shown
from uwaga.jobs.tables.rows import BlockLimit, BlockRows, Columns, SourceFile, TranslatedCell

BATCH, BATCH_BYTES = 512, 1 << 22  # rows, and about how many bytes of them, that are read at once
PAGE = 1 << 20  # bytes of a column that are read at once, or a page; without it all of a row group
FIXED = 8  # bytes that a value without a length of its own counts


class ParquetFormat:
    """Rows of Parquet files.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """

    name, ending = "parquet", ".parquet"

    def __init__(self) -> None:
        try:
            import pyarrow
            import pyarrow.compute
            import pyarrow.parquet
        except ImportError:
            raise MissingExtraError("Parquet files need pyarrow: pip install 'uwaga[batch]'") from None
        self._arrow: Any = pyarrow

    def check(self, file: SourceFile, columns: Columns) -> None:
        with file.open() as content:
            self._check_schema(self._open(file, content).schema_arrow, file.name, columns)

    def read(self, file: SourceFile, columns: Columns, first: int, limit: BlockLimit) -> Iterator[BlockRows]:
        with file.open() as content:
            table = self._open(file, content)
            self._check_schema(table.schema_arrow, file.name, columns)
            total, at = table.metadata.num_rows, first
            block: list[Any] = []
            try:
                for batch in self._batches(table, first):
                    begin = 0
                    for end, size in enumerate(self._sizes(batch), start=1):
                        if limit.ends_after(size):
                            block.append(batch.slice(begin, end - begin))
                            yield self._rows(block, table.schema_arrow, columns, at, total)
                            at, block, begin = at + sum(one.num_rows for one in block), [], end
                    if begin < batch.num_rows:
                        block.append(batch.slice(begin))
                if block:
                    yield self._rows(block, table.schema_arrow, columns, at, total)
            except (DataError, GeneratorExit):
                raise
            except (OSError, ValueError, self._arrow.ArrowException) as error:
                raise DataError(
                    f"{file.name}: not a whole Parquet file: {reason(error)} (after row {at}); fetch it again"
                ) from None

    def write(self, rows: BlockRows, columns: Columns, made: Sequence[Sequence[TranslatedCell]]) -> bytes:
        arrow: Any = self._arrow
        table: Any = rows.content
        for column, cells in zip(columns.columns, made, strict=True):
            values = [dict(columns.made(column, cell)) for cell in cells]
            for name, _ in columns.made(column, TranslatedCell(None)):
                kind = (
                    arrow.float64() if name == f"{column.target}_score" and columns.score else arrow.string()
                )
                table = table.append_column(name, arrow.array([one[name] for one in values], kind))
        file = io.BytesIO()
        arrow.parquet.write_table(table, file, row_group_size=max(1, rows.count))
        return file.getvalue()

    def _open(self, file: SourceFile, content: io.BufferedReader) -> Any:
        try:
            return self._arrow.parquet.ParquetFile(content, pre_buffer=False, buffer_size=PAGE)
        except (OSError, ValueError, self._arrow.ArrowException) as error:
            raise DataError(f"{file.name}: no Parquet file: {reason(error)}") from None

    def _check_schema(self, schema: Any, name: str, columns: Columns) -> None:
        types = self._arrow.types
        there = list(schema.names)
        for column in columns.columns:
            if there.count(column.source) != 1:
                how = "no column" if column.source not in there else "several columns"
                raise DataError(f"{name}: {how} {shown(column.source)}; there are: {', '.join(there)}")
            kind = schema.field(column.source).type
            inner = kind.value_type if types.is_dictionary(kind) else kind
            if not (types.is_string(inner) or types.is_large_string(inner) or types.is_null(inner)):
                raise DataError(f"{name}: the column {column.source} holds {kind}, not text")
        for new in columns.names():
            if new in there:
                raise DataError(f"{name}: has a column {new} already: name another with --column NAME=OTHER")

    def _batches(self, table: Any, first: int) -> Iterator[Any]:
        """Batches from a row on, without reading the row groups before it."""
        for number in range(table.metadata.num_row_groups):
            group = table.metadata.row_group(number)
            if first >= group.num_rows:
                first -= group.num_rows
                continue
            mean = max(1, group.total_byte_size // max(1, group.num_rows))
            rows = max(1, min(BATCH, BATCH_BYTES // mean))
            for batch in table.iter_batches(rows, row_groups=[number], use_threads=False):
                skipped = min(first, batch.num_rows)
                first -= skipped
                if skipped < batch.num_rows:
                    yield batch.slice(skipped)

    def _sizes(self, batch: Any) -> list[int]:
        """(rows,) bytes of each row: lengths of its texts and bytes, and a fixed number for all else."""
        compute, types = self._arrow.compute, self._arrow.types
        sizes = [FIXED * batch.num_columns] * batch.num_rows
        for array in batch.columns:
            kind = array.type
            if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind):
                lengths = compute.binary_length(array).to_pylist()
                sizes = [size + (length or 0) for size, length in zip(sizes, lengths, strict=True)]
        return sizes

    def _rows(self, batches: list[Any], schema: Any, columns: Columns, first: int, total: int) -> BlockRows:
        table = self._arrow.Table.from_batches(batches, schema).combine_chunks()
        texts = [table.column(column.source).to_pylist() for column in columns.columns]
        share = (first + table.num_rows) / max(1, total)
        return BlockRows(first, table.num_rows, texts, share, table)

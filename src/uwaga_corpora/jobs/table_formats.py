"""File formats of tables: Parquet, JSON Lines and plain text, read in blocks of rows and written as parts."""

from __future__ import annotations

import io
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple, Protocol, get_args

from uwaga.errors import DataError, MissingExtraError, SettingsError, quoted, reason
from uwaga.files.lines import COMPRESSED_SUFFIXES, damage_error, open_decompressed
from uwaga.files.store import StoredFile
from uwaga.settings.options import check_choice
from uwaga_corpora.jobs.translation import TranslatedText

FormatName = Literal["parquet", "jsonl", "text"]
SUFFIX_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "text",
}
MAX_ROW_BYTES = 1 << 26
"""Maximum length of a row in bytes; longer lines are errors, so that they do not fill the memory."""
BATCH_ROWS, BATCH_BYTES = 512, 1 << 22  # batch of a Parquet file: maximum rows and approximate bytes
PAGE_BYTES = 1 << 20  # bytes read at once from a column, or one larger page; by default, a row group
BYTES_PER_VALUE = 8  # assumed size of a value of fixed length


class TextColumn(NamedTuple):
    """A column of texts and the column of their translations."""

    source: str
    target: str

    @classmethod
    def parse(cls, text: str) -> TextColumn:
        """Create a column from ``NAME=OTHER``, or from ``NAME``, whose translations are in
        ``NAME_translated``.
        """
        source, equals, target = text.partition("=")
        if not source or (equals and not target):
            raise SettingsError(f"--column {text}: give NAME, or NAME=COLUMN_OF_TRANSLATIONS")
        return cls(source, target or f"{source}_translated")


@dataclass(frozen=True)
class Columns:
    """The columns to translate, and which columns to add besides the translations.

    For translations in a column ``de``, the added columns are ``de_score``, ``de_alignment`` and
    ``de_memory``, if requested, and always ``de_error``. ``key`` is the column with the keys of the texts in
    a translation memory.
    """

    columns: tuple[TextColumn, ...]
    score: bool = False
    alignment: bool = False
    memory: bool = False
    key: str = ""

    @property
    def sources(self) -> list[str]:
        """Names of the columns that are read."""
        return [*(column.source for column in self.columns), *((self.key,) if self.key else ())]

    def new_values(
        self, column: TextColumn, cell: TranslatedText
    ) -> Iterator[tuple[str, str | float | None]]:
        """Yield the name and value of each new column of a row, in order."""
        yield column.target, cell.text
        if self.score:
            yield f"{column.target}_score", cell.score
        if self.alignment:
            yield f"{column.target}_alignment", cell.alignment
        if self.memory:
            yield f"{column.target}_memory", cell.memory
        yield f"{column.target}_error", cell.error

    def names(self) -> list[str]:
        """Return the names of all new columns."""
        names = [name for column in self.columns for name, _ in self.new_values(column, TranslatedText(None))]
        for name in names:
            if names.count(name) > 1:
                raise SettingsError(
                    f"two new columns would be named {name}: choose other names with --column NAME=OTHER"
                )
        return names


class BlockLimit:
    """The limit at which each block ends: the next number of rows in ``counts``, or ``size`` bytes.

    The row with which a block reaches this size is still part of the block. The end of a block depends only
    on its rows and its number, so reading may start at any block.
    """

    def __init__(self, counts: Iterator[int], size: int) -> None:
        self.counts, self.size = counts, size
        self._max_rows = next(counts)
        self._rows = self._size = 0

    def ends_after(self, size: int) -> bool:
        """Count the next row, which has ``size`` bytes, and return True if the block ends after it."""
        self._rows += 1
        self._size += size
        is_full = self._rows >= self._max_rows or self._size >= self.size
        if is_full:
            self._max_rows = next(self.counts)
            self._rows = self._size = 0
        return is_full


@dataclass(frozen=True)
class BlockRows:
    """Rows of a file that are written as one part.

    Attributes:
        first: index of the first row in its file.
        count: number of rows.
        texts: (columns, rows) the texts to translate; None for null.
        share: share of the file, from 0 to 1, that has been read at the end of these rows.
        content: the rows as read, which the format writes back.
        problems: the reasons why cells are not text, by (column, row).
        keys: (rows,) the keys of the rows; empty without a column of keys.
    """

    first: int
    count: int
    texts: Sequence[Sequence[str | None]]
    share: float
    content: object = None
    problems: Mapping[tuple[int, int], str] = field(default_factory=dict)
    keys: Sequence[str] = ()


class SourceFile(NamedTuple):
    """A file to read: its name for messages, its size in bytes, and a function that opens it.

    With ``skip``, an unreadable line is a problem of its row, and the last block before damage may have
    fewer rows than the others.
    """

    name: str
    size: int
    open: Callable[[], io.BufferedReader]
    skip: bool = False


class TableFormat(Protocol):
    """A file format of tables."""

    name: str
    suffix: str

    def check(self, file: SourceFile, columns: Columns) -> None:
        """Raise DataError if a column to translate is missing, or a column to add exists."""
        ...

    def read(
        self, file: SourceFile, columns: Columns, first_row: int, limit: BlockLimit
    ) -> Iterator[BlockRows]:
        """Yield the rows of a file in blocks, starting with the row of index ``first_row``."""
        ...

    def write(self, rows: BlockRows, columns: Columns, cells: Sequence[Sequence[TranslatedText]]) -> bytes:
        """Return the bytes of the part with the rows and their translations, ``cells`` (columns, rows)."""
        ...


class _Line(NamedTuple):
    """A line as read, its number (from 1), the share of the file read so far, and why it is not text."""

    content: bytes
    number: int
    share: float
    problem: str | None = None

    def text(self, file: SourceFile) -> tuple[str, str | None]:
        """Return the text of the line without LF or CR LF, and the reason if the line is not text."""
        if self.problem:
            return "", self.problem
        try:
            text = self.content.decode("utf-8-sig" if self.number == 1 else "utf-8")
            return text.removesuffix("\n").removesuffix("\r"), None
        except UnicodeDecodeError as error:
            problem = f"{file.name}: line {self.number} is not UTF-8 at byte {error.start + 1}"
        if not file.skip:
            raise DataError(problem)
        return "", problem


class TextFormat:
    """One text per line; parts contain only the translations, line by line."""

    name, suffix = "text", ".txt"

    def check(self, file: SourceFile, columns: Columns) -> None:
        for line in islice(_lines(file, 0), 1):  # fails if the file cannot be opened
            line.text(file)

    def read(
        self, file: SourceFile, columns: Columns, first_row: int, limit: BlockLimit
    ) -> Iterator[BlockRows]:
        for start, lines in _blocks(file, first_row, limit):
            decoded = [line.text(file) for line in lines]
            texts = [text.replace("\r", " ") for text, _ in decoded]
            problems = {(0, index): problem for index, (_, problem) in enumerate(decoded) if problem}
            yield BlockRows(start, len(lines), [texts], lines[-1].share, problems=problems)

    def write(self, rows: BlockRows, columns: Columns, cells: Sequence[Sequence[TranslatedText]]) -> bytes:
        texts = ((cell.text or "").replace("\n", " ").replace("\r", " ") for cell in cells[0])
        return "".join(f"{text}\n" for text in texts).encode()


class _RawRow(NamedTuple):
    """The bytes of a row as read: an object without its closing brace, or a blank line."""

    content: memoryview
    is_object: bool


class JsonLinesFormat:
    """One JSON object per line; the original text is kept, and the new keys are appended to it."""

    name, suffix = "jsonl", ".jsonl"

    def check(self, file: SourceFile, columns: Columns) -> None:
        for line in _lines(file, 0):
            row, _ = _json_object(line, file)
            if row is None:
                continue
            for source in columns.sources:
                if source not in row:
                    keys = ", ".join(row) or "none"
                    raise DataError(f"{file.name}: no column {quoted(source)}; its columns: {keys}")
            for name in columns.names():
                if name in row:
                    raise DataError(
                        f"{file.name}: it already has a column {name}; choose another name with --column "
                        "NAME=OTHER"
                    )
            return

    def read(
        self, file: SourceFile, columns: Columns, first_row: int, limit: BlockLimit
    ) -> Iterator[BlockRows]:
        for start, lines in _blocks(file, first_row, limit):
            yield self._rows(file, columns, start, lines)

    def _rows(self, file: SourceFile, columns: Columns, start: int, lines: list[_Line]) -> BlockRows:
        texts: list[list[str | None]] = [[] for _ in columns.columns]
        problems: dict[tuple[int, int], str] = {}
        content, keys = [], list[str]()
        for index, line in enumerate(lines):
            row, problem = _json_object(line, file)
            content.append(_RawRow(_without_brace(line, bool(problem)), row is not None or bool(problem)))
            for column_index, column in enumerate(columns.columns):
                value = (row or {}).get(column.source)
                if value is not None and not isinstance(value, str):
                    problems[column_index, index] = f"{column.source} holds {quoted(value)}, not text"
                    value = None
                elif problem:
                    problems[column_index, index] = problem
                texts[column_index].append(value)
            if columns.key:
                keys.append(_key((row or {}).get(columns.key)))
        return BlockRows(start, len(lines), texts, lines[-1].share, content, problems, keys)

    def write(self, rows: BlockRows, columns: Columns, cells: Sequence[Sequence[TranslatedText]]) -> bytes:
        chunks: list[bytes | memoryview] = []
        assert isinstance(rows.content, list)
        for index, row in enumerate(rows.content):
            chunks.append(row.content)
            if row.is_object:
                added_columns = [
                    f"{json.dumps(name, ensure_ascii=False)}: {_json(value)}"
                    for column, translated_texts in zip(columns.columns, cells, strict=True)
                    for name, value in columns.new_values(column, translated_texts[index])
                ]
                comma = b"" if row.content[-1:] == b"{" else b", "
                chunks.append(comma + ", ".join(added_columns).encode() + b"}")
            chunks.append(b"\n")
        return b"".join(chunks)


def _key(value: object) -> str:
    """Return a value of a key column as text; an empty string if it is not a string or integer."""
    return str(value) if isinstance(value, str | int) else ""


def _json(value: str | float | None) -> str:
    """Return a value as JSON; lone surrogates, which UTF-8 cannot encode, are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if any("\ud800" <= letter <= "\udfff" for letter in text) else text


def _json_object(line: _Line, file: SourceFile) -> tuple[dict[str, Any] | None, str | None]:
    """Return the object of a line (None for a blank or invalid line), and the problem of an invalid line."""
    text, problem = line.text(file)
    if problem or not text.strip():
        return None, problem
    try:
        value = json.loads(text)
        if isinstance(value, dict):
            return value, None
        problem = f"{file.name}: line {line.number} is not a JSON object: {quoted(text)}"
    except (ValueError, RecursionError):
        problem = f"{file.name}: line {line.number} is not JSON: {quoted(text)}"
    if not file.skip:
        raise DataError(problem)
    return None, problem


def _without_brace(line: _Line, is_bad: bool) -> memoryview:
    """Return a view of the bytes of an object without its closing brace; ``{`` for an invalid line."""
    if is_bad:
        return memoryview(b"{")
    content, start = line.content, 3 * (line.number == 1 and line.content.startswith(b"\xef\xbb\xbf"))
    end = len(content)
    while end > start and content[end - 1] in b" \t\r\n":
        end -= 1
    if end > start and content[end - 1] in b"}":
        end -= 1
        while content[end - 1] in b" \t\r\n":
            end -= 1
        return memoryview(content)[start:end]
    return memoryview(content.removesuffix(b"\n").removesuffix(b"\r"))[start:]


def _blocks(file: SourceFile, first_row: int, limit: BlockLimit) -> Iterator[tuple[int, list[_Line]]]:
    """Yield blocks of lines, starting at index ``first_row``, each with the index of its first line."""
    block: list[_Line] = []
    try:
        for line in _lines(file, first_row):
            block.append(line)
            if limit.ends_after(len(line.content)):
                yield first_row, block
                first_row, block = first_row + len(block), []
    except DataError:
        if file.skip and block:
            yield first_row, block
        raise
    if block:
        yield first_row, block


def _lines(file: SourceFile, first_row: int) -> Iterator[_Line]:
    """Yield the lines, starting at index ``first_row``."""
    line_number = 0
    stream = file.open()
    try:
        with open_decompressed(stream, file.name) as content:
            while raw_line := content.readline(MAX_ROW_BYTES):
                line_number += 1
                problem = None
                if len(raw_line) == MAX_ROW_BYTES and not raw_line.endswith(b"\n"):
                    problem = (
                        f"{file.name}: line {line_number} is longer than {MAX_ROW_BYTES >> 20} MB; is it "
                        "text?"
                    )
                    if not file.skip:
                        raise DataError(problem)
                    while raw_line and not raw_line.endswith(b"\n"):
                        raw_line = content.readline(MAX_ROW_BYTES)
                if line_number > first_row:
                    yield _Line(raw_line, line_number, min(1.0, stream.tell() / max(1, file.size)), problem)
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise damage_error(file.name, error, f"after line {line_number}") from None
    finally:
        stream.close()


class ParquetFormat:
    """Parquet files; all columns are kept, and the new columns are appended."""

    name, suffix = "parquet", ".parquet"

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

    def read(
        self, file: SourceFile, columns: Columns, first_row: int, limit: BlockLimit
    ) -> Iterator[BlockRows]:
        with file.open() as content:
            table = self._open(file, content)
            self._check_schema(table.schema_arrow, file.name, columns)
            total, row = table.metadata.num_rows, first_row
            block: list[Any] = []
            try:
                for batch in self._batches(table, first_row):
                    start = 0
                    for end, size in enumerate(self._sizes(batch), start=1):
                        if limit.ends_after(size):
                            block.append(batch.slice(start, end - start))
                            yield self._rows(block, table.schema_arrow, columns, row, total)
                            row, block, start = row + sum(part.num_rows for part in block), [], end
                    if start < batch.num_rows:
                        block.append(batch.slice(start))
                if block:
                    yield self._rows(block, table.schema_arrow, columns, row, total)
            except (DataError, GeneratorExit):
                raise
            except (OSError, ValueError, self._arrow.ArrowException) as error:
                if file.skip and block:
                    yield self._rows(block, table.schema_arrow, columns, row, total)
                raise DataError(
                    f"{file.name}: damaged or incomplete Parquet file: {reason(error)} (after row {row}); "
                    "download it again"
                ) from None

    def write(self, rows: BlockRows, columns: Columns, cells: Sequence[Sequence[TranslatedText]]) -> bytes:
        arrow: Any = self._arrow
        table: Any = rows.content
        for column, translated_texts in zip(columns.columns, cells, strict=True):
            values = [dict(columns.new_values(column, cell)) for cell in translated_texts]
            for name, _ in columns.new_values(column, TranslatedText(None)):
                is_number = name in (f"{column.target}_score", f"{column.target}_memory")
                value_type = arrow.float64() if is_number else arrow.string()
                table = table.append_column(name, arrow.array([value[name] for value in values], value_type))
        file = io.BytesIO()
        arrow.parquet.write_table(table, file, row_group_size=max(1, rows.count))
        return file.getvalue()

    def _open(self, file: SourceFile, content: io.BufferedReader) -> Any:
        try:
            return self._arrow.parquet.ParquetFile(content, pre_buffer=False, buffer_size=PAGE_BYTES)
        except (OSError, ValueError, self._arrow.ArrowException) as error:
            raise DataError(f"{file.name}: not a Parquet file: {reason(error)}") from None

    def _check_schema(self, schema: Any, name: str, columns: Columns) -> None:
        types = self._arrow.types
        existing_names = list(schema.names)
        for source in columns.sources:
            if existing_names.count(source) != 1:
                problem = "no column" if source not in existing_names else "several columns"
                raise DataError(
                    f"{name}: {problem} {quoted(source)}; its columns: {', '.join(existing_names)}"
                )
        for column in columns.columns:
            column_type = schema.field(column.source).type
            value_type = column_type.value_type if types.is_dictionary(column_type) else column_type
            if not (
                types.is_string(value_type) or types.is_large_string(value_type) or types.is_null(value_type)
            ):
                raise DataError(f"{name}: the column {column.source} holds {column_type}, not text")
        for new_name in columns.names():
            if new_name in existing_names:
                raise DataError(
                    f"{name}: it already has a column {new_name}; choose another name with --column "
                    "NAME=OTHER"
                )

    def _batches(self, table: Any, first_row: int) -> Iterator[Any]:
        """Yield batches, starting at row ``first_row``, without reading the row groups before it."""
        for group_index in range(table.metadata.num_row_groups):
            group = table.metadata.row_group(group_index)
            if first_row >= group.num_rows:
                first_row -= group.num_rows
                continue
            mean_row_bytes = max(1, group.total_byte_size // max(1, group.num_rows))
            rows = max(1, min(BATCH_ROWS, BATCH_BYTES // mean_row_bytes))
            for batch in table.iter_batches(rows, row_groups=[group_index], use_threads=False):
                skipped_rows = min(first_row, batch.num_rows)
                first_row -= skipped_rows
                if skipped_rows < batch.num_rows:
                    yield batch.slice(skipped_rows)

    def _sizes(self, batch: Any) -> list[int]:
        """Return the size of each row (rows,): the lengths of strings, and a constant for other values."""
        compute, types = self._arrow.compute, self._arrow.types
        sizes = [BYTES_PER_VALUE * batch.num_columns] * batch.num_rows
        for array in batch.columns:
            column_type = array.type
            if (
                types.is_string(column_type)
                or types.is_large_string(column_type)
                or types.is_binary(column_type)
            ):
                lengths = compute.binary_length(array).to_pylist()
                sizes = [size + (length or 0) for size, length in zip(sizes, lengths, strict=True)]
        return sizes

    def _rows(
        self, batches: list[Any], schema: Any, columns: Columns, first_row: int, total: int
    ) -> BlockRows:
        table = self._arrow.Table.from_batches(batches, schema).combine_chunks()
        texts = [table.column(column.source).to_pylist() for column in columns.columns]
        keys = [_key(value) for value in table.column(columns.key).to_pylist()] if columns.key else ()
        share = (first_row + table.num_rows) / max(1, total)
        return BlockRows(first_row, table.num_rows, texts, share, table, keys=keys)


TABLE_FORMATS: Mapping[str, Callable[[], TableFormat]] = {
    "parquet": ParquetFormat,
    "jsonl": JsonLinesFormat,
    "text": TextFormat,
}


def find_format(
    location: str, files: Sequence[StoredFile], name: str | None
) -> tuple[TableFormat, list[StoredFile]]:
    """Return the format of an input and its data files.

    Files and folders whose names begin with ``_`` or ``.`` are skipped: other programs use them as markers.
    If the input is a single file with an unknown suffix, its format is plain text.

    Args:
        location: name of the input, for messages.
        files: all files of the input.
        name: the format; None to infer it from the suffixes. Files of other formats are skipped.
    """
    if name is not None:
        check_choice("format", name, get_args(FormatName))
    data_files = [file for file in files if not any(part[:1] in "_." for part in file.name.split("/"))]
    if not data_files:
        raise DataError(f"{location}: no such file, or a folder without files")
    formats = {file.name: _format_by_suffix(file.name) for file in data_files}
    if len(files) == 1 and is_file_name(location, data_files[0]):
        [inferred_format] = formats.values()
        return TABLE_FORMATS[name or inferred_format or "text"](), data_files
    inferred_names = sorted(
        {inferred_format for inferred_format in formats.values() if inferred_format is not None}
    )
    if not inferred_names:
        raise DataError(
            f"{location}: unknown format: no file name ends in {', '.join(SUFFIX_FORMATS)}; the first is "
            f"{data_files[0].name}"
        )
    format_list = " and ".join(inferred_names)
    if name is None and len(inferred_names) > 1:
        raise DataError(
            f"{location}: the folder contains files of the formats {format_list}; choose one with --format "
            f"{inferred_names[0]}"
        )
    if name is not None and name not in inferred_names:
        raise DataError(f"{location}: the folder contains no {name} files, only {format_list}")
    format_name = name or inferred_names[0]
    return TABLE_FORMATS[format_name](), [file for file in data_files if formats[file.name] == format_name]


def is_file_name(location: str, file: StoredFile) -> bool:
    """Return whether a location names the file itself, not a folder that contains it."""
    return PurePosixPath(location).name == file.name


def _format_by_suffix(name: str) -> str | None:
    path = PurePosixPath(name.lower())
    return SUFFIX_FORMATS.get((path.with_suffix("") if path.suffix in COMPRESSED_SUFFIXES else path).suffix)

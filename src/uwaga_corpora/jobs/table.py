"""Jobs over tables: columns of Parquet or JSON Lines files, or lines of text files, of any size."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from uwaga.errors import DataError, SettingsError
from uwaga.files.store import FileStore, LocalStore, StoredFile, StoreRefusedError, open_store
from uwaga.languages.detection import AUTO
from uwaga_corpora.jobs.engine import (
    Block,
    DamagedFile,
    DamagedInputError,
    EncodedPart,
    InputRecord,
    Job,
    Manifest,
    Position,
    SkippedFile,
    part_sizes,
)
from uwaga_corpora.jobs.table_formats import (
    BlockLimit,
    BlockRows,
    Columns,
    SourceFile,
    TableFormat,
    TextColumn,
    find_format,
    is_file_name,
)
from uwaga_corpora.jobs.translation import Setting, Task, TranslatedText, TranslationSpec

PART_BYTES = 1 << 24
"""Number of bytes of rows after which a part ends, whatever its number of rows."""


def batch_job(
    source: str,
    target: str,
    spec: TranslationSpec,
    columns: Columns,
    *,
    format_name: str | None = None,
    part_rows: int = 10_000,
    skip: bool = False,
) -> TableJob:
    """Create a job that translates columns of a table and writes parts with the same rows.

    Args:
        source: a file, a folder or a URL.
        target: a folder or a URL, new or of the same job.
        spec: how to translate.
        columns: the columns to translate; none for plain text.
        format_name: ``parquet``, ``jsonl`` or ``text``; None to infer it from the file names.
        part_rows: maximum number of rows of a part.
        skip: whether an unreadable line becomes an error of its row, and a damaged file is read only up to
            its damage; otherwise both stop the job. It may be changed when a job is resumed.

    Raises:
        DataError: there is nothing to read, or a column is missing.
        SettingsError: source and target overlap, or columns are given for plain text.
        ModelError: there is no such model.
        MissingExtraError: a needed library is not installed.
    """
    if spec.load.source == AUTO:
        raise SettingsError(
            "--from auto is not supported, because a table may mix languages: give the language with --from"
        )
    source_store, target_store = open_store(source), open_store(target)
    if source_store.contains(target_store) or target_store.contains(source_store):
        raise SettingsError(
            f"the output {target_store.name} and the input {source_store.name} overlap: one is inside the "
            "other; write the parts to another folder"
        )
    if isinstance(target_store, LocalStore) and target_store.path.exists() and not target_store.path.is_dir():
        raise DataError(f"{target_store.name}: this is a file; OUT must be a folder for the parts")
    format_, files = find_format(source_store.name, source_store.files(), format_name)
    table = TableSource(source_store, format_, tuple(files), _checked_columns(format_, columns))
    return TableJob(table, target_store, spec, part_rows, skip)


@dataclass(frozen=True)
class TableSource:
    """The files of a table, and the columns to translate."""

    store: FileStore
    format: TableFormat
    files: tuple[StoredFile, ...]
    columns: Columns


class TableJob(Job):
    """A job over the files of a table; see :func:`batch_job`."""

    def __init__(
        self, table: TableSource, target: FileStore, spec: TranslationSpec, part_rows: int, skip: bool
    ) -> None:
        self.source, self.format, self.columns, self.skip = table.store, table.format, table.columns, skip
        self.files, self.part_bytes = table.files, PART_BYTES
        self.suffix = self.format.suffix
        self._check_columns()
        columns = table.columns
        settings: dict[str, Setting] = {
            "columns": tuple(f"{column.source}={column.target}" for column in columns.columns),
            "score": columns.score,
            "alignment": columns.alignment,
            "key": columns.key or None,
        }
        record = InputRecord(
            name=self.source.name,
            format=self.format.name,
            files=len(self.files),
            bytes=sum(file.size for file in self.files),
            sha256=_listing_sha256(self.files),
        )
        super().__init__(target, spec, "batch", settings, record, part_rows)

    def read(self, start: Position) -> Iterator[Block]:
        part_number, first_file, first_row = start
        for index in range(first_file, len(self.files)):
            size = self.files[index].size
            start_row = first_row if index == first_file else 0
            limit = BlockLimit(part_sizes(part_number, self.manifest.part_rows), self.part_bytes)
            try:
                for rows in self.format.read(
                    self._source_file(self.files[index]), self.columns, start_row, limit
                ):
                    position = Position(part_number, index, rows.first)
                    share = self.share_before(position) + rows.share * size / max(1, self._bytes)
                    yield Block(position, rows.count, _task(part_number, rows), share, rows)
                    part_number += 1
            except StoreRefusedError:
                raise
            except DataError as error:
                if not self.skip:
                    raise DamagedInputError(error, self._damaged_file(index)) from None
                name = self.files[index].name
                self.skipped[index] = SkippedFile(file=index, name=name, reason=str(error))

    def encode(self, block: Block, translated_texts: list[TranslatedText]) -> EncodedPart:
        rows: BlockRows = block.content
        remaining_translations = iter(translated_texts)
        cells = [
            [next(remaining_translations) if text else TranslatedText(text) for text in column]
            for column in rows.texts
        ]
        for (column, row), error in rows.problems.items():
            cells[column][row] = TranslatedText(None, error=error)
        return EncodedPart(
            self.format.write(rows, self.columns, cells),
            empty=sum(not text for column in rows.texts for text in column) - len(rows.problems),
            cut=[
                rows.first + index + 1
                for column in cells
                for index, cell in enumerate(column)
                if cell.truncated
            ],
            failures=[
                (rows.first + index + 1, cell.error)
                for column in cells
                for index, cell in enumerate(column)
                if cell.error
            ],
        )

    def share_before(self, start: Position) -> float:
        return sum(file.size for file in self.files[: start.file]) / max(1, self._bytes)

    def check_unchanged(self) -> None:
        sizes = {file.name: file.size for file in self.source.files()}
        for file in self.files:
            if sizes.get(file.name) != file.size:
                raise DataError(
                    f"{self.source.name}/{file.name}: the file changed while it was read; start again in "
                    "a new folder"
                )

    def with_repairs(self, started_manifest: Manifest) -> Manifest:
        damaged = started_manifest.damaged
        if damaged is None or self.manifest.input.sha256 == started_manifest.input.sha256:
            return started_manifest
        files_before, files_after = self.files[: damaged.file], self.files[damaged.file :]
        is_removed = (damaged.before, damaged.after) == (
            _listing_sha256(files_before),
            _listing_sha256(files_after),
        )
        if not is_removed and (not files_after or damaged != self._damaged_file(damaged.file)):
            return started_manifest  # other files changed too: another input
        parts = {name: part for name, part in started_manifest.parts.items() if part.file < damaged.file}
        return started_manifest.model_copy(
            update={"input": self.manifest.input, "parts": parts, "finished": False}
        )

    def _check_columns(self) -> None:
        """Check the columns of the first file or, with ``skip``, of the first file that has the columns."""
        for index, file in enumerate(self.files):
            try:
                self.format.check(self._source_file(file), self.columns)
                return
            except StoreRefusedError:
                raise
            except DataError:
                if not self.skip or index == len(self.files) - 1:
                    raise

    @property
    def _bytes(self) -> int:
        return self.manifest.input.bytes or 0

    def _source_file(self, file: StoredFile) -> SourceFile:
        name = self.source.name
        name = name if is_file_name(name, file) else f"{name}/{file.name}"
        return SourceFile(name, file.size, lambda: self.source.open(file.name), self.skip)

    def _damaged_file(self, index: int) -> DamagedFile:
        files_before, files_after = self.files[:index], self.files[index + 1 :]
        return DamagedFile(
            file=index,
            name=self.files[index].name,
            before=_listing_sha256(files_before),
            after=_listing_sha256(files_after),
        )


def _checked_columns(format_: TableFormat, columns: Columns) -> Columns:
    """Return the columns after checking them, or the only column of plain text."""
    if format_.name != "text":
        if not columns.columns:
            raise SettingsError(
                f"{format_.name} files have columns: choose which to translate with --column NAME"
            )
        columns.names()
        return columns
    if columns.columns or columns.score or columns.alignment or columns.key:
        raise SettingsError(
            "plain text has no columns: leave out --column, --score, --alignment and --key, or use JSON Lines"
        )
    return Columns((TextColumn("line", "translation"),))


def _task(part_number: int, rows: BlockRows) -> Task:
    """Return the task with the texts to translate, column by column."""
    numbers, texts, keys = list[int](), list[str](), list[str]()
    for column in rows.texts:
        for index, text in enumerate(column):
            if text:
                numbers.append(rows.first + index + 1)
                texts.append(text)
                keys += rows.keys[index : index + 1]
    return Task(part_number, "row", numbers, texts, [], keys)


def _listing_sha256(files: Sequence[StoredFile]) -> str:
    """Return the SHA-256 of the names and sizes of files."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name}\0{file.size}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()

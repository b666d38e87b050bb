"""The files of a corpus and their rows: aligned texts, TSV, Moses, TMX, Parquet, JSON Lines.

Files are read as streams, plain or compressed, from a disk or a URL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import NamedTuple, NoReturn

from uwaga.data.columns import Cells, NumberedRow, json_rows, parquet_rows, select_columns
from uwaga.data.report import Fault
from uwaga.data.tmx import tmx_rows
from uwaga.errors import DataError
from uwaga.files.lines import read_lines
from uwaga.files.store import is_url
from uwaga.settings import CorpusSettings

COMPRESSION_SUFFIXES = ("", ".gz", ".zst", ".xz", ".bz2")
FORMATS_BY_SUFFIX = {
    ".tsv": "tsv",
    ".tmx": "tmx",
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
"""Formats by file name suffix, after removal of a compression suffix."""
_END_MARKER = b"\n"  # differs from every line, which contains no line feed


class Row(NamedTuple):
    """A row of a corpus.

    Attributes:
        cells: source, target and further references, as text or undecoded UTF-8, or the fault of the row.
        number: number of the line, row or unit in its file, counted from 1.
        file: index of the file.
    """

    cells: Cells | Fault
    number: int
    file: int


class Sources(NamedTuple):
    """The resolved files of a corpus and their format; the format ``text`` is a source and a target file."""

    files: tuple[str, ...]
    format: str
    corpus: CorpusSettings

    @property
    def name(self) -> str:
        """The file names, joined with ``+``, for messages."""
        return " + ".join(self.files)

    def rows(self) -> Iterator[Row]:
        """Yield the rows of all files in order."""
        if self.format == "text":
            yield from self._aligned_rows()
            return
        read = _READERS[self.format]
        for index, file in enumerate(self.files):
            for number, cells in read(file, self.corpus):
                yield Row(cells, number, index)

    def _aligned_rows(self) -> Iterator[Row]:
        sides = [read_lines(path) for path in self.files]
        for number, (source, target) in enumerate(zip_longest(*sides, fillvalue=_END_MARKER), start=1):
            if _END_MARKER in (source, target):
                remaining_count = sum(1 for _ in sides[0 if target == _END_MARKER else 1])
                self._raise_misaligned(
                    number - 1, number + remaining_count, longer_side=0 if target == _END_MARKER else 1
                )
            yield Row("line over 1 MiB" if source is None or target is None else (source, target), number, 0)

    def _raise_misaligned(self, smaller_count: int, larger_count: int, longer_side: int) -> NoReturn:
        counts = (larger_count, smaller_count) if longer_side == 0 else (smaller_count, larger_count)
        raise DataError(
            f"the files are not aligned: {self.files[0]} has {counts[0]} lines, {self.files[1]} has "
            f"{counts[1]}; line n of one must translate line n of the other"
        )


def find_sources(corpus: CorpusSettings) -> Sources:
    """Resolve the files of a corpus, and determine their format.

    Two files are aligned texts unless both have the suffix of the same format; a single file without such a
    suffix is TSV; a single path that is not a file is a Moses prefix.
    """
    files = corpus.files
    format_ = _format_by_names(files) if corpus.format == "auto" else corpus.format
    if format_ == "auto":
        format_ = "moses" if len(files) == 1 and not is_url(files[0]) and not _exists(files[0]) else "tsv"
    if format_ == "moses":
        if len(files) != 1:
            raise DataError(f"{' + '.join(files)}: give one Moses prefix, not {len(files)} paths")
        languages = corpus.languages or ("src", "tgt")
        return Sources(tuple(_moses_side(files[0], language) for language in languages), "text", corpus)
    if format_ == "text" and len(files) != 2:
        raise DataError(f"{' + '.join(files)}: give two aligned files, not {len(files)}, or set format")
    for file in files:
        if not is_url(file) and not _exists(file):
            raise DataError(f"{file}: no such file")
    return Sources(tuple(files), format_, corpus)


def check_rereadable(sources: Sources) -> None:
    """Check that no file is a pipe or device, because training and other jobs read a corpus several times."""
    for file in sources.files:
        if not is_url(file) and not Path(file).is_file():
            raise DataError(
                f"{file}: is a pipe or a device, but a corpus is read several times; write it to a file first"
            )


def _format_by_names(files: tuple[str, ...]) -> str:
    formats = {_format_by_suffix(file) for file in files}
    if len(formats) == 1 and (format_ := formats.pop()):
        return format_
    if len(files) == 2:
        return "text"
    if len(files) > 2:
        raise DataError(
            f"{' + '.join(files)}: the suffixes of the files indicate different formats; write a separate "
            f"entry for each corpus, or set format"
        )
    return "auto"


def _format_by_suffix(file: str) -> str:
    suffixes = [suffix.lower() for suffix in PurePosixPath(file).suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSION_SUFFIXES:
        suffixes.pop()
    return FORMATS_BY_SUFFIX.get(suffixes[-1], "") if suffixes else ""


def _exists(file: str) -> bool:
    path = Path(file)
    return path.exists() and not path.is_dir()


def _moses_side(prefix: str, language: str) -> str:
    stem = f"{prefix}.{language}"
    if is_url(prefix):
        return stem
    for suffix in COMPRESSION_SUFFIXES:
        if Path(stem + suffix).is_file():
            return stem + suffix
    raise DataError(
        f"{prefix}: neither a file nor a Moses prefix: there is no file {stem}, with or without a "
        f"compression suffix ({', '.join(COMPRESSION_SUFFIXES[1:])}); check the path and data.languages"
    )


def _tsv_rows(file: str, corpus: CorpusSettings) -> Iterator[NumberedRow]:
    lines = read_lines(file)
    columns = [column - 1 for column in corpus.columns if isinstance(column, int)]
    first_number = 1
    if corpus.columns and not columns:
        header = (next(lines, b"") or b"").decode("utf-8", "replace").split("\t")
        columns = [header.index(column) for column in select_columns(file, corpus, header)]
        first_number = 2
    for number, line in enumerate(lines, start=first_number):
        if line is None:
            yield number, "line over 1 MiB"
            continue
        cells = tuple(line.split(b"\t"))
        if not columns:
            yield number, cells
        elif max(columns[:2]) >= len(cells):
            yield number, "missing column" if line.strip() else "empty source"
        else:
            yield number, tuple(cells[column] for column in columns if column < len(cells))


_READERS: dict[str, Callable[[str, CorpusSettings], Iterator[NumberedRow]]] = {
    "tsv": _tsv_rows,
    "tmx": tmx_rows,
    "parquet": parquet_rows,
    "jsonl": json_rows,
}

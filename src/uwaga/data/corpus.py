"""Parallel corpora, streamed: TSV files, pairs of aligned files, Moses prefixes."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple, NoReturn

from uwaga.data.lines import read_lines
from uwaga.data.report import CorpusReport, Fault
from uwaga.errors import DataError
from uwaga.settings import DataSettings

__all__ = ["CorpusReport", "Pair", "PairReader", "corpus_files", "read_pairs"]

ENDINGS = ("", ".gz", ".zst", ".xz")
_END = b"\n"  # no line holds it


class Pair(NamedTuple):
    """A source, its reference translations (at least one), and the number of its line, from 1."""

    source: str
    references: tuple[str, ...]
    line: int


class PairReader(Iterator[Pair]):
    """The pairs of a corpus, read as they are asked for; nothing is opened before the first."""

    def __init__(self, paths: Sequence[Path], settings: DataSettings, report: CorpusReport) -> None:
        self.files = corpus_files(paths, settings.languages)
        self.report = report
        report.name = " + ".join(str(path) for path in self.files)
        self._stop = settings.bad_lines == "stop"
        self._pairs = self._read()

    def __next__(self) -> Pair:
        return next(self._pairs)

    def close(self) -> None:
        """Close the files before the end has been reached."""
        self._pairs.close()

    def drop(self, fault: Fault, line: int) -> None:
        """Leave out a pair that has been read; raises DataError under ``bad_lines='stop'``."""
        self.report.kept -= 1
        self._refuse(fault, line)

    def _refuse(self, fault: Fault, line: int) -> None:
        if self._stop:
            raise DataError(
                f"{' + '.join(map(str, self.files))}, line {line}: {fault} (data.bad_lines is 'stop'; "
                "mend the line, or set it to 'skip' to leave such lines out)"
            )
        self.report.add(fault, line)

    def _read(self) -> Generator[Pair, None, None]:
        for number, cells in enumerate(self._rows(), start=1):
            self.report.read = number
            pair = self._pair(cells, number)
            if isinstance(pair, Pair):
                self.report.kept += 1
                yield pair
            else:
                self._refuse(pair, number)
        if not self.report.kept:
            raise DataError("no usable sentence pair in " + "; ".join(self.report.summary()))

    def _rows(self) -> Iterator[tuple[bytes, ...] | None]:
        """The cells of each line, None where a line is too long to hold."""
        if len(self.files) == 1:
            for line in read_lines(self.files[0]):
                yield None if line is None else tuple(line.split(b"\t"))
            return
        sides = [read_lines(path) for path in self.files]
        for number, (source, target) in enumerate(zip_longest(*sides, fillvalue=_END), start=1):
            if _END in (source, target):
                more = sum(1 for _ in sides[0 if target == _END else 1])
                self._misaligned(number - 1, number + more, longer=0 if target == _END else 1)
            yield None if source is None or target is None else (source, target)

    def _misaligned(self, short: int, long: int, longer: int) -> NoReturn:
        counts = (long, short) if longer == 0 else (short, long)
        raise DataError(
            f"the files are not aligned: {self.files[0]} has {counts[0]} lines, {self.files[1]} has "
            f"{counts[1]}; line n of one must translate line n of the other"
        )

    def _pair(self, cells: tuple[bytes, ...] | None, number: int) -> Pair | Fault:
        if cells is None:
            return "line over 1 MiB"
        if len(cells) < 2:
            return "missing column" if cells[0].strip() else "empty source"
        try:
            source, *references = (cell.decode("utf-8") for cell in cells)
        except UnicodeDecodeError:
            return "bad UTF-8"
        if not source.strip():
            return "empty source"
        if not references[0].strip():
            return "empty target"
        if any("\0" in text for text in (source, *references)):
            return "NUL character"
        return Pair(source, (references[0], *(text for text in references[1:] if text.strip())), number)


def read_pairs(paths: Sequence[Path], settings: DataSettings, report: CorpusReport) -> PairReader:
    """Stream the pairs of a corpus, counting what is wrong with it in ``report``.

    Args:
        paths: one TSV file (source TAB target [TAB more references]), a source file and a target file,
            or one Moses prefix: ``prefix.en`` and ``prefix.de`` for ``settings.languages`` en and de.
            Plain, gzip, zstd or xz.
        settings: ``languages`` and ``bad_lines`` are used.
        report: filled while the pairs are read.

    Raises:
        DataError: a missing, binary, cut or damaged file; files of unequal line counts; no usable pair;
            with ``bad_lines='stop'``, the first bad line.
    """
    return PairReader(paths, settings, report)


def corpus_files(paths: Sequence[Path], languages: tuple[str, str]) -> tuple[Path, ...]:
    """The files that the paths of a corpus name: one TSV, or a source and a target file.

    Raises:
        DataError: a file is missing.
    """
    if len(paths) == 2:
        for path in paths:
            if not path.is_file():
                raise DataError(f"{path}: no such file")
        return tuple(paths)
    (path,) = paths
    if path.is_file():
        return (path,)
    return tuple(_moses_side(path, language) for language in languages)


def _moses_side(prefix: Path, language: str) -> Path:
    stem = prefix.with_name(f"{prefix.name}.{language}")
    for ending in ENDINGS:
        if (path := stem.with_name(stem.name + ending)).is_file():
            return path
    raise DataError(
        f"{prefix}: neither a file nor a Moses prefix: there is no {stem}, nor with "
        f"{', '.join(ENDINGS[1:])} after it; check the path and data.languages"
    )

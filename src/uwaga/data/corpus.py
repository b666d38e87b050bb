"""Streaming of the sentence pairs of a parallel corpus, and counting of its faulty lines."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

from uwaga.data.columns import Cells, cell_text
from uwaga.data.guide import LinkFile, Links
from uwaga.data.report import CorpusReport, Fault
from uwaga.data.sources import find_sources
from uwaga.errors import DataError
from uwaga.settings import CorpusSettings

__all__ = ["CorpusReport", "Pair", "PairReader", "read_corpus"]


class Pair(NamedTuple):
    """A source, its references (at least one), its line number, counted from 1, and its word links."""

    source: str
    references: tuple[str, ...]
    line: int
    links: Links = ()


class PairReader(Iterator[Pair]):
    """An iterator over the pairs of a corpus; it opens the files when the first pair is read."""

    def __init__(self, corpus: CorpusSettings, report: CorpusReport, links: LinkFile | None = None) -> None:
        self.corpus, self.links = corpus, links
        self._sources = find_sources(corpus)
        self.files, self.format = self._sources.files, self._sources.format
        self.report = report
        report.name = self._sources.name
        self._stops_at_fault = corpus.bad_lines == "stop"
        self._pairs = self._read()

    def __next__(self) -> Pair:
        return next(self._pairs)

    def close(self) -> None:
        """Close the files."""
        self._pairs.close()

    def drop(self, fault: Fault, line: int) -> None:
        """Count as dropped a pair that was already read; raise DataError if ``bad_lines`` is ``stop``."""
        self.report.kept -= 1
        self._reject(fault, line)

    def _reject(self, fault: Fault, line: int) -> None:
        if self._stops_at_fault:
            raise DataError(
                f"{self._sources.name}, line {line}: {fault} (data.bad_lines is 'stop'; "
                "fix the line, or set data.bad_lines to 'skip' to drop such lines)"
            )
        self.report.add(fault, line)

    def _read(self) -> Generator[Pair, None, None]:
        links = None if self.links is None else self.links.lines()
        for cells, line, _ in self._sources.rows():
            self.report.read += 1
            if links is not None:
                links.advance(self._sources.name)
            pair = _parse_row(cells, line)
            if isinstance(pair, Pair):
                self.report.kept += 1
                yield (
                    pair
                    if links is None
                    else pair._replace(links=links.links(pair.source, pair.references[0]))
                )
            else:
                self._reject(pair, line)
        if links is not None:
            links.finish(self._sources.name)
        if not self.report.kept:
            raise DataError("no usable sentence pair in " + "; ".join(self.report.summary()))


def _parse_row(cells: Cells | Fault, line: int) -> Pair | Fault:
    if isinstance(cells, str):
        return cells
    if len(cells) < 2:
        return "missing column" if cells[0].strip() else "empty source"
    try:
        source, *references = (cell_text(cell) for cell in cells)
    except UnicodeError:
        return "bad UTF-8"
    if not source.strip():
        return "empty source"
    if not references[0].strip():
        return "empty target"
    if any("\0" in text for text in (source, *references)):
        return "NUL character"
    return Pair(source, (references[0], *(text for text in references[1:] if text.strip())), line)


def read_corpus(
    corpus: CorpusSettings, report: CorpusReport | None = None, links: LinkFile | None = None
) -> PairReader:
    """Return an iterator over the pairs of a corpus, which counts faulty lines in ``report``.

    Args:
        corpus: settings of the corpus. ``files``, ``format``, ``columns``, ``languages`` (``src`` and ``tgt``
            by default) and ``bad_lines`` (``skip`` by default) are used; ``DataSettings.resolve`` fills in
            the values set for all corpora. ``filters`` are not applied here, but when a store is built.
        report: report to update while the pairs are read; a new one by default.
        links: file of word alignments, in which line n belongs to line n of the corpus, or None.

    Raises:
        DataError: a file is missing, binary, truncated or damaged; files have different numbers of lines; a
            column is missing; there is no usable pair; there is a bad line and ``bad_lines`` is ``stop``;
            alignments do not match the pairs.
        MissingExtraError: the library of the format, the compression or the URL is not installed.
    """
    return PairReader(corpus, CorpusReport() if report is None else report, links)

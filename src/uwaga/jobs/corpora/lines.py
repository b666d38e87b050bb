"""What a job reads: lines of a corpus or of plain text, each kept in its place whatever is wrong with it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from uwaga.data.columns import BREAKS, Cells, cell_text
from uwaga.data.report import Fault
from uwaga.data.sources import Sources, check_rereadable, find_sources
from uwaga.errors import DataError, SettingsError
from uwaga.files.lines import read_lines
from uwaga.settings import CorpusSettings


class JobLine(NamedTuple):
    """A line of the input: its number, from 1, its text and the references beside it.

    ``fault`` says why it cannot be worked on, None where it can. An empty line is no fault: it stays empty.
    """

    number: int
    text: str
    references: tuple[str, ...] = ()
    fault: Fault | None = None


class InputIdentity(NamedTuple):
    """What was read: how many lines, how many of them with references, and the SHA-256 of all."""

    lines: int
    referenced: int
    sha256: str


@dataclass(frozen=True)
class JobInput:
    """A corpus or text that can be read again and again; ``files`` are its own, for messages."""

    files: tuple[str, ...]
    read: Callable[[], Iterator[JobLine]]

    def identify(self) -> InputIdentity:
        """Read it once through, which finds every damage before any work is done.

        The sum is over the decompressed lines, so that files may be moved and compressed.

        Raises:
            DataError: a file is missing, binary, damaged or cut, or two are not aligned; or there is no line.
        """
        digest = hashlib.sha256()
        lines = referenced = 0
        for line in self.read():
            cells = (line.fault or "", line.text, *line.references)
            digest.update("\t".join(cells).encode("utf-8", "surrogatepass") + b"\n")
            lines += 1
            referenced += bool(line.references)
        if not lines:
            raise DataError(f"{' + '.join(self.files)}: there is no line in it")
        return InputIdentity(lines, referenced, digest.hexdigest())


def corpus_input(corpus: Path, reference: Path | None, languages: tuple[str, str]) -> JobInput:
    """Sources with the references that there are.

    Args:
        corpus: a corpus of any format that training reads (TSV of source and references, TMX, JSON Lines,
            Parquet), a file of sources alone, or the prefix of a Moses corpus; plain or compressed, or a URL.
        reference: a file of references, line by line with ``corpus``, which is then of sources alone.
        languages: endings of a Moses corpus; columns of a table.

    Raises:
        DataError: a file is missing, or none that can be read again.
    """
    try:
        if reference is None:
            sources = find_sources(CorpusSettings(files=(str(corpus),), languages=languages))
        else:
            files = (str(corpus), str(reference))
            sources = find_sources(CorpusSettings(files=files, format="text", languages=languages))
    except DataError as error:  # which speaks to the writer of a settings file
        raise DataError(str(error).replace("data.languages", "its languages (--from, --to)")) from None
    check_rereadable(sources)
    return JobInput(sources.files, partial(_lines, partial(_cells, sources)))


def text_input(files: Sequence[Path], column: int = 0) -> JobInput:
    """Files of text, one after the other.

    Args:
        files: one or more; plain, gzip, zstd or xz.
        column: of a TSV, the one with the text, from 1; 0 for the whole line.

    Raises:
        DataError: a file is missing.
        SettingsError: there is none, or no such column can be.
    """
    if not files:
        raise SettingsError("no file of text to work on")
    if column < 0:
        raise SettingsError(f"column {column}: columns count from 1; 0 is the whole line")
    for path in files:
        if not path.is_file():
            raise DataError(f"{path}: no such file")
    return JobInput(tuple(map(str, files)), partial(_lines, partial(_texts, files, column)))


def _cells(sources: Sources) -> Iterator[Cells | Fault]:
    return (row.cells for row in sources.rows())


def _texts(files: Sequence[Path], column: int) -> Iterator[Cells | Fault]:
    for path in files:
        for number, line in enumerate(read_lines(path), start=1):
            if line is None or not column:
                yield "line over 1 MiB" if line is None else (line,)
                continue
            cells = line.split(b"\t")
            if len(cells) < column:
                raise DataError(f"{path}: line {number} has {len(cells)} columns, no column {column}")
            yield (cells[column - 1],)


def _lines(rows: Callable[[], Iterator[Cells | Fault]]) -> Iterator[JobLine]:
    return (_line(number, cells) for number, cells in enumerate(rows(), start=1))


def _line(number: int, cells: Cells | Fault) -> JobLine:
    if isinstance(cells, str):
        return JobLine(number, "") if cells == "empty source" else JobLine(number, "", fault=cells)
    try:
        text, *references = (BREAKS.sub(" ", cell_text(cell)) for cell in cells)
    except UnicodeError:
        return JobLine(number, "", fault="bad UTF-8")
    if any("\0" in one for one in (text, *references)):
        return JobLine(number, "", fault="NUL character")
    return JobLine(number, text, tuple(one for one in references if one.strip()))

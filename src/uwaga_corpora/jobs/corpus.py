"""Jobs over corpora: training pairs from the machine translation of source or target lines.

Distillation (:mod:`uwaga_corpora.jobs.distillation`) pairs source lines with a teacher's translations.
Back-translation (Sennrich 2016) pairs lines of the target language with sources translated from them: the
target is text that people wrote, so the decoder learns from it. With much text, sampled sources are more
useful than the best translations (Edunov 2018), and a tag at their start lets the model distinguish them from
real sources (Caswell 2019).

Line n of the parts is line n of the input, even if it cannot be translated.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from uwaga.checkpoints import registry as formats
from uwaga.data.columns import BREAKS_AND_TABS, Cells, cell_text
from uwaga.data.report import Fault
from uwaga.data.sources import check_rereadable, find_sources
from uwaga.errors import DataError, SettingsError, quoted
from uwaga.files.atomic import new_file
from uwaga.files.lines import check_compression, open_compressed, read_lines
from uwaga.files.store import LocalStore
from uwaga.library.hub import find_model
from uwaga.settings import CorpusSettings
from uwaga.settings.corpora import MAX_TAG_LENGTH
from uwaga_corpora.jobs.distillation import TargetChoice
from uwaga_corpora.jobs.engine import (
    Block,
    EncodedPart,
    InputRecord,
    Job,
    Manifest,
    Position,
    part_sizes,
)
from uwaga_corpora.jobs.translation import Setting, Task, TranslatedText, TranslationSpec

_BREAKS = str.maketrans("\t\n\r", "   ")


class CorpusLine(NamedTuple):
    """A line of the input: its number, counted from 1, its text and its references.

    ``fault`` says why the line cannot be translated; it is None for all other lines, including empty lines,
    which stay empty.
    """

    number: int
    text: str
    references: tuple[str, ...] = ()
    fault: Fault | None = None


class CorpusIdentity(NamedTuple):
    """The number of lines of an input, the number of lines with references, and the SHA-256 of all lines."""

    lines: int
    lines_with_references: int
    sha256: str


@dataclass(frozen=True)
class CorpusInput:
    """A corpus or text that can be read repeatedly; ``files`` are the names of its files for messages."""

    files: tuple[str, ...]
    read: Callable[[], Iterator[CorpusLine]]

    def identify(self) -> CorpusIdentity:
        """Return the identity of the input, which is read once to detect any damage before the job starts.

        The SHA-256 is computed from the decompressed lines, so files may be moved and compressed.

        Raises:
            DataError: a file is missing, binary, damaged or truncated, two files are not aligned, or there
                are no lines.
        """
        digest = hashlib.sha256()
        lines = referenced = 0
        for line in self.read():
            cells = (line.fault or "", line.text, *line.references)
            digest.update("\t".join(cells).encode("utf-8", "surrogatepass") + b"\n")
            lines += 1
            referenced += bool(line.references)
        if not lines:
            raise DataError(f"{' + '.join(self.files)}: the input has no lines")
        return CorpusIdentity(lines, referenced, digest.hexdigest())


def corpus_input(corpus: Path, reference: Path | None, languages: tuple[str, str]) -> CorpusInput:
    """Return the source lines of a corpus with their references, if any.

    Args:
        corpus: a corpus of any format that training reads (TSV of source and references, TMX, JSON Lines,
            Parquet), a file of sources alone, or the prefix of a Moses corpus; plain, compressed or a URL.
        reference: a file of references aligned with ``corpus``, which then contains only sources.
        languages: file name suffixes of a Moses corpus; columns of a table.

    Raises:
        DataError: a file is missing, or cannot be read twice.
    """
    try:
        if reference is None:
            sources = find_sources(CorpusSettings(files=(str(corpus),), languages=languages))
        else:
            files = (str(corpus), str(reference))
            sources = find_sources(CorpusSettings(files=files, format="text", languages=languages))
    except DataError as error:  # its advice is for a settings file
        raise DataError(str(error).replace("data.languages", "its languages (--from, --to)")) from None
    check_rereadable(sources)
    return CorpusInput(sources.files, partial(_corpus_lines, lambda: (row.cells for row in sources.rows())))


def text_input(files: Sequence[Path], column: int = 0) -> CorpusInput:
    """Return the lines of text files, one file after the other.

    Args:
        files: the files, at least one; plain, gzip, zstd or xz.
        column: column of TSV files that contains the text, counted from 1; 0 for the complete line.

    Raises:
        DataError: a file is missing.
        SettingsError: there are no files, or the column is negative.
    """
    if not files:
        raise SettingsError("no text file was given")
    if column < 0:
        raise SettingsError(f"column {column}: columns are counted from 1, and 0 is the whole line")
    for path in files:
        if not path.is_file():
            raise DataError(f"{path}: no such file")
    return CorpusInput(tuple(map(str, files)), partial(_corpus_lines, partial(_text_cells, files, column)))


def distil_job(
    folder: Path,
    spec: TranslationSpec,
    corpus: Path,
    reference: Path | None = None,
    part_rows: int = 10_000,
) -> CorpusJob:
    """Create a job that translates the sources of a corpus with teacher models.

    Args:
        folder: the folder for the parts.
        spec: the teachers, with a ``choice``.
        corpus: as in :func:`corpus_input`.
        reference: as in :func:`corpus_input`.
        part_rows: maximum number of lines of a part.

    Raises:
        DataError: the input cannot be read, or lacks the references by which targets are chosen.
        ModelError: there is no such model.
        SettingsError: an option is invalid.
    """
    choice = spec.choice or TargetChoice()
    spec = replace(spec, choice=choice)
    source = corpus_input(corpus, reference, _suffixes(spec))
    identity = source.identify()
    if choice.choose == "reference" and not identity.lines_with_references:
        raise DataError(
            f"{' + '.join(source.files)}: no references to choose by; give a TSV of source and "
            "reference, or --reference FILE, or use --choose mbr or --choose model, which need none"
        )
    return CorpusJob(folder, "distil", spec, source, identity, part_rows, {})


def backtranslate_job(
    folder: Path,
    spec: TranslationSpec,
    text: Sequence[Path],
    *,
    column: int = 0,
    tag: str = "",
    part_rows: int = 10_000,
) -> CorpusJob:
    """Create a job that translates text in the target language into the source language.

    Args:
        folder: the folder for the parts.
        spec: the model of the opposite direction.
        text: as in :func:`text_input`.
        column: as in :func:`text_input`.
        tag: first word of every source, such as ``<BT>``; empty for none.
        part_rows: maximum number of lines of a part.

    Raises:
        DataError: the text cannot be read.
        ModelError: there is no such model.
        SettingsError: the tag is not a single word, or the column is negative.
    """
    check_tag(tag)
    spec.select_models().locations()  # reports a missing model before the text is read
    source = text_input(text, column)
    settings: dict[str, Setting] = {"tag": tag, "column": column}
    return CorpusJob(folder, "backtranslate", spec, source, source.identify(), part_rows, settings)


class CorpusJob(Job):
    """A job over the lines of a corpus; see :func:`distil_job` and :func:`backtranslate_job`."""

    suffix = ".tsv.gz"

    def __init__(
        self,
        folder: Path,
        kind: Literal["distil", "backtranslate"],
        spec: TranslationSpec,
        source: CorpusInput,
        identity: CorpusIdentity,
        part_rows: int,
        settings: dict[str, Setting],
    ) -> None:
        self.folder, self.input = folder, source
        self._lines, self._tag = identity.lines, str(settings.get("tag", ""))
        record = InputRecord(
            name=" + ".join(source.files), format="lines", lines=identity.lines, sha256=identity.sha256
        )
        super().__init__(LocalStore(folder), spec, kind, settings, record, part_rows)

    def read(self, start: Position) -> Iterator[Block]:
        lines = islice(self.input.read(), start.row, None)
        sizes, part_number, end = part_sizes(start.number, self.manifest.part_rows), start.number, start.row
        while end < self._lines:
            first_row, size = end, next(sizes)
            part = list(islice(lines, size))
            end = first_row + len(part)
            if end != min(self._lines, first_row + size):
                raise DataError(
                    f"{self.manifest.input.name}: the input changed while it was read; run the command again"
                )
            yield Block(
                Position(part_number, 0, first_row),
                len(part),
                self._task(part_number, part),
                end / self._lines,
                part,
            )
            part_number += 1

    def encode(self, block: Block, translated_texts: list[TranslatedText]) -> EncodedPart:
        remaining_translations = iter(translated_texts)
        pairs: list[tuple[str, str]] = []
        failures: list[tuple[int, str]] = []
        cut: list[int] = []
        lines: list[CorpusLine] = block.content
        for line in lines:
            text, error = "", self._fault(line)
            if error is None and line.text.strip():
                result = next(remaining_translations)
                text, error = result.text or "", result.error
                cut += [line.number] if result.truncated else []
                if error is None and not text.strip():
                    error = f"line {line.number}: the translation is empty"
            if error is not None:
                failures.append((line.number, error))
                text = ""
            pairs.append(self._pair(line, text))
        buffer = io.BytesIO()
        with open_compressed(Path(self.part_name(0)), buffer) as file:
            for source, target in pairs:
                file.write(f"{source.translate(_BREAKS)}\t{target.translate(_BREAKS)}\n".encode())
        return EncodedPart(
            buffer.getvalue(),
            empty=sum(line.fault is None and not line.text.strip() for line in lines),
            cut=cut,
            failures=failures,
        )

    def share_before(self, start: Position) -> float:
        return start.row / self._lines

    def _task(self, part_number: int, lines: Sequence[CorpusLine]) -> Task:
        usable_lines = [line for line in lines if self._fault(line) is None and line.text.strip()]
        return Task(
            part_number,
            "line",
            [line.number for line in usable_lines],
            [line.text for line in usable_lines],
            [list(line.references) for line in usable_lines],
        )

    def _fault(self, line: CorpusLine) -> str | None:
        """Return the reason why a line cannot be translated, or None if it can."""
        if line.fault is not None:
            return f"line {line.number}: {line.fault}"
        choice = self.spec.choice
        if choice is None or choice.choose != "reference" or line.references or not line.text.strip():
            return None
        return f"line {line.number} has no reference to choose by"

    def _pair(self, line: CorpusLine, translation: str) -> tuple[str, str]:
        """Return the pair of a line, with an empty side if its translation failed."""
        if self.manifest.kind == "distil":
            return line.text, translation
        source = translation.strip()
        return f"{self._tag} {source}" if self._tag and source else source, line.text


def check_join(job: CorpusJob, path: Path) -> None:
    """Check that the parts of a job can be joined into a file without overwriting a file of the job.

    Raises:
        SettingsError: the file is the input, or is in the job's folder.
        DataError: the folder of the file does not exist.
        MissingExtraError: the name of the file ends in .zst, and zstandard is not installed.
    """
    resolved_path = path.resolve()
    if resolved_path in [Path(name).resolve() for name in job.input.files]:
        raise SettingsError(f"{path} is the input: join the parts into another file")
    if resolved_path.is_relative_to(job.folder.resolve()):
        raise SettingsError(f"{path} is in the folder of the parts: choose a file outside {job.folder}")
    if not resolved_path.parent.is_dir():
        raise DataError(f"{path}: cannot be written: there is no folder {resolved_path.parent}")
    check_compression(path)


def join_parts(folder: Path, manifest: Manifest, path: Path) -> None:
    """Write all parts of a finished job into one file, compressed if it ends in ``.gz``, ``.zst`` or ``.xz``.

    Raises:
        DataError: a part cannot be read, or the file cannot be written.
        MissingExtraError: the name of the file ends in .zst, and zstandard is not installed.
    """
    check_compression(path)
    with new_file(path) as file, open_compressed(path, file) as output:
        for name in manifest.parts:
            try:
                with gzip.open(folder / name, "rb") as part:
                    shutil.copyfileobj(part, output, 1 << 20)
            except (EOFError, zlib.error, gzip.BadGzipFile, FileNotFoundError) as error:
                raise DataError(
                    f"{folder / name}: cannot be read ({error}); delete it and run the same command again"
                ) from None


def check_tag(tag: str) -> None:
    """Check that a tag is a single word.

    Raises:
        SettingsError: the tag has white space, unprintable characters, or too many characters.
    """
    if tag and (tag.split() != [tag] or not tag.isprintable() or len(tag) > MAX_TAG_LENGTH):
        raise SettingsError(
            f"tag {quoted(tag)}: must be one word without spaces, of {MAX_TAG_LENGTH} characters or fewer, "
            "such as <BT>"
        )


def _suffixes(spec: TranslationSpec) -> tuple[str, str]:
    """Return the suffixes of the files of a Moses corpus: the requested languages, or the first model's."""
    languages = formats.describe(find_model(spec.models[0])).languages
    codes = [
        language or (available_languages[0] if len(available_languages) == 1 else "")
        for language, available_languages in zip(
            (spec.load.source, spec.load.target), languages or ((), ()), strict=True
        )
    ]
    return codes[0] or "src", codes[1] or "tgt"


def _text_cells(files: Sequence[Path], column: int) -> Iterator[Cells | Fault]:
    for path in files:
        for line_number, line in enumerate(read_lines(path), start=1):
            if line is None or not column:
                yield "line over 1 MiB" if line is None else (line,)
                continue
            cells = line.split(b"\t")
            if len(cells) < column:
                raise DataError(
                    f"{path}: line {line_number} has no column {column}; its last column is {len(cells)}"
                )
            yield (cells[column - 1],)


def _corpus_lines(rows: Callable[[], Iterator[Cells | Fault]]) -> Iterator[CorpusLine]:
    return (_corpus_line(line_number, cells) for line_number, cells in enumerate(rows(), start=1))


def _corpus_line(line_number: int, cells: Cells | Fault) -> CorpusLine:
    if isinstance(cells, str):
        return (
            CorpusLine(line_number, "")
            if cells == "empty source"
            else CorpusLine(line_number, "", fault=cells)
        )
    try:
        text, *references = (BREAKS_AND_TABS.sub(" ", cell_text(cell)) for cell in cells)
    except UnicodeError:
        return CorpusLine(line_number, "", fault="bad UTF-8")
    if any("\0" in cell for cell in (text, *references)):
        return CorpusLine(line_number, "", fault="NUL character")
    return CorpusLine(line_number, text, tuple(cell for cell in references if cell.strip()))

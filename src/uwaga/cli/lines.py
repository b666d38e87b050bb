"""Reading of command-line input in chunks of lines or pairs, and atomic writing of output files."""

from __future__ import annotations

import contextlib
import io
import os
import queue
import shlex
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from itertools import chain, zip_longest
from pathlib import Path
from typing import IO, Annotated, NamedTuple

import typer

from uwaga.errors import DataError, SettingsError
from uwaga.files.lines import MAX_LINE_LENGTH, check_compression, open_compressed, read_lines
from uwaga.translator.memories import TextContext

CHUNK_LINES = 1024
"""Lines per chunk: enough to sort into batches of even length, few enough for output to appear soon."""

MIN_CHUNK_LINES, CHUNK_SECONDS = 16, 1.0
"""Initial lines per chunk on a terminal, and the target duration of a chunk in seconds."""

STANDARD_INPUT = "standard input"
TEXTS_ONLY: ContextVar[bool] = ContextVar("texts_only", default=False)
"""True if ``--`` on the command line marks the arguments after it as texts."""

DEMONSTRATION = (
    "note: the bundled model is a small demonstration for short everyday sentences (uwaga info bundled); "
    "choose another with --model"
)
"""Note printed with translations by the bundled model."""


class Chunk(NamedTuple):
    """Consecutive lines.

    Attributes:
        first: the number of the first line, from 1.
        lines: the lines.
        context: the texts before and after the lines; None if they are not known.
    """

    first: int
    lines: list[str]
    context: TextContext | None = None

    def names(self, unit: str) -> list[str]:
        """Return the name of each line for error messages: ``unit`` and its number, such as ``line 7``."""
        return [f"{unit} {number}" for number in range(self.first, self.first + len(self.lines))]

    def without(self, count: int) -> Chunk:
        """Return the chunk without its first ``count`` lines."""
        context = self.context
        if context is not None:
            context = context._replace(before=_first_text(reversed(self.lines[:count])) or context.before)
        return Chunk(self.first + count, self.lines[count:], context)


class ChunkSize:
    """The number of lines per chunk on a terminal, adjusted so that a chunk takes about one second.

    The progress bar then moves steadily. The size of chunks does not affect the output.
    """

    def __init__(self) -> None:
        self.lines = MIN_CHUNK_LINES

    def adjust(self, seconds: float) -> None:
        """Adjust the number of lines per chunk to the time that the last chunk took."""
        if seconds > CHUNK_SECONDS:
            self.lines = max(MIN_CHUNK_LINES, self.lines // 2)
        elif seconds < CHUNK_SECONDS / 2:
            self.lines = min(CHUNK_LINES, 2 * self.lines)


def input_chunks(
    texts: list[str] | None, path: Path | None, chunk_size: ChunkSize | None = None
) -> Iterator[Chunk]:
    """Return the texts of the command line, or else the lines of a file or of standard input, in chunks."""
    if texts and path is not None:
        raise SettingsError("give texts or --input, not both")
    if texts:
        _check_not_files(texts)
        return iter([Chunk(1, texts)])
    if path is not None:
        return file_chunks(path, chunk_size)
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write("Type a line and press Enter; press Ctrl-D to finish.\n")
    return standard_input_chunks()


def is_complete(texts: list[str] | None, path: Path | None) -> bool:
    """Return True if the complete input is available: texts or a regular file, not a pipe or a terminal."""
    if texts:
        return True
    try:
        status = os.fstat(sys.stdin.fileno()) if path is None else path.stat()
    except (AttributeError, OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode)


def with_contexts(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Add to each chunk the texts before and after it; yield it once the text after it has been read."""
    waiting_chunks, context = list[Chunk](), TextContext()
    try:
        for chunk in chunks:
            if text_after := _first_text(chunk.lines):
                yield from (
                    waiting_chunk._replace(context=context._replace(after=text_after))
                    for waiting_chunk in waiting_chunks
                )
                lines = (
                    line
                    for waiting_chunk in reversed(waiting_chunks)
                    for line in reversed(waiting_chunk.lines)
                )
                waiting_chunks, context = [], TextContext(before=_first_text(lines))
            waiting_chunks.append(chunk)
    except DataError:
        yield from (waiting_chunk._replace(context=context) for waiting_chunk in waiting_chunks)
        raise
    yield from (waiting_chunk._replace(context=context) for waiting_chunk in waiting_chunks)


def _first_text(lines: Iterable[str]) -> str:
    """Return the first line that is not blank."""
    return next((line for line in lines if line.strip()), "")


def _check_not_files(texts: list[str]) -> None:
    if TEXTS_ONLY.get():
        return
    for text in texts:
        with contextlib.suppress(OSError, ValueError):  # not a valid path: too long, or contains NUL
            if Path(text).is_file():
                raise SettingsError(
                    f"{text!r} is a file: did you mean --input {shlex.quote(text)}? "
                    f"To translate the name itself, put -- before it: -- {shlex.quote(text)}"
                )


def file_chunks(path: Path, chunk_size: ChunkSize | None = None) -> Iterator[Chunk]:
    """Yield the lines of a plain or compressed file in chunks of :data:`CHUNK_LINES` or of ``chunk_size``."""
    return _decode_chunks(_batches(read_lines(path), chunk_size), str(path))


def standard_input_chunks() -> Iterator[Chunk]:
    """Yield the lines of standard input as they arrive, without waiting until a chunk is full.

    Each line typed by hand is a chunk; from a fast pipe, chunks have :data:`CHUNK_LINES` lines. A thread
    starts reading at this call, so that lines are collected while a model loads or translates.
    """
    return _decode_chunks(_read_ahead(_raw_lines(_standard_input())), STANDARD_INPUT)


@contextlib.contextmanager
def open_output(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes text, in UTF-8, to a new file or to standard output.

    The file is written atomically: after an error, the old file is unchanged, or there is no file. It is
    compressed if its name ends in .gz, .zst, .xz or .bz2. Text for standard output, a pipe or a device is
    flushed immediately.

    Args:
        path: the file, or None for standard output.
    """
    if path is None:
        yield _writer(getattr(sys.stdout, "buffer", None))
        return
    from uwaga.files.atomic import new_file

    check_compression(path)
    with new_file(path) as file, open_compressed(path, file) as output:
        yield _writer(file) if output is file else _writer(output, flush=False)


def _writer(file: IO[bytes] | None, flush: bool = True) -> Callable[[str], None]:
    def write(text: str) -> None:
        if file is None:  # standard output was replaced by a text-only stream
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        file.write(text.encode("utf-8"))
        if flush:
            file.flush()

    return write


def _standard_input() -> IO[bytes]:
    if sys.stdin is None:
        raise DataError("standard input is closed; give a text or a file")
    try:
        # A separate reader: the interpreter closes sys.stdin at exit, which would block while the thread is
        # reading from it.
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (OSError, ValueError, io.UnsupportedOperation):
        return sys.stdin.buffer


def _raw_lines(file: IO[bytes]) -> Iterator[bytes | None]:
    line_number = 0
    while line := file.readline(MAX_LINE_LENGTH):
        line_number += 1
        if line_number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if len(line) == MAX_LINE_LENGTH and not line.endswith(b"\n"):
            yield None
            return
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _batches(
    raw_lines: Iterable[bytes | None], chunk_size: ChunkSize | None = None
) -> Iterator[list[bytes | None]]:
    batch: list[bytes | None] = []
    try:
        for line in raw_lines:
            batch.append(line)
            if len(batch) >= (CHUNK_LINES if chunk_size is None else chunk_size.lines):
                yield batch
                batch = []
    except DataError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


class _End(NamedTuple):
    error: BaseException | None


def _read_ahead(raw_lines: Iterator[bytes | None]) -> Iterator[list[bytes | None]]:
    ready: queue.Queue[bytes | _End | None] = queue.Queue(maxsize=4 * CHUNK_LINES)

    def read() -> None:
        try:
            for line in raw_lines:
                ready.put(line)
        except BaseException as error:
            ready.put(_End(error))
        else:
            ready.put(_End(None))

    threading.Thread(target=read, daemon=True, name="uwaga-lines").start()
    return _drain(ready)


def _drain(ready: queue.Queue[bytes | _End | None]) -> Iterator[list[bytes | None]]:
    while True:
        batch: list[bytes | None] = []
        item = ready.get()
        while not isinstance(item, _End):
            batch.append(item)
            if len(batch) == CHUNK_LINES:
                break
            try:
                item = ready.get_nowait()
            except queue.Empty:
                break
        if batch:
            yield batch
        if isinstance(item, _End):
            if item.error is not None:
                raise item.error
            return


def _decode_chunks(batches: Iterator[list[bytes | None]], name: str) -> Iterator[Chunk]:
    first_number = 1
    for batch in batches:
        lines: list[str] = []
        for line_number, raw_line in enumerate(batch, start=first_number):
            try:
                lines.append(_decode(raw_line, f"{name}: line {line_number}"))
            except DataError:
                if lines:
                    yield Chunk(first_number, lines)
                raise
        yield Chunk(first_number, lines)
        first_number += len(batch)


def _decode(raw_line: bytes | None, location: str) -> str:
    if raw_line is None:
        raise DataError(
            f"{location} is too long to be a sentence; the input must be text, one sentence per line"
        )
    try:
        return raw_line.decode("utf-8").replace("\r", " ")  # otherwise the output would have an extra line
    except UnicodeDecodeError as error:
        raise DataError(f"{location} is not UTF-8 at byte {error.start + 1}") from None


MAX_FILES = 2
Files = Annotated[
    list[Path] | None,
    typer.Argument(
        help="One TSV of source and target, or two aligned files; TSV on standard input if omitted."
    ),
]


class Pairs(NamedTuple):
    """Consecutive sentence pairs, with the chunk of input lines that contains their sources."""

    chunk: Chunk
    pairs: list[tuple[str, str]]


def read_pairs(files: list[Path]) -> Iterator[Pairs]:
    """Yield the pairs of a TSV file or of two aligned files, or from standard input if no file is given."""
    if len(files) > MAX_FILES:
        raise SettingsError(
            f"{len(files)} files given: expected one TSV, or one file of sources and one of targets"
        )
    if len(files) == MAX_FILES:
        return _aligned_pairs(files[0], files[1])
    if files:
        return _columns(file_chunks(files[0]), str(files[0]))
    return _columns(standard_input_chunks(), STANDARD_INPUT)


def _columns(chunks: Iterator[Chunk], name: str) -> Iterator[Pairs]:
    for chunk in chunks:
        pairs = []
        for number, line in enumerate(chunk.lines, start=chunk.first):
            cells = line.split("\t")
            if len(cells) < 2:
                raise DataError(f"{name}: line {number} has no tab: put source, tab, target on a line")
            pairs.append((cells[0], cells[1]))
        yield Pairs(chunk, pairs)


def _aligned_pairs(source: Path, target: Path) -> Iterator[Pairs]:
    counts = [0, 0]
    for left, right in zip_longest(file_chunks(source), file_chunks(target)):
        counts = [
            count + (len(part.lines) if part else 0)
            for count, part in zip(counts, (left, right), strict=True)
        ]
        if counts[0] == counts[1]:
            yield Pairs(left, list(zip(left.lines, right.lines, strict=True)))
    if counts[0] != counts[1]:
        raise DataError(f"{source} has {counts[0]} lines but {target} has {counts[1]}: they must be aligned")


def language_sample(chunks: Iterator[Chunk]) -> tuple[list[str], Iterator[Chunk]]:
    """Return lines from which to detect the language, and an iterator over all chunks.

    The lines are those of the first chunk that contains a letter.
    """
    first_chunks: list[Chunk] = []
    for chunk in chunks:
        first_chunks.append(chunk)
        if any(character.isalpha() for line in chunk.lines for character in line):
            return chunk.lines, chain(first_chunks, chunks)
    if not first_chunks:
        raise DataError("the input is empty, so its language cannot be detected; give it with --from")
    return [], iter(first_chunks)

"""Input of the command line, in chunks of lines or pairs, and its output files, written atomically."""

from __future__ import annotations

import contextlib
import io
import queue
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from itertools import chain, zip_longest
from pathlib import Path
from typing import IO, Annotated, NamedTuple

import typer

from uwaga.errors import DataError, SettingsError
from uwaga.files.lines import LONGEST_LINE, check_compression, compressed, read_lines

CHUNK = 1024
"""Lines translated together: enough to be sorted into even batches, few enough for output to appear soon."""

FEWEST, SECONDS = 16, 1.0
"""Lines translated together at first on a terminal, and the seconds that a chunk should take."""

STANDARD_INPUT = "standard input"
TEXTS_ONLY: ContextVar[bool] = ContextVar("texts_only", default=False)
"""True if ``--`` on the command line marks the arguments after it as texts."""

DEMONSTRATION = (
    "note: the bundled model is a small demonstration for short everyday sentences (uwaga info bundled); "
    "name another with --model"
)
"""Printed with translations of the bundled model."""


class Chunk(NamedTuple):
    """Consecutive lines; ``first`` is the number of the first one, from 1."""

    first: int
    lines: list[str]

    def names(self, unit: str) -> list[str]:
        """Return the names of the lines for error messages: ``line 7`` and so on."""
        return [f"{unit} {number}" for number in range(self.first, self.first + len(self.lines))]

    def without(self, count: int) -> Chunk:
        """Return the chunk without its first lines."""
        return Chunk(self.first + count, self.lines[count:])


class Pace:
    """The size of chunks on a terminal: about one second's work, so that the progress bar moves.

    The output does not depend on it.
    """

    def __init__(self) -> None:
        self.lines = FEWEST

    def took(self, seconds: float) -> None:
        """Adjust the size to the time that the last chunk took."""
        if seconds > SECONDS:
            self.lines = max(FEWEST, self.lines // 2)
        elif seconds < SECONDS / 2:
            self.lines = min(CHUNK, 2 * self.lines)


def chunks_of(texts: list[str] | None, path: Path | None, pace: Pace | None = None) -> Iterator[Chunk]:
    """Return the texts of the command line, or the lines of a file, or else those of standard input."""
    if texts and path is not None:
        raise SettingsError("give texts or --input, not both")
    if texts:
        _check_not_files(texts)
        return iter([Chunk(1, texts)])
    if path is not None:
        return file_chunks(path, pace)
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write("Type a line and press Enter; Ctrl-D ends.\n")
    return standard_input_chunks()


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


def file_chunks(path: Path, pace: Pace | None = None) -> Iterator[Chunk]:
    """Yield the lines of a plain or compressed file in chunks of :data:`CHUNK` or of the size of ``pace``."""
    return _decoded(_heaps(read_lines(path), pace), str(path))


def standard_input_chunks() -> Iterator[Chunk]:
    """Yield the lines of standard input as they arrive, without waiting for more.

    A line typed by hand is a chunk of its own; a fast pipe gives chunks of :data:`CHUNK` lines. A thread
    reads ahead from this call on, so that lines are collected while a model loads or translates.
    """
    return _decoded(_arriving(_raw_lines(_standard_input())), STANDARD_INPUT)


@contextlib.contextmanager
def lines_out(path: Path | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes text, in UTF-8, to a new file or to standard output.

    The file is written atomically: after an error there is no file, or still the old one. It is compressed if
    its name ends in .gz, .zst, .xz or .bz2. Text for standard output, a pipe or a device is flushed at once.

    Args:
        path: the file, or None for standard output.
    """
    if path is None:
        yield _writer(getattr(sys.stdout, "buffer", None))
        return
    from uwaga.files.atomic import new_file

    check_compression(path)
    with new_file(path) as file, compressed(path, file) as packed:
        yield _writer(file) if packed is file else _writer(packed, flushed=False)


def _writer(file: IO[bytes] | None, flushed: bool = True) -> Callable[[str], None]:
    def write(text: str) -> None:
        if file is None:  # standard output was replaced by something that takes text only
            sys.stdout.write(text)
            sys.stdout.flush()
            return
        file.write(text.encode("utf-8"))
        if flushed:
            file.flush()

    return write


def _standard_input() -> IO[bytes]:
    if sys.stdin is None:
        raise DataError("standard input is closed; give a text or a file")
    try:
        # A reader of our own: the interpreter closes sys.stdin at its end, and could not do so while the
        # thread waits in it.
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (OSError, ValueError, io.UnsupportedOperation):
        return sys.stdin.buffer


def _raw_lines(file: IO[bytes]) -> Iterator[bytes | None]:
    number = 0
    while line := file.readline(LONGEST_LINE):
        number += 1
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            yield None
            return
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _heaps(raw: Iterable[bytes | None], pace: Pace | None = None) -> Iterator[list[bytes | None]]:
    heap: list[bytes | None] = []
    try:
        for line in raw:
            heap.append(line)
            if len(heap) >= (CHUNK if pace is None else pace.lines):
                yield heap
                heap = []
    except DataError:
        if heap:
            yield heap
        raise
    if heap:
        yield heap


class _End(NamedTuple):
    error: BaseException | None


def _arriving(raw: Iterator[bytes | None]) -> Iterator[list[bytes | None]]:
    ready: queue.Queue[bytes | _End | None] = queue.Queue(maxsize=4 * CHUNK)

    def read() -> None:
        try:
            for line in raw:
                ready.put(line)
        except BaseException as error:
            ready.put(_End(error))
        else:
            ready.put(_End(None))

    threading.Thread(target=read, daemon=True, name="uwaga-lines").start()
    return _drained(ready)


def _drained(ready: queue.Queue[bytes | _End | None]) -> Iterator[list[bytes | None]]:
    while True:
        heap: list[bytes | None] = []
        item = ready.get()
        while not isinstance(item, _End):
            heap.append(item)
            if len(heap) == CHUNK:
                break
            try:
                item = ready.get_nowait()
            except queue.Empty:
                break
        if heap:
            yield heap
        if isinstance(item, _End):
            if item.error is not None:
                raise item.error
            return


def _decoded(heaps: Iterator[list[bytes | None]], name: str) -> Iterator[Chunk]:
    first = 1
    for heap in heaps:
        lines: list[str] = []
        for number, raw in enumerate(heap, start=first):
            try:
                lines.append(_decode(raw, f"{name}: line {number}"))
            except DataError:
                if lines:
                    yield Chunk(first, lines)
                raise
        yield Chunk(first, lines)
        first += len(heap)


def _decode(raw: bytes | None, place: str) -> str:
    if raw is None:
        raise DataError(f"{place} is longer than any sentence; the input must be text, one sentence per line")
    try:
        return raw.decode("utf-8").replace("\r", " ")  # else readers of our output would see two lines
    except UnicodeDecodeError as error:
        raise DataError(f"{place} is not UTF-8 at byte {error.start + 1}") from None


MOST_FILES = 2
Files = Annotated[
    list[Path] | None,
    typer.Argument(
        help="One TSV of source and target, or two aligned files; TSV on standard input if omitted."
    ),
]


class Pairs(NamedTuple):
    """Consecutive pairs; ``chunk`` holds their source lines."""

    chunk: Chunk
    pairs: list[tuple[str, str]]


def pairs_of(files: list[Path]) -> Iterator[Pairs]:
    """Yield the pairs of a TSV, of two files, or if there are none of standard input."""
    if len(files) > MOST_FILES:
        raise SettingsError(
            f"{len(files)} files given: expected one TSV, or one file of sources and one of targets"
        )
    if len(files) == MOST_FILES:
        return _aligned(files[0], files[1])
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


def _aligned(source: Path, target: Path) -> Iterator[Pairs]:
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


def sample_of(chunks: Iterator[Chunk]) -> tuple[list[str], Iterator[Chunk]]:
    """Return the lines of the first chunk with letters, from which a language is detected, and all chunks."""
    seen: list[Chunk] = []
    for chunk in chunks:
        seen.append(chunk)
        if any(character.isalpha() for line in chunk.lines for character in line):
            return chunk.lines, chain(seen, chunks)
    if not seen:
        raise DataError("the input is empty, so its language cannot be detected; name it with --from")
    return [], iter(seen)

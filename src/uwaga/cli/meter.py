"""Progress bars on standard error, shown on terminals only."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.files.lines import COMPRESSED

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from uwaga.cli.lines import Chunk

SHARE_STEPS = 10_000

Update = Callable[[int, int], None]
"""Called with the progress, in units of the total, and the number of lines done."""


def duration(seconds: float) -> str:
    """Return a rounded duration: ``40 s``, ``12 min``, ``30 h``."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{round(seconds)} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h"


@contextlib.contextmanager
def meter(path: Path | None, verb: str) -> Iterator[Callable[[Chunk], None]]:
    """Yield a function to call with every finished chunk of ``path``.

    Nothing is shown without a file. For a compressed file, whose length in lines is unknown, only lines and
    time are shown.
    """
    if path is None:
        yield lambda chunk: None
        return
    total = None if path.suffix in COMPRESSED or not path.is_file() else path.stat().st_size
    read = 0
    with _bar(verb, total) as update:

        def advance(chunk: Chunk) -> None:
            nonlocal read
            read += sum(len(line.encode("utf-8")) + 1 for line in chunk.lines)
            update(read, chunk.first - 1 + len(chunk.lines))

        yield advance


@contextlib.contextmanager
def amount(paths: Sequence[Path], verb: str) -> Iterator[Update]:
    """Yield a function to call with the bytes and lines of some files that are done.

    For compressed files only lines and time are shown.
    """
    known = all(path.is_file() and path.suffix not in COMPRESSED for path in paths)
    with _bar(verb, sum(path.stat().st_size for path in paths) if known else None) as update:
        yield update


@contextlib.contextmanager
def counter(total: int, verb: str) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of lines done, of ``total``; nothing is shown for 0."""
    if not total:
        yield lambda done: None
        return
    with _bar(verb, total) as update:
        yield lambda done: update(done, done)


@contextlib.contextmanager
def share_meter(verb: str) -> Iterator[Callable[[float, int], None]]:
    """Yield a function to call with the share of the work done, from 0 to 1, and the number of lines."""
    with _bar(verb, SHARE_STEPS) as update:
        yield lambda share, lines: update(int(SHARE_STEPS * min(1.0, share)), lines)


@contextlib.contextmanager
def texts_meter(verb: str, unit: str = "lines") -> Iterator[Callable[[int, int], None]]:
    """Yield a function to call with the number of texts, or other units, done and their total."""
    with contextlib.ExitStack() as stack:
        bar: list[Update] = []

        def advance(done: int, total: int) -> None:
            if not bar:
                bar.append(stack.enter_context(_bar(verb, total, unit)))
            bar[0](done, done)

        yield advance


@contextlib.contextmanager
def transfer(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function to call with the bytes received and their total, if known."""
    if not sys.stderr.isatty():
        yield lambda now, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns: tuple[ProgressColumn, ...] = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=None)
        yield lambda now, total: progress.update(task, completed=now, total=total)


@contextlib.contextmanager
def _bar(verb: str, total: int | None, unit: str = "lines") -> Iterator[Update]:
    """Show a progress bar up to ``total``; nothing if standard error is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, lines: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns: tuple[ProgressColumn, ...] = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn(f"{{task.fields[lines]:,}} {unit}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(verb, total=total, lines=0)
        yield lambda done, lines: progress.update(task, completed=done, lines=lines)

"""Progress bars on standard error, shown only on terminals."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.files.lines import COMPRESSED_SUFFIXES

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from uwaga.cli.lines import Chunk

SHARE_STEPS = 10_000

Update = Callable[[int, int], None]
"""A function that receives the progress, in the unit of the total, and the number of processed lines."""


def duration(seconds: float) -> str:
    """Return a rounded duration: ``40 s``, ``12 min``, ``30 h``."""
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{round(seconds)} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h"


@contextlib.contextmanager
def meter(path: Path | None, verb: str) -> Iterator[Callable[[Chunk], None]]:
    """Show a progress bar, and yield a function to call with each finished chunk of ``path``.

    Without a file, there is no bar. For a compressed file, whose uncompressed size is unknown, only the
    number of lines and the time are shown.
    """
    if path is None:
        yield lambda chunk: None
        return
    total = None if path.suffix in COMPRESSED_SUFFIXES or not path.is_file() else path.stat().st_size
    read_bytes = 0
    with _bar(verb, total) as update:

        def advance(chunk: Chunk) -> None:
            nonlocal read_bytes
            read_bytes += sum(len(line.encode("utf-8")) + 1 for line in chunk.lines)
            update(read_bytes, chunk.first - 1 + len(chunk.lines))

        yield advance


@contextlib.contextmanager
def file_meter(paths: Sequence[Path], verb: str) -> Iterator[Update]:
    """Yield a function to call with the number of processed bytes and lines of files.

    For compressed files, only the number of lines and the time are shown.
    """
    has_sizes = all(path.is_file() and path.suffix not in COMPRESSED_SUFFIXES for path in paths)
    with _bar(verb, sum(path.stat().st_size for path in paths) if has_sizes else None) as update:
        yield update


@contextlib.contextmanager
def count_meter(total: int, verb: str) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of processed lines out of ``total``; for 0, show no bar."""
    if not total:
        yield lambda count: None
        return
    with _bar(verb, total) as update:
        yield lambda count: update(count, count)


@contextlib.contextmanager
def share_meter(verb: str) -> Iterator[Callable[[float, int], None]]:
    """Yield a function to call with the completed share, from 0 to 1, and the number of processed lines."""
    with _bar(verb, SHARE_STEPS) as update:
        yield lambda share, lines: update(int(SHARE_STEPS * min(1.0, share)), lines)


@contextlib.contextmanager
def texts_meter(verb: str, unit: str = "lines") -> Iterator[Callable[[int, int], None]]:
    """Yield a function to call with the number of processed texts, or other units, and their total."""
    with contextlib.ExitStack() as stack:
        bar: list[Update] = []

        def advance(count: int, total: int) -> None:
            if not bar:
                bar.append(stack.enter_context(_bar(verb, total, unit)))
            bar[0](count, count)

        yield advance


@contextlib.contextmanager
def transfer_meter(name: str) -> Iterator[Callable[[int, int | None], None]]:
    """Yield a function to call with the number of received bytes and the total, which is None if unknown."""
    if not sys.stderr.isatty():
        yield lambda received_bytes, total: None
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
        yield lambda received_bytes, total: progress.update(task, completed=received_bytes, total=total)


@contextlib.contextmanager
def _bar(verb: str, total: int | None, unit: str = "lines") -> Iterator[Update]:
    """Show a progress bar up to ``total`` if stderr is a terminal; yield a function that updates the bar."""
    if not sys.stderr.isatty():
        yield lambda completed_count, lines: None
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
        yield lambda completed_count, lines: progress.update(task, completed=completed_count, lines=lines)

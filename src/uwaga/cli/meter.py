"""A progress bar for a file, on standard error and only where somebody sees it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from uwaga.cli.lines import Chunk

COMPRESSED = (".gz", ".zst", ".xz")


@contextlib.contextmanager
def meter(path: Path | None, verb: str) -> Iterator[Callable[[Chunk], None]]:
    """A function to be called with every chunk of ``path`` that is done.

    Without a file, or where standard error is not a terminal, it shows nothing. How much of a compressed
    file is left is not known: then only lines and time are shown.
    """
    if path is None or not sys.stderr.isatty():
        yield lambda chunk: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[lines]:,} lines"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    total = None if path.suffix in COMPRESSED or not path.is_file() else path.stat().st_size
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(verb, total=total, lines=0)

        def advance(chunk: Chunk) -> None:
            size = sum(len(line.encode("utf-8")) + 1 for line in chunk.lines)
            progress.update(task, advance=size, lines=chunk.first - 1 + len(chunk.lines))

        yield advance

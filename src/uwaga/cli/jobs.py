"""What the verbs that write shards have in common: their options, and what is told on the way."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli.errors import INTERRUPTED
from uwaga.cli.meter import duration

if TYPE_CHECKING:
    from uwaga.jobs.corpora import Job, Manifest, ShardRecord
    from uwaga.jobs.corpora.lines import JobLine

NAMED = 20
"""Failures that are said one by one; the others are in the manifest."""

Shards = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        help="The folder for the shards, part-00000.tsv.gz and so on, and their manifest.json. The same "
        "command goes on with one that was stopped.",
        show_default=False,
    ),
]
ShardSize = Annotated[
    int, typer.Option(min=1, help="Lines of a shard: what a job that is killed does again, at most.")
]
Joined = Annotated[
    Path | None,
    typer.Option(
        "--join",
        help="At the end, all shards in one file too, compressed if called .gz, .zst or .xz.",
        show_default=False,
    ),
]
DrawSeed = Annotated[int, typer.Option("--seed", help="Of sampling: it and the text decide the draws.")]


def run(job: Job, joined: Path | None, verb: str) -> None:
    """Do a job, telling how far it is, and say what came of it.

    Raises:
        UwagaError: as :func:`uwaga.jobs.corpora.run_job`.
    """
    from uwaga.jobs.corpora import check_joined, join_shards, run_job

    if joined is not None:
        check_joined(job, joined)
    with _Teller(verb) as progress:
        try:
            manifest = run_job(job, progress)
        except KeyboardInterrupt:
            typer.echo(f"{job.folder} holds the shards that are done; the same command goes on", err=True)
            raise typer.Exit(INTERRUPTED) from None
    if joined is not None:
        join_shards(job.folder, manifest, joined)
    _summarise(job.folder if joined is None else joined, manifest)


class _Teller:
    """Tells how far a job is: a bar where somebody sees it, else a line for each shard."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._stack = contextlib.ExitStack()
        self._update: Callable[[int], None] = lambda done: None
        self._now = self._left = self._failed = 0
        self._started = time.monotonic()

    def __enter__(self) -> _Teller:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def begin(self, done: int, total: int) -> None:
        """So many lines of all were done before."""
        from uwaga.cli.meter import counter

        if done:
            typer.echo(f"going on: {done:,} of {total:,} lines are done", err=True)
        self._left = total - done
        self._started = time.monotonic()
        self._update = self._stack.enter_context(counter(self._left, self._verb))

    def advance(self, lines: int) -> None:
        """So many lines more are done."""
        self._now += lines
        self._update(self._now)

    def fail(self, line: JobLine, why: str) -> None:
        """A line could not be worked on."""
        self._failed += 1
        if self._failed <= NAMED:
            typer.echo(f"error: {why}; its pair is left without it", err=True)
        if self._failed == NAMED:
            typer.echo("more such lines are named in manifest.json alone", err=True)

    def finish_shard(self, name: str, record: ShardRecord) -> None:
        """A shard has been written."""
        if sys.stderr.isatty():
            return
        speed = self._now / max(time.monotonic() - self._started, 1e-9)
        left = (self._left - self._now) / max(speed, 1e-9)
        typer.echo(f"{name}: {record.lines:,} lines, {speed:,.0f} lines/s, {duration(left)} left", err=True)


def _summarise(place: Path, manifest: Manifest) -> None:
    """How many pairs there are, and what is wrong with the other lines."""
    lines, empty = manifest.total("lines"), manifest.total("empty")
    failed, cut = manifest.total("failed"), manifest.total("cut")
    notes = [f"{lines - empty - failed:,} pairs of {lines:,} lines"]
    notes += [f"{empty:,} empty"] if empty else []
    notes += [f"{failed:,} failed"] if failed else []
    notes += [f"{cut:,} cut at the length limit"] if cut else []
    typer.echo(f"{place}: {', '.join(notes)}", err=True)

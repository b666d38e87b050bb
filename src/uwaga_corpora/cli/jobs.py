"""Options and progress reports shared by the subcommands that run resumable jobs."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uwaga.cli import options
from uwaga.cli.errors import INTERRUPTED
from uwaga.cli.meter import duration, share_meter
from uwaga.cli.option_groups import Group
from uwaga.search.options import SearchOptions, SearchOverrides
from uwaga.settings.load_options import LoadOptions
from uwaga.translator.request import Request

if TYPE_CHECKING:
    from uwaga_corpora.jobs.corpus import CorpusJob
    from uwaga_corpora.jobs.engine import Job, Manifest, PartRecord

MAX_REPORTED_FAILURES = 20
"""Maximum number of failures that are reported individually; the manifest lists more."""
REPORT_INTERVAL = 10.0
"""Seconds between progress lines when there is no progress bar."""

Parts = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        help="Folder for the parts (part-00000.tsv.gz, ...) and their manifest.json. Rerun the same command "
        "to resume an interrupted job.",
    ),
]
PartRows = Annotated[
    int,
    typer.Option(
        min=1,
        help="Rows per part; after an interruption, at most this many per worker are translated again.",
    ),
]
Join = Annotated[
    Path | None,
    typer.Option(
        "--join",
        help="Also write all parts to this file at the end; compressed if its name ends in .gz, .zst or .xz.",
    ),
]
SamplingSeed = Annotated[int, typer.Option("--seed", help="Random seed for sampling.")]
CorpusSearch = Annotated[
    SearchOverrides,
    Group(
        SearchOptions,
        without=("nbest", "seed", "mbr", "utility", *options.DETAIL_OPTIONS, "batch_tokens"),
    ),
]
CorpusRequest = Annotated[dict[str, Any], Group(Request, names=("split",))]
CorpusLoad = Annotated[LoadOptions, Group(LoadOptions, without=("adapter",))]


class JobReporter:
    """A reporter of the progress of a job: a bar on a terminal, otherwise a line every ten seconds.

    Args:
        verb: the activity, such as ``translating``.
        unit: the word for a row of the input, such as ``line``.
    """

    def __init__(self, verb: str, unit: str) -> None:
        self._verb, self._unit = verb, unit
        self._stack = contextlib.ExitStack()
        self._update: Callable[[float, int], None] = lambda share, rows: None
        self._rows = self._texts = self._failed = 0
        self._share = self._initial_share = 0.0
        self._total: int | None = None
        self._start = self._report_time = time.monotonic()
        self._first_part: tuple[float, int] | None = None

    def __enter__(self) -> JobReporter:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def start(self, rows: int, share: float, total: int | None) -> None:
        """Start reporting; ``rows`` of ``total`` rows, a ``share`` of the input, are already finished."""
        if rows:
            typer.echo(f"resuming: {rows:,} {self._unit}s already done", err=True)
        self._share = self._initial_share = share
        self._total = total
        self._start = self._report_time = time.monotonic()
        self._update = self._stack.enter_context(share_meter(self._verb))

    def add_texts(self, count: int) -> None:
        """Count translated texts of an unfinished part."""
        self._texts += count
        shares_per_row = (self._share - self._initial_share) / self._rows if self._rows else 0.0
        shares_per_row = 1 / self._total if self._total else shares_per_row
        self._update(self._share + self._texts * shares_per_row, self._rows + self._texts)

    def finish_part(self, name: str, record: PartRecord, share: float) -> None:
        """Report a written part, after which ``share`` of the input is finished."""
        self._rows += record.rows
        self._texts = max(0, self._texts - record.rows)
        self._share = max(self._share, share)
        self._update(self._share, self._rows)
        now = time.monotonic()
        self._first_part = self._first_part or (now, self._rows)
        self._report_failures(name, record)
        if sys.stderr.isatty() or now - self._report_time < REPORT_INTERVAL:
            return
        self._report_time = now
        elapsed = max(now - self._start, 1e-9)
        remaining_seconds = elapsed * (1 - self._share) / max(self._share - self._initial_share, 1e-9)
        typer.echo(
            f"{self._rows:,} {self._unit}s, {self._rows / elapsed:,.0f} {self._unit}s/s, {self._share:.0%} "
            f"of the input, {duration(max(0.0, remaining_seconds))} left",
            err=True,
        )

    def summarise(self, destination: str, manifest: Manifest) -> None:
        """Print the number of rows and parts, the rows without a translation, and the speed."""
        notes = [f"{manifest.total('rows'):,} {self._unit}s in {len(manifest.parts):,} parts"]
        for name, label in (("empty", "empty"), ("failed", "failed"), ("cut", "cut at the length limit")):
            count = sum(int(getattr(part, name)) for part in manifest.parts.values())
            places = self._cut_rows(manifest) if name == "cut" else ""
            notes += [f"{count:,} {label}{places}"] if count else []
        for skipped_file in manifest.skipped:
            typer.echo(f"error: the rest of a file was skipped: {skipped_file.reason}", err=True)
        if count := len(manifest.skipped):
            notes.append(f"{count:,} damaged file{'s' if count > 1 else ''}")
        if self._first_part is not None and self._rows > self._first_part[1]:
            end, rows = self._first_part  # the first part includes loading the models
            speed = (self._rows - rows) / max(time.monotonic() - end, 1e-9)
            notes.append(f"{speed:,.0f} {self._unit}s/s after the first part ({end - self._start:.1f} s)")
        typer.echo(f"{destination}: {', '.join(notes)}", err=True)

    def _cut_rows(self, manifest: Manifest) -> str:
        """Return the first rows whose translations were cut, with their files if there are several."""
        truncated_rows = [
            f"{row}" if manifest.input.files in (None, 1) else f"{row} of file {part.file + 1}"
            for part in manifest.parts.values()
            for row in part.cut_rows
        ]
        ellipsis = ", …; manifest.json lists them" if len(truncated_rows) > MAX_REPORTED_FAILURES else ""
        return f" ({self._unit}s {', '.join(truncated_rows[:MAX_REPORTED_FAILURES])}{ellipsis})"

    def _report_failures(self, name: str, record: PartRecord) -> None:
        for row, error in record.failures[: max(0, MAX_REPORTED_FAILURES - self._failed)]:
            label = "" if error.startswith(f"{self._unit} {row}") else f"{self._unit} {row}: "
            typer.echo(f"error: {name}: {label}{error}", err=True)
        previous_failures, self._failed = self._failed, self._failed + record.failed
        if previous_failures <= MAX_REPORTED_FAILURES < self._failed:
            typer.echo("error: further failures are listed in manifest.json only", err=True)


def run(
    job: Job, verb: str, unit: str, workers: int | None = None, ray: str | None = None
) -> tuple[Manifest, JobReporter]:
    """Run a job with progress reports, and return its manifest and the reporter."""
    from uwaga_corpora.jobs.engine import run_job
    from uwaga_corpora.jobs.workers import Workers

    with JobReporter(verb, unit) as reporter, Workers(workers, ray, reporter.add_texts) as pool:
        try:
            return run_job(job, pool, reporter), reporter
        except KeyboardInterrupt:
            typer.echo(
                f"{job.target.name} holds the finished parts; run the same command to resume", err=True
            )
            raise typer.Exit(INTERRUPTED) from None


def run_corpus(job: CorpusJob, join: Path | None, verb: str) -> None:
    """Run a job over a corpus, optionally join its parts, and print a summary."""
    from uwaga_corpora.jobs.corpus import check_join, join_parts

    if join is not None:
        check_join(job, join)
    manifest, reporter = run(job, verb, "line")
    if join is not None:
        join_parts(job.folder, manifest, join)
    reporter.summarise(str(join or job.folder), manifest)

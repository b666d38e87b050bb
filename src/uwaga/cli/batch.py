"""``uwaga batch``: a lake of rows, on local cores or a Ray cluster."""

from __future__ import annotations

import contextlib
import sys
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli import options as the
from uwaga.cli.errors import INTERRUPTED
from uwaga.cli.meter import duration

if TYPE_CHECKING:
    from uwaga.cli.meter import Update
    from uwaga.jobs.tables.manifest import BatchManifest
    from uwaga.search import SearchOverrides

NAMED = 20
"""Failures that are said one by one."""
SECONDS = 10.0
"""Between two lines about how far the job is, where there is no bar."""


class LakeFormat(StrEnum):
    """What rows lie in."""

    parquet = "parquet"
    jsonl = "jsonl"
    text = "text"


From = Annotated[
    str,
    typer.Argument(
        metavar="IN",
        help="A file or a folder of Parquet, JSON Lines or text, or a URL such as s3://bucket/folder.",
        show_default=False,
    ),
]
To = Annotated[
    str,
    typer.Argument(
        metavar="OUT",
        help="A folder, or a URL, for the parts and their manifest.json. The same command goes on with a job "
        "that was stopped.",
        show_default=False,
    ),
]
ColumnNames = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        "-c",
        help="A column to translate, into NAME_translated, or NAME=OTHER into OTHER; again: more.",
        show_default=False,
    ),
]
FormatName = Annotated[
    LakeFormat | None, typer.Option("--format", help="What IN holds.", show_default="as names end")
]
Score = Annotated[bool, typer.Option("--score", help="A column with the score of each translation too.")]
Links = Annotated[
    bool, typer.Option("--alignment", help="A column with word links too, as Moses writes them: 0-0 1-2.")
]
SourceCode = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="The language of the texts. With --to and without --model: translate with the best installed "
        "model between the two, or with several one after the other.",
        show_default=False,
    ),
]
PartRows = Annotated[
    int, typer.Option(min=1, help="Rows of a part: what a worker that is lost does again, at most.")
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Processes, each with a model; with --ray actors.",
        show_default="one with all cores; with --ray one a core",
    ),
]
Ray = Annotated[
    str | None,
    typer.Option(
        help="Work on a Ray cluster: auto (the running one), HOST:PORT, or local, one of these cores.",
        show_default=False,
    ),
]

EXAMPLES = """
        uwaga batch corpus.txt translated                        # translated/part-00000.txt and so on

        uwaga batch reviews.parquet out --column text=german --score

        uwaga batch reviews/ out --column title --column body --workers 8

        uwaga batch s3://lake/reviews s3://lake/reviews-de --column text --ray auto
"""


@the.examples(EXAMPLES)
def batch(
    source: From,
    target: To,
    column: ColumnNames = None,
    format_: FormatName = None,
    score: Score = False,
    alignment: Links = False,
    part_rows: PartRows = 10_000,
    workers: Workers = None,
    ray: Ray = None,
    model: the.Models = None,
    beam: the.Beam = None,
    length_penalty: the.LengthPenalty = None,
    max_length: the.MaxLength = None,
    split: the.Split = the.SplitChoice.auto,
    batch_tokens: the.BatchTokens = None,
    from_: SourceCode = None,
    to: the.ToLanguage = None,
    via: the.Via = None,
    shortlist: the.Shortlist = None,
    adapter: the.Adapter = None,
    glossary: the.Glossary = None,
    glossary_mode: the.GlossaryMode = the.GlossaryChoice.forced,
    device: the.Device = "auto",
    dtype: the.Precision = "auto",
    engine: the.Engine = "auto",
    threads: the.Threads = 0,
    memory: the.Memory = "fast",
) -> None:
    """Translate a lake: columns of Parquet or JSON Lines, or texts line by line, of any size.

    Every row that goes in comes out once, in order: null and empty texts stay so, and what cannot be
    translated is named in an error column. The parts do not depend on the workers, nor on whether the job was
    stopped on the way.
    """
    from uwaga.jobs.corpora.assemble import JobModels
    from uwaga.jobs.tables.job import batch_job, run_batch
    from uwaga.jobs.tables.rows import Columns, TextColumn
    from uwaga.jobs.tables.work import Work
    from uwaga.jobs.tables.workers import Workers
    from uwaga.translator.loading import LoadOptions

    asked: SearchOverrides = {"beam": beam, "length_penalty": length_penalty, "max_length": max_length}
    wanted = LoadOptions(device, dtype, threads, engine, from_, to, shortlist, memory, adapter)
    models = JobModels(tuple(model or ()), wanted, asked, split.value, batch_tokens)
    terms = None if glossary is None else str(glossary)
    work = Work(models, alignment, tuple(via or ()), terms, glossary_mode.value)
    columns = Columns(tuple(TextColumn.parse(one) for one in column or ()), score, alignment)
    kind = None if format_ is None else format_.value
    job = batch_job(source, target, work, columns, format_name=kind, part_rows=part_rows)
    if (chosen := work.chosen()) is not None and len(chosen.legs) > 1:
        typer.echo(f"note: {chosen}, one after the other", err=True)
    with Workers(workers, ray) as pool, _BatchTeller() as progress:
        try:
            manifest = run_batch(job, pool, progress)
        except KeyboardInterrupt:
            typer.echo(f"{job.target.name} holds the parts that are done; the same command goes on", err=True)
            raise typer.Exit(INTERRUPTED) from None
    _summarise(job.target.name, manifest, progress.pace)


class _BatchTeller:
    """Tells how far a job is: a bar where somebody sees it, else a line now and then."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._update: Update = lambda done, rows: None
        self._rows = self._total = 0
        self._done = self._begun = 0.0
        self._started = self._told = time.monotonic()
        self._first: tuple[float, int] | None = None

    def __enter__(self) -> _BatchTeller:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def begin(self, rows: int, total: int, done: float) -> None:
        """So many rows, and of all bytes so many, were done before."""
        from uwaga.cli.meter import bytes_and_lines

        if rows:
            typer.echo(f"going on: {rows:,} rows are done", err=True)
        self._total, self._begun = total, done
        self._started = self._told = time.monotonic()
        self._update = self._stack.enter_context(bytes_and_lines(total, "translating"))

    def advance(self, rows: int, done: float) -> None:
        """So many rows more are done; of all bytes so many."""
        self._rows += rows
        self._done = max(self._done, done)
        self._update(int(self._done), self._rows)
        now = time.monotonic()
        self._first = self._first or (now, self._rows)
        if sys.stderr.isatty() or now - self._told < SECONDS:
            return
        self._told = now
        share = min(1.0, self._done / max(1, self._total))
        spent = max(now - self._started, 1e-9)
        speed = self._rows / spent
        left = spent * (self._total - self._done) / max(1.0, self._done - self._begun)
        how = f"{speed:,.0f} rows/s, {share:.0%} of the input, {duration(max(0.0, left))} left"
        typer.echo(f"{self._rows:,} rows, {how}", err=True)

    @property
    def pace(self) -> list[str]:
        """What plans a larger job: rows a second behind the first part, and when that was there."""
        if self._first is None or self._rows == self._first[1]:
            return []
        first, rows = self._first
        speed = (self._rows - rows) / max(time.monotonic() - first, 1e-9)
        return [f"{speed:,.0f} rows/s behind the first part, which took {first - self._started:.1f} s"]


def _summarise(place: str, manifest: BatchManifest, pace: list[str]) -> None:
    """How many rows and parts there are, what is wrong with some, and how fast they came."""
    empty, failed, cut = (manifest.total(what) for what in ("empty", "failed", "cut"))
    notes = [f"{manifest.total('rows'):,} rows in {len(manifest.parts):,} parts"]
    notes += [f"{empty:,} empty"] if empty else []
    notes += [f"{failed:,} failed"] if failed else []
    notes += [f"{cut:,} cut at the length limit"] if cut else []
    notes += pace
    shown = 0
    for name, part in manifest.parts.items():
        for row, why in part.failures[: max(0, NAMED - shown)]:
            typer.echo(f"error: {name}, row {row} of its file: {why}", err=True)
            shown += 1
    if failed > shown:
        typer.echo("more are named in manifest.json and in the error columns", err=True)
    typer.echo(f"{place}: {', '.join(notes)}", err=True)

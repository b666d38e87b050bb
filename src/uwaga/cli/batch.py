"""``uwaga batch``: translate columns of large tables, on local cores or a Ray cluster."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from uwaga.cli import jobs
from uwaga.cli import options as the
from uwaga.cli.option_groups import Group, option_groups
from uwaga.search.options import SearchOptions, SearchOverrides
from uwaga.settings.load_options import LoadOptions


class TableFormatChoice(StrEnum):
    """File formats of tables."""

    parquet = "parquet"
    jsonl = "jsonl"
    text = "text"


From = Annotated[
    str,
    typer.Argument(
        metavar="IN",
        help="A file or folder of Parquet, JSON Lines or text, or a URL such as s3://bucket/folder.",
        show_default=False,
    ),
]
To = Annotated[
    str,
    typer.Argument(
        metavar="OUT",
        help="Folder or URL for the parts and their manifest.json. Rerun the same command to resume an "
        "interrupted job.",
        show_default=False,
    ),
]
ColumnNames = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        "-c",
        help="Column to translate; output goes to NAME_translated, or to OTHER with NAME=OTHER. Repeatable.",
        show_default=False,
    ),
]
FormatName = Annotated[
    TableFormatChoice | None,
    typer.Option("--format", help="Input format.", show_default="inferred from the file names"),
]
Score = Annotated[bool, typer.Option("--score", help="Add a column with the score of each translation.")]
Alignment = Annotated[
    bool, typer.Option("--alignment", help="Add a column with word alignments in Moses format: 0-0 1-2.")
]
FROM_HELP = {
    "source": "Language of the texts. With --to and without --model: use the best installed model "
    "between the two, or a chain of models"
}
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Processes, each with its own model; with --ray, actors.",
        show_default="one with all cores; with --ray one per core",
    ),
]
Ray = Annotated[
    str | None,
    typer.Option(
        help="Use a Ray cluster: auto (the running one), HOST:PORT, or local (a new one on this machine).",
        show_default=False,
    ),
]

Search = Annotated[
    SearchOverrides,
    Group(
        SearchOptions,
        without=("nbest", "attention", "entropy", "alignment", "mbr", "utility", "batch_tokens"),
    ),
]
Load = Annotated[LoadOptions, Group(LoadOptions, help=the.LOAD_HELP | FROM_HELP)]


EXAMPLES = """
        uwaga batch corpus.txt translated                        # translated/part-00000.txt and so on

        uwaga batch reviews.parquet out --column text=german --score

        uwaga batch reviews/ out --column title --column body --workers 8

        uwaga batch s3://shop/reviews s3://shop/reviews-de --column text --ray auto
"""


@option_groups
@the.examples(EXAMPLES)
def batch(
    source: From,
    target: To,
    column: ColumnNames = None,
    format_: FormatName = None,
    score: Score = False,
    alignment: Alignment = False,
    part_rows: jobs.PartRows = 10_000,
    workers: Workers = None,
    ray: Ray = None,
    model: the.Models = None,
    split: the.Split = the.SplitChoice.auto,
    via: the.Via = None,
    batch_tokens: the.BatchTokens = None,
    glossary: the.Glossary = None,
    glossary_mode: the.GlossaryMode = the.GlossaryChoice.forced,
    *,
    search: Search,
    load: Load,
) -> None:
    """Translate large tables: columns of Parquet or JSON Lines files, or lines of text files.

    Every input row is written once, in order. Null and empty texts stay as they are; texts that cannot be
    translated are reported in an error column. The output is the same for any number of workers, and whether
    or not the job was interrupted and resumed.
    """
    from uwaga.jobs.table import batch_job
    from uwaga.jobs.table_formats import Columns, TextColumn
    from uwaga.jobs.translation import TranslationSpec

    spec = TranslationSpec(
        tuple(model or ()),
        load,
        search,
        split.value,
        batch_tokens,
        alignment,
        tuple(via or ()),
        None if glossary is None else str(glossary),
        glossary_mode.value,
    )
    columns = Columns(tuple(map(TextColumn.parse, column or ())), score, alignment)
    name = None if format_ is None else format_.value
    job = batch_job(source, target, spec, columns, format_name=name, part_rows=part_rows)
    if (route := spec.route()) is not None and len(route.legs) > 1:
        typer.echo(f"note: a chain of models: {route}", err=True)
    manifest, reporter = jobs.run(job, "translating", "row", workers, ray)
    reporter.summarise(job.target.name, manifest)

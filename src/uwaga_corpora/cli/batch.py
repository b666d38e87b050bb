"""``uwaga batch``: translate columns of large tables, on local cores or a Ray cluster."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from uwaga.cli import options
from uwaga.cli.option_groups import Group, option_groups
from uwaga.errors import SettingsError
from uwaga.search.options import SearchOptions, SearchOverrides
from uwaga.settings.load_options import LoadOptions
from uwaga.translator.request import Request
from uwaga_corpora.cli import jobs

InputLocation = Annotated[
    str,
    typer.Argument(
        metavar="IN",
        help="A file or folder of Parquet, JSON Lines or text, or a URL such as s3://bucket/folder.",
    ),
]
OutputLocation = Annotated[
    str,
    typer.Argument(
        metavar="OUT",
        help="Folder or URL for the parts and their manifest.json. Rerun the same command to resume an "
        "interrupted job.",
    ),
]
ColumnNames = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        "-c",
        help="Column to translate; output goes to NAME_translated, or to OTHER with NAME=OTHER. Repeatable.",
    ),
]
FormatName = Annotated[
    Literal["parquet", "jsonl", "text"] | None,
    typer.Option("--format", help="Input format.", show_default="inferred from the file names"),
]
Score = Annotated[bool, typer.Option("--score", help="Add a column with the score of each translation.")]
Alignment = Annotated[
    bool, typer.Option("--alignment", help="Add a column with word alignments (Moses: 0-0 1-2).")
]
Key = Annotated[
    str,
    typer.Option(
        help="Column with the keys of the rows, for --memory.",
        show_default=False,
    ),
]
FROM_HELP = {
    "source": "Language of the texts. With --to and without --model: use the best installed model "
    "between the two, or a chain of models"
}
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Number of worker processes, each of which loads the models; with --ray, number of actors.",
        show_default="one with all cores; with --ray one per core",
    ),
]
Ray = Annotated[
    str | None,
    typer.Option(
        help="Use a Ray cluster: auto (the running one), HOST:PORT, or local (a new one on this machine)."
    ),
]

OnError = Annotated[
    Literal["stop", "skip"],
    typer.Option(
        "--on-error",
        help="At a line or file that cannot be read: stop, or skip it and report it in the error column.",
    ),
]
Search = Annotated[
    SearchOverrides,
    Group(
        SearchOptions,
        without=("nbest", "mbr", "utility", *options.DETAIL_OPTIONS, "batch_tokens"),
    ),
]
RequestValues = Annotated[
    dict[str, Any],
    Group(Request, names=("split", "glossary", "glossary_mode", "memory", "threshold")),
]
Load = Annotated[LoadOptions, Group(LoadOptions, help=options.LOAD_HELP | FROM_HELP)]


EXAMPLES = """
        uwaga batch corpus.txt translated                        # translated/part-00000.txt and so on

        uwaga batch reviews.parquet out --column text=german --score

        uwaga batch reviews/ out --column title --column body --workers 8

        uwaga batch s3://shop/reviews s3://shop/reviews-de --column text --ray auto

        uwaga batch menus.jsonl out --column text --key id --memory menus.uwm
"""


@option_groups
@options.examples(EXAMPLES)
def batch(
    source: InputLocation,
    target: OutputLocation,
    column: ColumnNames = None,
    format_: FormatName = None,
    score: Score = False,
    alignment: Alignment = False,
    key: Key = "",
    part_rows: jobs.PartRows = 10_000,
    on_error: OnError = "stop",
    workers: Workers = None,
    ray: Ray = None,
    model: options.Models = None,
    via: options.Via = None,
    batch_tokens: options.BatchTokens = None,
    *,
    request: RequestValues,
    search: Search,
    load: Load,
) -> None:
    """Translate large tables: columns of Parquet or JSON Lines files, or lines of text files.

    Every input row is written once, in order. Null and empty texts stay as they are; texts that cannot be
    translated are reported in an error column. The output is the same for any number of workers, and whether
    or not the job was interrupted and resumed.
    """
    from uwaga_corpora.jobs.table import batch_job
    from uwaga_corpora.jobs.table_formats import Columns, TextColumn
    from uwaga_corpora.jobs.translation import TranslationSpec

    if key and "memory" not in request:
        raise SettingsError("--key needs --memory: it names the column with the keys of the memory's pairs")
    spec = TranslationSpec(
        tuple(model or ()),
        load,
        search,
        batch_tokens=batch_tokens,
        alignment=alignment,
        via=tuple(via or ()),
        request=Request("", **request),
    )
    columns = Columns(tuple(map(TextColumn.parse, column or ())), score, alignment, "memory" in request, key)
    skip = on_error == "skip"
    job = batch_job(source, target, spec, columns, format_name=format_, part_rows=part_rows, skip=skip)
    if len((choice := spec.select_models()).steps) > 1:
        typer.echo(f"note: a chain of models: {choice}", err=True)
    manifest, reporter = jobs.run(job, "translating", "row", workers, ray)
    reporter.summarise(job.target.name, manifest)

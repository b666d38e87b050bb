"""``uwaga lengths``: measure quality by the length of the source."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli import options
from uwaga.cli.option_groups import Group, option_groups
from uwaga.errors import SettingsError
from uwaga.settings.load_options import LoadOptions

if TYPE_CHECKING:
    from uwaga.inspection import LengthTable

TABLE_SUFFIXES = (".tsv", ".json")

Sources = Annotated[Path, typer.Option("--source", "-s", help="Source sentences, one per line.")]
SystemFiles = Annotated[
    list[str] | None, typer.Option(help="File of translations, optionally NAME=FILE. Repeatable.")
]
NamedModels = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", help="Model to translate with, optionally NAME=FOLDER. Repeatable."),
]
Buckets = Annotated[
    int, typer.Option(min=1, help="Number of groups of about equal size, from short to long sources.")
]
Edges = Annotated[
    str | None,
    typer.Option(
        help="Largest length of each group instead, such as 10,20,30; longer sources form another group."
    ),
]
Tokenize = Annotated[
    str,
    typer.Option(
        help="BLEU's tokeniser, also used to measure source length: 13a, intl, zh, char, none, ja-mecab or "
        "ko-mecab."
    ),
]
Lowercase = Annotated[bool, typer.Option("--lowercase", help="Compute case-insensitive BLEU.")]
Samples = Annotated[int, typer.Option(min=0, help="Bootstrap samples for 95% intervals; 0 for no intervals.")]
Beam = Annotated[
    int | None, typer.Option("--beam", "-b", help="Beam size for --model.", show_default="the model's")
]
Drawing = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write a figure to this file (.png, .svg or .pdf).")
]
TableFile = Annotated[Path | None, typer.Option(help="Write the results to this file (.tsv or .json).")]
EarlierTables = Annotated[
    list[Path] | None,
    typer.Option(
        help="Earlier results (.json) for the same lines, to show next to the new ones; a system measured "
        "again is replaced. Repeatable."
    ),
]
Title = Annotated[str, typer.Option(help="Figure title.")]

Load = Annotated[LoadOptions, Group(LoadOptions, names=("device", "dtype", "threads"))]


@option_groups
def lengths(
    source: Sources,
    reference: options.References,
    system: SystemFiles = None,
    model: NamedModels = None,
    columns: options.Columns = "2-",
    buckets: Buckets = 6,
    edges: Edges = None,
    tokenize: Tokenize = "13a",
    lowercase: Lowercase = False,
    samples: Samples = 1000,
    beam: Beam = None,
    output: Drawing = None,
    table: TableFile = None,
    earlier: EarlierTables = None,
    title: Title = "",
    *,
    load: Load,
) -> None:
    """Show BLEU and translation length by source length.

    Lines are grouped by the length of their source in tokens, and BLEU is computed over each group: systems
    that encode a sentence in a single vector get worse as sentences grow. `ratio` is the length of the
    translations divided by that of the references; below 1, content may be missing.

    **Examples**

        uwaga lengths -s test.en -r test.de --system mine.de --system theirs.de

        uwaga lengths -s test.en -r test.de --system RNN=rnn.de --system Transformer=tf.de -o lengths.svg

        uwaga lengths -s test.en -r test.de -m runs/ende/model --beam 5 --edges 10,20,30,40,50

        uwaga lengths -s tok.en -r tok.de --system new.de --tokenize none --earlier old.json --table both.json
    """
    from uwaga.evaluation.files import read_aligned, read_test_set
    from uwaga.inspection import by_length, read_length_table

    files, models = (
        options.parse_labels(system or [], "--system"),
        options.parse_labels(model or [], "--model"),
    )
    _check_options(files, models, table, output)
    earlier_tables = {path: read_length_table(path) for path in earlier or []}
    bounds = None if edges is None else _numbers(edges)
    sources, references = read_test_set(source, reference, columns)
    systems = {name: read_aligned(Path(path), str(source), len(sources)) for name, path in files.items()}
    systems |= _translate(models, sources, beam, load)
    results = by_length(
        sources,
        references,
        systems,
        buckets=buckets if bounds is None else bounds,
        tokenize=tokenize,
        lowercase=lowercase,
        samples=samples,
    )
    _report(results, earlier_tables, table, output, title)


def _check_options(
    files: Mapping[str, str], models: Mapping[str, str], table: Path | None, output: Path | None
) -> None:
    from uwaga.inspection import check_drawing

    if not files and not models:
        raise SettingsError("nothing to compare: give --system NAME=FILE or --model NAME=FOLDER")
    if duplicates := files.keys() & models.keys():
        raise SettingsError(
            f"two systems are named {min(duplicates)!r}; give them other names with NAME=PATH"
        )
    if table is not None and table.suffix.lower() not in TABLE_SUFFIXES:
        raise SettingsError(f"{table}: the name of a table must end in one of {', '.join(TABLE_SUFFIXES)}")
    if output is not None:
        check_drawing(output)


def _numbers(edges: str) -> list[int]:
    try:
        return [int(edge) for edge in edges.split(",")]
    except ValueError:
        raise SettingsError(
            f"--edges {edges!r}: give lengths separated by commas, such as 10,20,30"
        ) from None


def _translate(
    models: Mapping[str, str], sources: list[str], beam: int | None, load: LoadOptions
) -> dict[str, list[str]]:
    """Translate the sources with each model, and return the translations by the name of the model."""
    from uwaga.cli.meter import count_meter
    from uwaga.inspection import translate_systems

    with count_meter(len(models) * len(sources), "translating") as advance:
        return translate_systems(
            models,
            sources,
            beam=beam,
            device=load.device,
            dtype=load.dtype,
            threads=load.threads,
            on_lines=advance,
        )


def _report(
    results: LengthTable,
    earlier_tables: Mapping[Path, LengthTable],
    table: Path | None,
    output: Path | None,
    title: str,
) -> None:
    """Write, draw and print the results together with the results of earlier tables."""
    for path, earlier_table in earlier_tables.items():
        results = results.add_systems(earlier_table, str(path))
    if table is not None:
        from uwaga.cli.lines import open_output

        with open_output(table) as write:
            write(results.tsv() if table.suffix.lower() == ".tsv" else results.json() + "\n")
    if output is not None:
        from uwaga.inspection import draw_lengths, save_figure

        save_figure(draw_lengths(results, title=title), output)
    _print(results)


def _print(table: LengthTable) -> None:
    """Print one row per bucket, with the BLEU score, its interval and the length ratio of each system."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    output = Table("source\ntokens", "\nlines", box=box.SIMPLE_HEAD)
    for name in table.systems:
        output.add_column(f"{name}\nBLEU", justify="right")
        output.add_column("\nratio", justify="right")
    for bucket in table.buckets:
        cells = []
        for cell in bucket.systems.values():
            interval = "" if cell.interval is None else f" ± {cell.interval:.1f}"
            cells += [f"{cell.bleu:.1f}{interval}", f"{cell.ratio:.2f}"]
        output.add_row(bucket.label, str(bucket.lines), *cells)
    console = Console(highlight=False)
    console.print(output)
    console.print(table.signature, soft_wrap=True)

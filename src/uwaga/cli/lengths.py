"""``uwaga lengths``: quality against the length of the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli.options import Device, Threads, TorchDtype
from uwaga.errors import SettingsError

if TYPE_CHECKING:
    from uwaga.inspection import LengthTable

TABLES = (".tsv", ".json")


def lengths(
    source: Annotated[
        Path, typer.Option("--source", "-s", help="The sources, one per line.", show_default=False)
    ],
    reference: Annotated[
        list[Path],
        typer.Option(
            "--reference",
            "-r",
            help="References: one per line, or a .tsv file with several per line. Give it again for more.",
            show_default=False,
        ),
    ],
    system: Annotated[
        list[str] | None,
        typer.Option(
            help="A file of translations, NAME=FILE or the file alone. Give it again for more.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="A model to translate with, NAME=FOLDER or the folder alone. Give it again for more.",
            show_default=False,
        ),
    ] = None,
    columns: Annotated[
        str, typer.Option(help="Columns of a .tsv that hold references, such as `2`, `2,4` or `2-`.")
    ] = "2-",
    buckets: Annotated[
        int, typer.Option(min=1, help="Groups of about equally many lines, from short to long sources.")
    ] = 6,
    edges: Annotated[
        str | None,
        typer.Option(
            help="The longest length of each group instead, such as 10,20,30: longer ones make another.",
            show_default=False,
        ),
    ] = None,
    tokenize: Annotated[
        str,
        typer.Option(
            help="BLEU's tokeniser, which counts the source's tokens too: 13a, intl, zh, char, none..."
        ),
    ] = "13a",
    lowercase: Annotated[bool, typer.Option("--lowercase", help="BLEU without regard to case.")] = False,
    samples: Annotated[
        int, typer.Option(min=0, help="Test sets that the bootstrap draws for 95% intervals; 0 for none.")
    ] = 1000,
    beam: Annotated[
        int | None,
        typer.Option("--beam", "-b", help="Hypotheses searched by --model.", show_default="the model's"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Draw it into this file, .png, .svg or .pdf.", show_default=False
        ),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(help="Write the figures into this file, .tsv or .json.", show_default=False),
    ] = None,
    title: Annotated[str, typer.Option(help="What stands above the drawing.", show_default=False)] = "",
    device: Device = "auto",
    dtype: TorchDtype = "auto",
    threads: Threads = 0,
) -> None:
    """Show how BLEU and the length of translations change with the length of the source.

    Lines are grouped by the number of their source's tokens, and BLEU is computed over each group: a system
    that squeezes a sentence into one vector falls as sentences grow. The `ratio` is the length of the
    translations over that of the references; below 1 something was left out.

    **Examples**

        uwaga lengths -s test.en -r test.de --system mine.de --system theirs.de

        uwaga lengths -s test.en -r test.de --system RNN=rnn.de --system Transformer=tf.de -o lengths.svg

        uwaga lengths -s test.en -r test.de -m runs/ende/model --beam 5 --edges 10,20,30,40,50

        uwaga lengths -s test.tok.en -r test.tok.de --system out.tok.de --tokenize none --table lengths.tsv
    """
    from uwaga.cli.named import named
    from uwaga.evaluation.files import check_aligned, read_lines, read_references
    from uwaga.inspection.pictures import check_format, new_figure

    files, models = named(system or [], "--system"), named(model or [], "--model")
    if not files and not models:
        raise SettingsError("nothing to compare: give --system NAME=FILE or --model NAME=FOLDER")
    if twice := files.keys() & models.keys():
        raise SettingsError(f"two systems are called {min(twice)!r}; tell them apart as NAME=PATH")
    if table is not None and table.suffix.lower() not in TABLES:
        raise SettingsError(f"{table}: a table's name must end in one of {', '.join(TABLES)}")
    if output is not None:
        check_format(output)
        new_figure(1, 1)  # says so at once if matplotlib is missing
    bounds = None if edges is None else _numbers(edges)
    sources, references = read_lines(source), read_references(reference, columns)
    check_aligned(str(reference[0]), len(references), str(source), len(sources))
    systems: dict[str, Sequence[str]] = {}
    for name, path in files.items():
        systems[name] = read_lines(Path(path))
        check_aligned(path, len(systems[name]), str(source), len(sources))
    systems |= _translated(models, sources, source, beam, device, dtype, threads)

    from uwaga.inspection import by_length, draw_lengths, save_figure

    found = by_length(
        sources,
        references,
        systems,
        buckets=buckets,
        edges=bounds,
        tokenize=tokenize,
        lowercase=lowercase,
        samples=samples,
    )
    if table is not None:
        from uwaga.cli.lines import lines_out

        with lines_out(table) as write:
            write(found.tsv() if table.suffix.lower() == ".tsv" else found.json() + "\n")
    if output is not None:
        save_figure(draw_lengths(found, title=title), output)
    _print(found)


def _numbers(edges: str) -> list[int]:
    try:
        return [int(edge) for edge in edges.split(",")]
    except ValueError:
        raise SettingsError(
            f"--edges {edges!r}: give lengths with commas between, such as 10,20,30"
        ) from None


def _translated(
    models: Mapping[str, str],
    sources: Sequence[str],
    path: Path,
    beam: int | None,
    device: str,
    dtype: str,
    threads: int,
) -> dict[str, Sequence[str]]:
    """What each model makes of the sources."""
    from uwaga.cli.lines import Chunk
    from uwaga.cli.meter import meter

    found: dict[str, Sequence[str]] = {}
    for name, place in models.items():
        from uwaga.translator import Translator

        translator = Translator.load(place, device=device, dtype=dtype, threads=threads)
        lines = []
        with meter(path, f"translating with {name}") as advance:
            translations = translator.translate_lines(sources, translator.options(beam=beam))
            for number, translation in enumerate(translations, start=1):
                lines.append(translation.text)
                advance(Chunk(number, [sources[number - 1]]))
        found[name] = lines
    return found


def _print(table: LengthTable) -> None:
    """A row per bucket: BLEU with its interval, and the ratio, of each system."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    shown = Table("source\ntokens", "\nlines", box=box.SIMPLE_HEAD)
    for name in table.systems:
        shown.add_column(f"{name}\nBLEU", justify="right")
        shown.add_column("\nratio", justify="right")
    for bucket in table.buckets:
        cells = []
        for cell in bucket.systems.values():
            interval = "" if cell.interval is None else f" ± {cell.interval:.1f}"
            cells += [f"{cell.bleu:.1f}{interval}", f"{cell.ratio:.2f}"]
        shown.add_row(bucket.label, str(bucket.lines), *cells)
    console = Console(highlight=False)
    console.print(shown)
    console.print(table.signature, soft_wrap=True)

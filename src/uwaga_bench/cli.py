"""``uwaga bench``: measure the speed of this machine and of a model."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.errors import SettingsError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from uwaga_bench.report import Machine, Report

BUSY_LOAD = 0.5
"""Load per core by other programs above which the measured rates may be too low."""
PIPED_WIDTH = 160
"""Width, in columns, of output that is not written to a terminal."""
UNITS = {"B/s": (1e9, "GB/s"), "op/s": (1e9, "Gop/s"), "tokens/s": (1.0, "tokens/s")}
"""The divisor and the displayed unit for each unit of a report."""
COMMIT_LENGTH = 12
"""Number of characters of a commit hash that are shown."""
NO_VALUE = "–"
"""The sign that is shown in a table in place of a missing value."""

StoredReport = Annotated[
    Path | None,
    typer.Argument(help="A report written by --json, to show or compare instead of measuring this machine."),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="A model folder or a Hugging Face name (owner/model); default: the bundled model.",
    ),
]
Formats = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        help="Number formats of the model's weights, separated by commas: int8, int4, bfloat16, float32.",
        show_default="int8, or that of a quantised folder",
    ),
]
Threads = Annotated[int, typer.Option(help="CPU threads; 0 for all cores.")]
Seconds = Annotated[float, typer.Option(help="Time for all measurements; each runs at least once.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")]
Compare = Annotated[
    Path | None, typer.Option(help="A report of another machine or version, to show next to this one.")
]


def bench(
    report: StoredReport = None,
    model: Model = None,
    dtype: Formats = None,
    threads: Threads = 0,
    seconds: Seconds = 10.0,
    as_json: AsJson = False,
    compare: Compare = None,
) -> None:
    """Measure this machine: memory, the engine's kernels, and a model's tokens per second.

    A kernel reads weights and multiplies rows by them. Its limit is the speed of reading (bound `memory`) or
    that of multiplying in registers (bound `products`), whichever allows less, and `share` is its rate
    divided by this limit. Rates are those of all threads together, the best of several rounds. On a busy
    machine they are too low.

    The model translates random tokens into 16 tokens per sentence, without a shortlist. Its limit counts
    weights only: each step reads those of the decoder once, at the speed measured for their size.

    **Examples**

        uwaga bench

        uwaga bench --model opus-mt-en-de-int8 --threads 4 --seconds 30

        uwaga bench --dtype int8,float32 --json > mine.json

        uwaga bench --compare theirs.json

        uwaga bench mine.json --compare theirs.json    # measures nothing

        UWAGA_ISA=avx2 uwaga bench    # with another instruction set
    """
    from uwaga_bench.report import read_report

    if as_json and compare is not None:
        raise SettingsError("--compare shows a table: leave out --json, or write the report first")
    baseline = None if compare is None else read_report(compare)
    result = _measure(model, dtype, threads, seconds) if report is None else read_report(report)
    if as_json:
        typer.echo(result.to_json())
    elif baseline is None or compare is None:
        _print(result)
    else:
        _print_ratios(result, baseline, compare.name)


def _measure(model: str | None, dtype: str | None, threads: int, seconds: float) -> Report:
    from uwaga.cli.meter import texts_meter
    from uwaga_bench.measure import measure

    with texts_meter("measuring", "measurements") as advance:
        report = measure(model, dtype.split(",") if dtype is not None else (), threads, seconds, advance)
    load, cores = report.machine.load, report.machine.cores
    if load is not None and load > BUSY_LOAD * cores:
        typer.echo(
            f"warning: other programs used this machine (load {load:.1f} on {cores} cores): "
            "its rates may be too low",
            err=True,
        )
    return report


def _print(report: Report) -> None:
    """Print the tables of a report."""
    console, threads = _console(), _threads(report.machine)
    _print_properties(console, [("", report)])
    for title, table in (
        (f"Reading memory, GB/s, by one thread and by {threads}", _memory_table(report)),
        (f"Products in registers, {threads}", _peak_table(report)),
        (f"Kernels, {threads}, with weights beyond the caches", _kernel_table(report)),
        (
            f"Model {report.model.name}, {report.model.weights:,} weights, {threads}",
            _model_table(report),
        ),
    ):
        if table.row_count:
            console.print(f"\n{title}", style="bold")
            console.print(table)


def _print_ratios(report: Report, baseline: Report, name: str) -> None:
    """Print the rates of two reports and their ratios."""
    from uwaga_bench.report import compare

    console = _console()
    _print_properties(console, [("this", report), (name, baseline)])
    table = _table("rate", "unit", "this", name, "ratio", left=("rate", "unit"))
    for comparison in compare(report, baseline):
        divisor, unit = UNITS[comparison.unit]
        values = [
            None if value is None else value / divisor for value in (comparison.first, comparison.second)
        ]
        ratio = NO_VALUE if comparison.ratio is None else f"{comparison.ratio:.2f}"
        table.add_row(comparison.name, unit, *map(_format_rate, values), ratio)
    console.print()
    console.print(table)


def _print_properties(console: Console, reports: Sequence[tuple[str, Report]]) -> None:
    """Print the machine and the build of each report in a table, with a column for each report."""
    properties = [_properties(report) for _, report in reports]
    names = ("", *(name for name, _ in reports))
    table = _table(*names, left=names)
    table.show_header = any(names)
    for name in properties[0]:
        table.add_row(name, *(values[name] for values in properties))
    console.print(table)


def _properties(report: Report) -> dict[str, str]:
    machine, build = report.machine, report.build
    return {
        "processor": machine.processor,
        "system": f"{machine.system}, Python {machine.python}",
        "instruction set": f"{machine.instruction_set} of {' '.join(machine.instruction_sets)}",
        "threads": f"{machine.threads} on {machine.cores} core{'s' if machine.cores > 1 else ''}",
        "load before": NO_VALUE if machine.load is None else f"{machine.load:.2f}",
        "uwaga": f"{build.version}, commit {build.commit[:COMMIT_LENGTH]}",
        "build": f"{build.compiler}, {build.flags}",
    }


def _memory_table(report: Report) -> Table:
    table = _table("of", "MB", "1 thread", _threads(report.machine), left=("of",))
    for memory in report.memory:
        rates = (memory.bytes / 1e6, memory.one_thread / 1e9, memory.all_threads / 1e9)
        table.add_row(memory.name, *map(_format_rate, rates))
    return table


def _peak_table(report: Report) -> Table:
    table = _table("numbers", "Gop/s", left=("numbers",))
    for peak in report.peaks:
        table.add_row(peak.numbers, _format_rate(peak.operations_per_second / 1e9))
    return table


def _kernel_table(report: Report) -> Table:
    table = _table(
        "kernel",
        "numbers",
        "size",
        "rows",
        "Gop/s",
        "GB/s",
        "share",
        "bound",
        left=("kernel", "numbers", "size", "bound"),
    )
    for kernel in report.kernels:
        size = f"{kernel.inputs}" if kernel.outputs is None else f"{kernel.inputs} x {kernel.outputs}"
        operations = None if kernel.operations_per_second is None else kernel.operations_per_second / 1e9
        rates = (_format_rate(operations), _format_rate(kernel.bytes_per_second / 1e9))
        table.add_row(
            kernel.kernel,
            kernel.numbers,
            size,
            str(kernel.rows),
            *rates,
            _format_percent(kernel.share),
            kernel.bound or NO_VALUE,
        )
    return table


def _model_table(report: Report) -> Table:
    table = _table(
        "numbers", "batch", "beam", "tokens/s", "limit", "share", "bound", left=("numbers", "bound")
    )
    for search in report.model.searches:
        rates = (_format_rate(search.tokens_per_second), _format_rate(search.limit))
        table.add_row(
            search.numbers,
            str(search.batch),
            str(search.beam),
            *rates,
            _format_percent(search.share),
            search.bound,
        )
    return table


def _console() -> Console:
    from rich.console import Console

    return Console(
        markup=False, highlight=False, emoji=False, width=None if sys.stdout.isatty() else PIPED_WIDTH
    )


def _table(*columns: str, left: Collection[str]) -> Table:
    """Return an empty table; the columns ``left`` are left-aligned."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in columns:
        table.add_column(Text(name), justify="left" if name in left else "right", overflow="fold")
    return table


def _threads(machine: Machine) -> str:
    return f"{machine.threads} thread{'s' if machine.threads > 1 else ''}"


def _format_rate(value: float | None) -> str:
    """Return a rate with at least three significant digits, as text."""
    if value is None:
        return NO_VALUE
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"


def _format_percent(share: float | None) -> str:
    return NO_VALUE if share is None else f"{100 * share:.0f}%"

"""``uwaga report``: write the report of a training run as an HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uwaga.errors import SettingsError

Run = Annotated[Path, typer.Argument(help="The folder of a training run, finished or not.")]
ReportFile = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="The HTML file to write.", show_default="report.html in the folder"),
]


def report(run: Run, output: ReportFile = None) -> None:
    """Write the log of a training run as a self-contained HTML file.

    It shows the curves of loss, BLEU, learning rate and throughput, translations of some dev sentences over
    time, BLEU by length, and the lines skipped in the corpora. `uwaga train` also writes it at the end
    of a run.

    **Examples**

        uwaga report runs/my-model

        uwaga report runs/my-model -o my-model.html
    """
    from uwaga.cli.lines import open_output
    from uwaga.training.page import REPORT_FILE, format_run_report

    path = output or run / REPORT_FILE
    if path.suffix != ".html" and path.is_file() and path.resolve().is_relative_to(run.resolve()):
        raise SettingsError(
            f"{path}: this is a file of the run; choose another name for the report, ending in .html"
        )
    text = format_run_report(run)
    with open_output(path) as write:
        write(text)
    typer.echo(f"wrote {path}", err=True)

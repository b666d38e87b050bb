"""``uwaga report``: a training run as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uwaga.errors import SettingsError

Run = Annotated[
    Path, typer.Argument(help="The folder of a training run, finished or not.", show_default=False)
]
Page = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="The HTML file to write.", show_default="report.html in the folder"),
]


def report(run: Run, output: Page = None) -> None:
    """Write what a training run has logged as one HTML file that needs no network.

    It has the curves of loss, BLEU, learning rate and throughput, some dev sentences as they were
    translated over time, BLEU by length, and what reading the corpora left out. `uwaga train` writes it
    too when it ends.

    **Examples**

        uwaga report runs/my-model

        uwaga report runs/my-model -o my-model.html
    """
    from uwaga.cli.lines import lines_out
    from uwaga.training.page import REPORT, run_page

    place = output or run / REPORT
    if place.suffix != ".html" and place.is_file() and place.resolve().is_relative_to(run.resolve()):
        raise SettingsError(f"{place}: is a file of the run; name another for the report, one in .html")
    text = run_page(run)
    with lines_out(place) as write:
        write(text)
    typer.echo(f"wrote {place}", err=True)

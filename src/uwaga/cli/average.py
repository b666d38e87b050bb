"""``uwaga average``: a model folder of a run's newest checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def average(
    run: Annotated[Path, typer.Argument(help="The folder of a run of `uwaga train`.", show_default=False)],
    folder: Annotated[Path, typer.Argument(help="The model folder to make.", show_default=False)],
    last: Annotated[
        int | None,
        typer.Option(
            min=1, help="How many of the newest checkpoints.", show_default="the run's training.average"
        ),
    ] = None,
) -> None:
    """Make a model of a run's newest checkpoints: their mean, as `uwaga train` makes at its end.

    It works while a run goes on, and after one that was stopped, and reads no corpus.

    **Examples**

        uwaga average runs/ende ende-so-far --last 5

        uwaga translate --model ende-so-far "A sentence."
    """
    try:
        from uwaga.training.average import average_run
    except ModuleNotFoundError as error:
        from uwaga.errors import MissingExtraError

        raise MissingExtraError(
            f"averaging needs {error.name}, which is not installed: pip install 'uwaga[train]'"
        ) from None
    steps = average_run(run, folder, last)
    typer.echo(f"{folder}: the mean of the checkpoints of steps {', '.join(map(str, steps))}")

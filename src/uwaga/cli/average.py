"""``uwaga average``: average a run's latest checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uwaga.cli import options
from uwaga.cli.errors import require_extra

RunFolder = Annotated[Path, typer.Argument(help="The folder of a run of `uwaga train`.")]
ModelFolder = Annotated[Path, typer.Argument(help="The model folder to write.")]
CheckpointCount = Annotated[
    int | None,
    typer.Option(
        min=1, help="Number of latest checkpoints to average.", show_default="the run's training.average"
    ),
]


def average(
    run: RunFolder, folder: ModelFolder, last: CheckpointCount = None, force: options.Force = False
) -> None:
    """Average a run's latest checkpoints into a model, as `uwaga train` does at the end of a run.

    This works during a run and after an interrupted one, and does not read the corpora.

    **Examples**

        uwaga average runs/ende ende-so-far --last 5

        uwaga translate --model ende-so-far "A sentence."
    """
    options.check_replaceable(folder, force)
    with require_extra("train", "averaging"):
        from uwaga.training.final_model import average_run, describe_mean
    steps = average_run(run, folder, last)
    typer.echo(f"{folder}: the {describe_mean(steps)}")

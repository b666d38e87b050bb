"""``uwaga train``: from a settings file to a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uwaga.cli.errors import INTERRUPTED, needing
from uwaga.errors import SettingsError

SettingsFile = Annotated[Path, typer.Argument(help="YAML settings file.", show_default=False)]
Init = Annotated[
    bool, typer.Option("--init", help="Write a commented settings file there instead of training.")
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one setting, e.g. `training.seed=2`; may be given again.",
        show_default=False,
    ),
]


def train(settings: SettingsFile, init: Init = False, set_: Changes = None) -> None:
    """Train a translator on your own sentence pairs.

    The same command goes on with a run that was stopped, by Ctrl-C, a crash or a power cut, and ends
    with the same weights as if nothing had happened (on a CPU, bit for bit).

    **Examples**

    Write a settings file with every setting and what it means:

        uwaga train --init my-model.yaml

    Train (name your files in it first), and see the losses in TensorBoard:

        uwaga train my-model.yaml

        tensorboard --logdir runs/my-model/logs

    The same with another seed, in another folder:

        uwaga train my-model.yaml --set training.seed=2 --set run=runs/seed2

    Use what came out:

        uwaga translate --model runs/my-model/model "A sentence."
    """
    if init:
        from uwaga.training.template import write_template

        write_template(settings)
        typer.echo(f"wrote {settings}: name your corpora in it, then: uwaga train {settings}", err=True)
        return
    from uwaga.settings import Settings, parse

    checked = parse(Settings, _values(settings, set_ or []), str(settings))
    with needing("train", "training"):
        from uwaga.training.train import train as train_model
    if train_model(checked) is None:
        raise typer.Exit(INTERRUPTED)


def _values(path: Path, changes: list[str]) -> dict[str, object]:
    """The raw settings of a file, changed."""
    from uwaga.settings import change_setting, read_yaml

    values = read_yaml(path)
    for change in changes:
        try:
            change_setting(values, change)
        except SettingsError as error:
            raise SettingsError(f"--set {error}") from None
    return values

"""``uwaga train``: from a settings file to a model folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli.errors import INTERRUPTED, MISTAKE, needing
from uwaga.errors import FailedElsewhereError, MissingExtraError, SettingsError

if TYPE_CHECKING:
    from uwaga.settings import Settings

SettingsFile = Annotated[Path, typer.Argument(help="YAML settings file.", show_default=False)]
Init = Annotated[
    bool, typer.Option("--init", help="Write a commented settings file there instead of training.")
]
Preset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="With --init: the model to start from, `small`, `tiny`, `luong-small`, ...; "
        "a wrong name lists them all.",
        show_default=False,
    ),
]
Estimate = Annotated[
    bool | None,
    typer.Option(
        "--estimate/--no-estimate",
        help="Measure updates for at most a minute and say how long the run will take on this machine, "
        "without training. With --init unless told not to.",
        show_default=False,
    ),
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

Sweep = Annotated[
    Path | None,
    typer.Option(
        "--sweep",
        help="Try settings: a YAML file of parameters and their ranges. Runs that promise little are stopped "
        "early.",
        show_default=False,
    ),
]


def train(
    settings: SettingsFile,
    init: Init = False,
    preset: Preset = None,
    estimate: Estimate = None,
    set_: Changes = None,
    sweep: Sweep = None,
) -> None:
    """Train a translator on your own sentence pairs.

    The same command goes on with a run that was stopped, by Ctrl-C, a crash or a power cut, and ends
    with the same weights as if nothing had happened (on a CPU, bit for bit).

    **Examples**

    Write a settings file with every setting and what it means:

        uwaga train --init my-model.yaml --preset small

    Train (name your files in it first), and see the losses in TensorBoard:

        uwaga train my-model.yaml

        tensorboard --logdir runs/my-model/logs

    With four processes, or one for each GPU (`--nproc-per-node gpu`), to which an update's batches are dealt
    (the guide "Scale out"):

        torchrun --nproc-per-node 4 -m uwaga train my-model.yaml --set training.accumulate=4

    The same with another seed, in another folder:

        uwaga train my-model.yaml --set training.seed=2 --set run=runs/seed2

    Draw small corpora more often (a list of corpora, their weights, tags and filters: the guide "Several
    corpora", and the settings file's comments):

        uwaga train my-model.yaml --set data.temperature=5

    Look for good settings (the guide "Look for good settings" has the file):

        uwaga train my-model.yaml --sweep sweep.yaml

    Use what came out:

        uwaga translate --model runs/my-model/model "A sentence."
    """
    _check_alone(("--init", init), ("--sweep", sweep is not None), ("--estimate", bool(estimate)))
    if init:
        _init(settings, preset, set_ or [], estimate is not False)
        return
    if preset is not None:
        raise SettingsError(f"--preset goes with --init; else say --set model={preset}")
    if sweep is not None:
        _sweep(settings, set_ or [], sweep)
        return
    if estimate:
        _estimate(settings, set_ or [])
    elif _train(settings, set_ or []) is None:
        raise typer.Exit(INTERRUPTED)


def _estimate(path: Path, changes: list[str]) -> None:
    """Say how long the run of a settings file will take."""
    checked = _checked(path, changes)
    with needing("train", "training"):
        from uwaga.training.estimate import estimate_time
    typer.echo(f"{checked.training.steps:,} updates: {estimate_time(checked)}")


def _train(path: Path, changes: list[str]) -> Path | None:
    """Train by a settings file, alone or with the processes that torchrun has started beside this one."""
    checked = None if _several() else _checked(path, changes)  # at once: importing torch takes seconds
    with needing("train", "training"):
        from uwaga.training.ranks import join_ranks
        from uwaga.training.train import train as train_model
    try:
        with join_ranks() as ranks:
            return train_model(checked or ranks.agree(lambda: _checked(path, changes)), ranks)
    except FailedElsewhereError:  # which has said why
        raise typer.Exit(MISTAKE) from None


def _check_alone(*asked: tuple[str, bool]) -> None:
    """Refuse what is the work of one process where torchrun has started several."""
    for name, wanted in asked:
        if wanted and _several():
            raise SettingsError(f"{name} is the work of one process: say it without torchrun")


def _several() -> bool:
    """Whether torchrun has started others beside this process."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


def _checked(path: Path, changes: list[str]) -> Settings:
    from uwaga.settings import Settings, parse

    return parse(Settings, _values(path, changes), str(path))


def _sweep(path: Path, changes: list[str], sweep: Path) -> None:
    """Try settings; see :mod:`uwaga.training.sweep`."""
    from uwaga.settings import SweepSettings, parse, read_yaml

    asked = parse(SweepSettings, read_yaml(sweep), str(sweep))
    with needing("sweep", "trying settings"):
        from uwaga.training.sweep import sweep as try_settings
    if try_settings(asked, path, _values(path, changes), typer.echo) is None:
        raise typer.Exit(INTERRUPTED)


def _init(path: Path, preset: str | None, changes: list[str], estimate: bool) -> None:
    """Write a settings file, and say how long its run will take where torch is installed to measure it."""
    from uwaga.training.template import template_settings, write_template

    write_template(path, preset, changes)
    typer.echo(f"wrote {path}: name your corpora in it, then: uwaga train {path}", err=True)
    if not estimate:
        return
    made = template_settings(preset, changes)
    try:
        with needing("train", "an estimate"):
            from uwaga.training import estimate as times
    except MissingExtraError as error:
        typer.echo(str(error), err=True)
        return
    typer.echo(f"measuring this machine for at most {times.SECONDS:.0f} s (--no-estimate: not)", err=True)
    typer.echo(f"{made.training.steps:,} updates: {times.estimate_time(made, times.SECONDS)}", err=True)


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

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
    bool, typer.Option("--init", help="Write a commented settings file to this path instead of training.")
]
Preset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="With --init: the model preset (`small`, `tiny`, `luong-small`, ...); "
        "an unknown name lists them all.",
        show_default=False,
    ),
]
Estimate = Annotated[
    bool | None,
    typer.Option(
        "--estimate/--no-estimate",
        help="Estimate the training time on this machine by measuring updates for at most a minute. "
        "On by default with --init.",
        show_default=False,
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one setting, such as `training.seed=2`. Repeatable.",
        show_default=False,
    ),
]

Sweep = Annotated[
    Path | None,
    typer.Option(
        "--sweep",
        help="Hyperparameter search: a YAML file of parameters and their ranges. Poor trials are pruned.",
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
    """Train a translation model on your own sentence pairs.

    Rerun the same command to resume a run interrupted by Ctrl-C, a crash or a power cut. It ends with the
    same weights as an uninterrupted run (on a CPU, bit for bit).

    **Examples**

    Write a settings file with every setting and its description:

        uwaga train --init my-model.yaml --preset small

    Train, after naming your files in it, and watch the losses in TensorBoard:

        uwaga train my-model.yaml

        tensorboard --logdir runs/my-model/logs

    Data-parallel with four processes, or one per GPU (`--nproc-per-node gpu`; see the guide "Multi-GPU
    training"):

        torchrun --nproc-per-node 4 -m uwaga train my-model.yaml --set training.accumulate=4

    The same with another seed, in another folder:

        uwaga train my-model.yaml --set training.seed=2 --set run=runs/seed2

    Sample small corpora more often (lists of corpora with weights, tags and filters: see the guide "Several
    corpora"):

        uwaga train my-model.yaml --set data.temperature=5

    Search hyperparameters (see the guide "Hyperparameter search"):

        uwaga train my-model.yaml --sweep sweep.yaml

    Use the trained model:

        uwaga translate --model runs/my-model/model "A sentence."
    """
    _check_single_process(("--init", init), ("--sweep", sweep is not None), ("--estimate", bool(estimate)))
    if init:
        _init(settings, preset, set_ or [], estimate is not False)
        return
    if preset is not None:
        raise SettingsError(f"--preset needs --init; without it use --set model={preset}")
    if sweep is not None:
        _sweep(settings, set_ or [], sweep)
        return
    if estimate:
        _estimate(settings, set_ or [])
    elif _train(settings, set_ or []) is None:
        raise typer.Exit(INTERRUPTED)


def _estimate(path: Path, changes: list[str]) -> None:
    """Print how long the run of a settings file will take."""
    checked = _checked(path, changes)
    with needing("train", "training"):
        from uwaga.training.estimate import estimate_time
    typer.echo(f"{checked.training.steps:,} updates: {estimate_time(checked)}")


def _train(path: Path, changes: list[str]) -> Path | None:
    """Train with a settings file, in this process or with all processes that torchrun has started."""
    checked = (
        None if _is_distributed() else _checked(path, changes)
    )  # report mistakes before torch is imported, which takes seconds
    with needing("train", "training"):
        from uwaga.training.ranks import join_ranks
        from uwaga.training.train import train as train_model
    try:
        with join_ranks() as ranks:
            return train_model(checked or ranks.agree(lambda: _checked(path, changes)), ranks)
    except FailedElsewhereError:  # it has reported the reason
        raise typer.Exit(MISTAKE) from None


def _check_single_process(*options: tuple[str, bool]) -> None:
    """Check that options for a single process are not used with torchrun."""
    for name, is_given in options:
        if is_given and _is_distributed():
            raise SettingsError(f"{name} runs in a single process: use it without torchrun")


def _is_distributed() -> bool:
    """Return True if torchrun has started several processes."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


def _checked(path: Path, changes: list[str]) -> Settings:
    from uwaga.settings import Settings, parse

    return parse(Settings, _values(path, changes), str(path))


def _sweep(path: Path, changes: list[str], sweep: Path) -> None:
    """Run a hyperparameter search; see :mod:`uwaga.training.sweep`."""
    from uwaga.settings import SweepSettings, parse, read_yaml

    sweep_settings = parse(SweepSettings, read_yaml(sweep), str(sweep))
    with needing("sweep", "hyperparameter search"):
        from uwaga.training.sweep import sweep as try_settings
    if try_settings(sweep_settings, path, _values(path, changes), typer.echo) is None:
        raise typer.Exit(INTERRUPTED)


def _init(path: Path, preset: str | None, changes: list[str], estimate: bool) -> None:
    """Write a settings file, and print how long its run will take if torch is installed."""
    from uwaga.training.template import template_settings, write_template

    write_template(path, preset, changes)
    typer.echo(f"wrote {path}: name your corpora in it, then: uwaga train {path}", err=True)
    if not estimate:
        return
    settings = template_settings(preset, changes)
    try:
        with needing("train", "an estimate"):
            from uwaga.training import estimate as times
    except MissingExtraError as error:
        typer.echo(str(error), err=True)
        return
    typer.echo(
        f"measuring this machine for at most {times.SECONDS:.0f} s (skip with --no-estimate)", err=True
    )
    typer.echo(
        f"{settings.training.steps:,} updates: {times.estimate_time(settings, times.SECONDS)}", err=True
    )


def _values(path: Path, changes: list[str]) -> dict[str, object]:
    """Return the unchecked settings of a file with the changes applied."""
    from uwaga.settings import change_setting, read_yaml

    values = read_yaml(path)
    for change in changes:
        try:
            change_setting(values, change)
        except SettingsError as error:
            raise SettingsError(f"--set {error}") from None
    return values

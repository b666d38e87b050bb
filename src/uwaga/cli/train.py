"""``uwaga train``: from a settings file to a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from uwaga.errors import SettingsError

INTERRUPTED = 130


def train(
    settings: Annotated[Path, typer.Argument(help="YAML settings file.", show_default=False)],
    init: Annotated[
        bool, typer.Option("--init", help="Write a commented settings file there instead of training.")
    ] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change one setting, e.g. `training.seed=2`; may be given again.",
            show_default=False,
        ),
    ] = None,
) -> None:
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
        _write_template(settings)
        return
    from uwaga.settings import Settings, parse, read_yaml

    values = read_yaml(settings)
    for change in set_ or []:
        _apply(values, change)
    checked = parse(Settings, values, str(settings))
    try:
        from uwaga.training.train import train as run
    except ModuleNotFoundError as error:
        from uwaga.errors import MissingExtraError

        raise MissingExtraError(
            f"training needs {error.name}, which is not installed: pip install 'uwaga[train]'"
        ) from None
    if run(checked) is None:
        raise typer.Exit(INTERRUPTED)


def _write_template(path: Path) -> None:
    from uwaga.training.template import settings_template

    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(settings_template())
    except FileExistsError:
        raise SettingsError(f"{path}: is already there; choose another name or delete it") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror}") from None
    typer.echo(f"wrote {path}: name your corpora in it, then: uwaga train {path}", err=True)


def _apply(values: dict[str, Any], change: str) -> None:
    import yaml

    key, equals, text = change.partition("=")
    if not equals or not key:
        raise SettingsError(f"--set {change}: expected KEY=VALUE, for example training.seed=2")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise SettingsError(f"--set {change}: {text!r} is not a YAML value") from None
    *groups, last = key.split(".")
    for group in groups:
        inner = values.setdefault(group, {})
        if not isinstance(inner, dict):
            raise SettingsError(f"--set {change}: {group} holds a value, not a group of settings")
        values = inner
    values[last] = value

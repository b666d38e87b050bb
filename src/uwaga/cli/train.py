"""``uwaga train``: train a model according to a settings file."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli.errors import INTERRUPTED, USER_ERROR, require_extra
from uwaga.errors import FailedElsewhereError, SettingsError
from uwaga.files.lines import COMPRESSED_SUFFIXES

if TYPE_CHECKING:
    from uwaga.settings import Settings

DEFAULT_FILE = "train.yaml"
LANGUAGE_CODE = re.compile(r"[a-z]{2,3}(?<!tsv|txt)")
"""A file suffix that names a language."""

SettingsFile = Annotated[
    Path | None, typer.Argument(help=f"YAML settings file; with --init by default {DEFAULT_FILE}.")
]
Init = Annotated[
    bool, typer.Option("--init", help="Write a commented settings file to this path instead of training.")
]
Corpus = Annotated[
    list[Path] | None,
    typer.Option(
        "--train",
        metavar="FILE...",
        help="With --init: the training corpus to name in the file, one TSV or two aligned files. Its size "
        "selects the preset.",
    ),
]
DevCorpus = Annotated[
    list[Path] | None, typer.Option("--dev", metavar="FILE...", help="With --init: the dev set.")
]
Preset = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="With --init: the model preset (`small`, `tiny`, `luong-small`, ...); "
        "an unknown name lists them all.",
    ),
]
Estimate = Annotated[
    bool,
    typer.Option(
        "--estimate",
        help="Estimate the training time on this machine by measuring updates for at most a minute.",
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change one setting, such as `training.seed=2`. Repeatable."
    ),
]

Sweep = Annotated[
    Path | None,
    typer.Option(
        "--sweep",
        help="Hyperparameter search: a YAML file of parameters and their ranges. Poor trials are pruned.",
    ),
]


def train(
    settings: SettingsFile = None,
    init: Init = False,
    train_: Corpus = None,
    dev: DevCorpus = None,
    preset: Preset = None,
    estimate: Estimate = False,
    set_: Changes = None,
    sweep: Sweep = None,
) -> None:
    """Train a translation model on your own sentence pairs.

    Rerun the same command to resume a run interrupted by Ctrl-C, a crash or a power cut. It ends with the
    same weights as an uninterrupted run (on a CPU, bit for bit).

    **Examples**

    Write a settings file with every setting and its description, for a corpus of your own:

        uwaga train my-model.yaml --init --train train.en train.de --dev dev.en dev.de

    Train with it, and watch the losses in TensorBoard:

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
    _check_single_process(("--init", init), ("--sweep", sweep is not None), ("--estimate", estimate))
    if init:
        settings = settings or Path(DEFAULT_FILE)
        _init(settings, preset, {"train": train_ or [], "dev": dev or []}, set_ or [])
        if estimate:
            _estimate(settings, [])
        return
    if preset is not None:
        raise SettingsError(f"--preset needs --init; without it use --set model={preset}")
    for name, files in (("train", train_), ("dev", dev)):
        if files:
            raise SettingsError(f"--{name} needs --init; without it use --set 'data.{name}=[...]'")
    if settings is None:
        raise SettingsError("give a settings file; `uwaga train --init my-model.yaml` writes one")
    if sweep is not None:
        _sweep(settings, set_ or [], sweep)
        return
    if estimate:
        _estimate(settings, set_ or [])
    elif _train(settings, set_ or []) is None:
        raise typer.Exit(INTERRUPTED)


def _estimate(path: Path, changes: list[str]) -> None:
    """Print the estimated training time for a settings file."""
    settings = _parse_settings(path, changes)
    with require_extra("train", "training"):
        from uwaga.training.estimate import estimate_time
    typer.echo(f"{settings.training.steps:,} updates: {estimate_time(settings)}")


def _train(path: Path, changes: list[str]) -> Path | None:
    """Train with a settings file, and return the model's folder, or None if the training was interrupted.

    The training runs in this process, or in all processes that torchrun started.
    """
    # report mistakes before importing torch, which takes seconds
    settings = None if _is_distributed() else _parse_settings(path, changes)
    with require_extra("train", "training"):
        from uwaga.training.ranks import join_ranks
        from uwaga.training.train import train as train_model
    try:
        with join_ranks() as ranks:
            settings = settings or ranks.run_on_all(lambda: _parse_settings(path, changes))
            folder = train_model(settings, ranks)
            if folder is not None and ranks.is_first:
                option = "--model" if settings.adapt.lora is None else "--adapter"
                typer.echo(f"try: uwaga translate {option} {folder} 'a sentence'", err=True)
            return folder
    except FailedElsewhereError:  # the failed process has reported the reason
        raise typer.Exit(USER_ERROR) from None


def _check_single_process(*options: tuple[str, bool]) -> None:
    """Raise SettingsError if an option for a single process is used with torchrun."""
    for name, is_given in options:
        if is_given and _is_distributed():
            raise SettingsError(f"{name} runs in a single process: use it without torchrun")


def _is_distributed() -> bool:
    """Return True if torchrun has started several processes."""
    return os.environ.get("WORLD_SIZE", "1") != "1"


def _parse_settings(path: Path, changes: list[str]) -> Settings:
    from uwaga.settings import Settings, parse

    return parse(Settings, _values(path, changes), str(path))


def _sweep(path: Path, changes: list[str], sweep: Path) -> None:
    """Run a hyperparameter search; see :mod:`uwaga.training.sweep`."""
    from uwaga.settings import SweepSettings, parse, read_yaml

    sweep_settings = parse(SweepSettings, read_yaml(sweep), str(sweep))
    with require_extra("sweep", "hyperparameter search"):
        from uwaga.training.sweep import sweep as try_settings
    if try_settings(sweep_settings, path, _values(path, changes), typer.echo) is None:
        raise typer.Exit(INTERRUPTED)


def _init(path: Path, preset: str | None, files: dict[str, list[Path]], changes: list[str]) -> None:
    """Write a settings file, with the corpora of ``files`` if there are any."""
    from uwaga.training.template import preset_for, write_template

    initial_changes = [f"run={json.dumps(str(Path('runs', path.stem)))}"]
    for name, paths in files.items():
        if len(paths) > 2:
            raise SettingsError(
                f"--{name}: {len(paths)} files; give one TSV or two aligned files (the settings file first)"
            )
        for file in paths:
            if not file.is_file():
                raise SettingsError(f"--{name}: {file}: no such file")
        if paths:
            initial_changes.append(f"data.{name}={json.dumps([str(file) for file in paths])}")
    if len(codes := [code for file in files["train"] if (code := _language(file))]) == 2:
        initial_changes.append(f"data.languages={json.dumps(codes)}")
    if preset is None and files["train"]:
        preset, pairs = preset_for(files["train"])
        typer.echo(f"preset {preset}: about {pairs:,} pairs, judging by the size of the files", err=True)
    write_template(path, preset, [*initial_changes, *changes])
    missing_keys = [f"data.{name}" for name, paths in files.items() if not paths]
    task = f"name your corpora in it ({', '.join(missing_keys)}), then" if missing_keys else "train with"
    typer.echo(f"wrote {path}; {task}: uwaga train {path}", err=True)


def _language(file: Path) -> str | None:
    """Return the language code in a file name such as ``train.en.gz``, or None if there is none."""
    suffixes = [part for part in file.suffixes if part not in COMPRESSED_SUFFIXES]
    last_suffix = suffixes[-1][1:] if suffixes else ""
    return last_suffix if LANGUAGE_CODE.fullmatch(last_suffix) else None


def _values(path: Path, changes: list[str]) -> dict[str, object]:
    """Return the unchecked settings of a file with the changes applied."""
    from uwaga.plugins import load_listed_plugins
    from uwaga.settings import change_setting, read_yaml

    values = read_yaml(path)
    load_listed_plugins(values, str(path))
    for change in changes:
        try:
            change_setting(values, change)
        except SettingsError as error:
            raise SettingsError(f"--set {error}") from None
    return values

"""A checkpoint of a run as a model to start another run from."""

from __future__ import annotations

import re
from pathlib import Path

from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.checkpoints.files.safetensors_read import open_tensors
from uwaga.checkpoints.formats.uwaga.checks import read_tokeniser
from uwaga.checkpoints.formats.uwaga.format import UWAGA
from uwaga.checkpoints.languages import Languages
from uwaga.checkpoints.weight_map import Table, View, Weights
from uwaga.errors import ModelError
from uwaga.search import from_settings
from uwaga.settings import load_settings

NAME = re.compile(r"step-[0-9]+\.safetensors")
PREFIX = "model."


def is_run_checkpoint(name: str | Path) -> bool:
    """Whether a name is that of a run's checkpoint, ``RUN/checkpoints/step-00001000.safetensors``."""
    return bool(NAME.fullmatch(Path(name).name))


def read_run_checkpoint(name: str | Path) -> Checkpoint:
    """The model in a checkpoint, with the settings and tokenisers of its run.

    Raises:
        ModelError: it is missing, or of a run that itself began from a model: parts of that lie elsewhere.
        SettingsError: the run's ``settings.yaml`` is missing or damaged.
    """
    path = Path(name)
    run = path.parent.parent
    if not path.is_file():
        raise ModelError(f"{path}: no such checkpoint; `ls {path.parent}` lists those that are kept")
    settings = load_settings(run / "settings.yaml")
    if settings.init is not None and settings.adapt.vocabulary == "keep":
        raise ModelError(
            f"{path}: of a run that began from {settings.init}, whose tokenisers are not in it; make a model "
            f"of it first: `uwaga average {run} FOLDER --last 1`"
        )
    sides = ("joint", "joint") if settings.text.joint else ("source", "target")
    source, target = (read_tokeniser(run / "text" / f"{side}.spm") for side in sides)
    target = source if settings.text.joint else target
    stored = open_tensors(path)
    names = [one.removeprefix(PREFIX) for one in stored if one.startswith(PREFIX)]
    weights = Weights(
        {one: stored[PREFIX + one].shape for one in names},
        Table({one: (View(PREFIX + one),) for one in names}),
        stored,
    )
    decoding, text = from_settings(settings.decoding)
    return Checkpoint(
        place=path,
        format=UWAGA.name,
        family=settings.model.family,
        settings=settings.model,
        symbols=target.symbols,
        source_vocabulary=source.size,
        target_vocabulary=target.size,
        vocabulary=(source.size, target.size),
        source=source,
        target=target,
        languages=Languages(source, target, settings.data.languages, where=str(path)),
        decoding=decoding,
        text=text,
        weights=weights,
    )

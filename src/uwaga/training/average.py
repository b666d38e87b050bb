"""A model folder of a run's newest checkpoints, whether the run is over or not."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from uwaga.errors import CheckpointError
from uwaga.settings import Settings, TrainingSettings, load_settings
from uwaga.tokenizers.subwords import TrainingSubwords
from uwaga.tokenizers.tokeniser import Tokeniser
from uwaga.training.base import Base, open_base
from uwaga.training.card import model_card
from uwaga.training.checkpoint import (
    Progress,
    average_checkpoints,
    checkpoint_path,
    checkpoint_steps,
    regular_steps,
)
from uwaga.training.finished import write_finished
from uwaga.training.run import load_weights
from uwaga.training.start import start_model


def average_run(run: Path, out: Path, count: int | None = None) -> list[int]:
    """Write the mean of a run's newest checkpoints as the model folder ``out``; the run is not touched.

    Those that `uwaga train` would average at its end, and the newest of all, whatever it was written for: an
    interrupt or a good score.

    Args:
        run: a folder of ``uwaga train``; its corpora are not needed.
        out: the folder to make.
        count: how many checkpoints; the run's ``training.average`` if None, or one where that is 0.

    Returns:
        the steps of the checkpoints.

    Raises:
        SettingsError: the folder holds no settings of a run.
        CheckpointError: there are fewer checkpoints, or one is damaged or of another model.
        ModelError: a tokeniser is missing, or ``out`` cannot be written.
    """
    settings, base = open_base(load_settings(run / "settings.yaml"))
    steps, weights = _newest_mean(run / "checkpoints", settings.training, count)
    newest = checkpoint_path(run / "checkpoints", steps[-1])
    source, target = _tokenisers(run, settings, base)
    model = start_model(settings, base, source, target)
    load_weights(model, weights, newest)
    model.eval()
    progress = Progress(step=steps[-1])
    origin = f"mean of the checkpoints of steps {', '.join(map(str, steps))}"
    card = model_card(settings, origin, None, progress)
    write_finished(out, settings, base, model, (source, target), card)
    return steps


def _newest_mean(
    folder: Path, training: TrainingSettings, count: int | None
) -> tuple[list[int], dict[str, Tensor]]:
    wanted = count or training.average or 1
    while True:
        steps = sorted({*regular_steps(folder, training), *checkpoint_steps(folder)[-1:]})
        if wanted > len(steps):
            raise CheckpointError(
                f"{folder}: {len(steps)} checkpoints to average and not {wanted}; ask for fewer, "
                "or keep more with training.keep_last"
            )
        steps = steps[-wanted:]
        paths = [checkpoint_path(folder, step) for step in steps]
        try:
            return steps, average_checkpoints(paths)
        except CheckpointError:
            if all(path.exists() for path in paths):
                raise
            # The run goes on, and has replaced one of them by a newer one.


def _tokenisers(
    run: Path, settings: Settings, base: Base | None
) -> tuple[TrainingSubwords, TrainingSubwords]:
    if base is not None and settings.adapt.vocabulary == "keep":
        return base.source, base.target
    names = ("joint",) if settings.text.joint else ("source", "target")
    found = [Tokeniser.load(run / "text" / f"{name}.spm") for name in names]
    return found[0], found[-1]

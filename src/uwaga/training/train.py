"""``uwaga train`` as a function: a settings file in, a model folder out."""

from __future__ import annotations

import os
from pathlib import Path

import torch
import yaml

from uwaga.checkpoints.uwaga.folder import save_model
from uwaga.errors import SettingsError
from uwaga.models.base import Seq2Seq
from uwaga.models.build import build_model, check_model
from uwaga.settings import Settings
from uwaga.training.card import model_card
from uwaga.training.checkpoint import average_checkpoints, checkpoint_path, regular_steps
from uwaga.training.corpus import Corpora, prepare_corpora
from uwaga.training.interrupt import Interrupt
from uwaga.training.report import Reporter
from uwaga.training.run import Run, load_weights, prepare_process
from uwaga.training.validation import Validation, validate


def train(settings: Settings) -> Path | None:
    """Train, or go on with a run that was stopped; the same call either way.

    Returns:
        the folder of the finished model, or None if the run was interrupted after writing a checkpoint.

    Raises:
        UwagaError: the settings, the corpora, a checkpoint or the disk is at fault.
    """
    check_model(settings.model)
    device = prepare_process(settings)
    _check_device(device, settings)
    settings.run.mkdir(parents=True, exist_ok=True)
    with Reporter(settings.run, settings.training.steps) as reporter, Interrupt() as interrupt:
        corpora = prepare_corpora(settings, reporter.say)
        torch.manual_seed(settings.training.seed)
        model = build_model(
            settings.model, corpora.target.symbols, corpora.source.size, corpora.target.size
        ).to(device)
        run = Run(settings, model, corpora, reporter)
        if run.resume():
            reporter.say(f"going on from step {run.progress.step}")
        else:
            _write_settings(settings)
            weights = sum(p.numel() for p in model.parameters())
            reporter.say(f"a new run with {weights:,} weights in {settings.run}")
        if not run.train(interrupt):
            reporter.say(f"stopped at step {run.progress.step}; the same command goes on from there")
            return None
        return _finish(run, model, corpora, reporter)


def _finish(run: Run, model: Seq2Seq, corpora: Corpora, reporter: Reporter) -> Path:
    """Average the newest checkpoints (or take the best), validate the result, write the model folder."""
    settings = run.settings
    regular = regular_steps(run.folder, settings.training)
    if settings.training.average and regular:
        steps = regular[-settings.training.average :]
        weights = average_checkpoints([checkpoint_path(run.folder, step) for step in steps])
        origin = f"mean of the checkpoints of steps {', '.join(map(str, steps))}"
        load_weights(model, weights, checkpoint_path(run.folder, steps[-1]))
    elif run.progress.best:
        step = max(run.progress.best, key=lambda step: run.progress.best[step])
        path = checkpoint_path(run.folder, step)
        load_weights(model, average_checkpoints([path]), path)
        origin = f"checkpoint of step {step}, the best on the dev set"
    else:
        origin = f"weights of step {run.progress.step}"
    result = _validate_finally(settings, model, corpora)
    reporter.say(f"final model: {origin}")
    reporter.validation(run.progress, result)
    folder = settings.run / "model"
    model.eval()
    save_model(
        folder,
        model,
        settings.model,
        settings.decoding,
        corpora.source,
        corpora.target,
        settings.data.languages,
        model_card(settings, origin, result, run.progress),
        dtype=settings.training.save_dtype,
    )
    reporter.say(f"model written to {folder}; try: uwaga translate --model {folder} 'a sentence'")
    return folder


def _validate_finally(settings: Settings, model: Seq2Seq, corpora: Corpora) -> Validation:
    return validate(
        model,
        corpora.dev_batches,
        corpora.dev_pairs[: settings.training.validation_sentences],
        corpora.source,
        corpora.target,
        settings.training.model_copy(update={"validation_beam": settings.decoding.beam}),
        settings.decoding,
    )


def _write_settings(settings: Settings) -> None:
    path = settings.run / "settings.yaml"
    partial = path.with_suffix(".partial")
    text = yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def _check_device(device: torch.device, settings: Settings) -> None:
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingsError(
            f"training.device: {settings.training.device} is not there; set it to auto or cpu"
        )

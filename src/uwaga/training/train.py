"""``uwaga train`` as a function: a settings file in, a model folder out."""

from __future__ import annotations

from pathlib import Path

import torch
import yaml

from uwaga.checkpoints.uwaga.folder import save_model
from uwaga.errors import SettingsError
from uwaga.models.build import build_model, check_model
from uwaga.settings import Settings
from uwaga.training.card import model_card
from uwaga.training.changes import check_text, check_unchanged, free_changes
from uwaga.training.checkpoint import newest_checkpoint, read_progress
from uwaga.training.corpus import prepare_corpora
from uwaga.training.disk import failures_named, remove_leftovers, replace_text
from uwaga.training.final import load_final_weights
from uwaga.training.interrupt import Interrupt
from uwaga.training.lock import RunLock
from uwaga.training.report import Reporter
from uwaga.training.run import Run, prepare_process


def train(settings: Settings) -> Path | None:
    """Train, or go on with a run that was stopped; the same call either way.

    Returns:
        the folder of the finished model, or None if the run was interrupted after writing a checkpoint.

    Raises:
        RunInUseError: another process trains in the folder.
        UwagaError: the settings, the corpora, a checkpoint or the disk is at fault.
    """
    check_model(settings.model)
    device = prepare_process(settings)
    _check_device(device, settings)
    settings.run.mkdir(parents=True, exist_ok=True)
    with failures_named(settings.run), RunLock(settings.run):
        remove_leftovers(settings.run)
        with Reporter(settings.run, settings.training.steps) as reporter, Interrupt() as interrupt:
            return _train(settings, device, reporter, interrupt)


def _train(settings: Settings, device: torch.device, reporter: Reporter, interrupt: Interrupt) -> Path | None:
    newest = newest_checkpoint(settings.run / "checkpoints")
    if newest is None:
        check_text(settings.run, settings)
    else:
        check_unchanged(newest, read_progress(newest).settings, settings)
        for change in free_changes(settings):
            reporter.say(f"changed: {change}")
    _write_settings(settings)
    corpora = prepare_corpora(settings, reporter.say)
    torch.manual_seed(settings.training.seed)
    model = build_model(settings.model, corpora.target.symbols, corpora.source.size, corpora.target.size).to(
        device
    )
    run = Run(settings, model, corpora, reporter)
    if run.resume():
        reporter.say(f"going on from step {run.progress.step}")
    else:
        weights = sum(p.numel() for p in model.parameters())
        reporter.say(f"a new run with {weights:,} weights in {settings.run}")
    reporter.start(run.progress)
    if not run.train(interrupt):
        reporter.say(f"stopped at step {run.progress.step}; the same command goes on from there")
        return None
    return _finish(run)


def _finish(run: Run) -> Path:
    """Choose the weights, validate them as they will be used, write the model folder."""
    settings, corpora, reporter = run.settings, run.corpora, run.reporter
    weights = load_final_weights(run)
    reporter.say(f"final model: {weights.origin}")
    result = run.validate("the final model", settings.decoding.beam)
    reporter.validation(run.progress, result, "final", weights.steps)
    folder = settings.run / "model"
    run.model.eval()
    save_model(
        folder,
        run.model,
        settings.model,
        settings.decoding,
        corpora.source,
        corpora.target,
        settings.data.languages,
        model_card(settings, weights.origin, result, run.progress),
        dtype=settings.training.save_dtype,
        usual=result.usual,
    )
    reporter.finish()
    reporter.say(f"model written to {folder}; try: uwaga translate --model {folder} 'a sentence'")
    return folder


def _write_settings(settings: Settings) -> None:
    text = yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    replace_text(settings.run / "settings.yaml", text)


def _check_device(device: torch.device, settings: Settings) -> None:
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingsError(
            f"training.device: {settings.training.device} is not there; set it to auto or cpu"
        )

"""``uwaga train`` as a function: a settings file in, a model folder out."""

from __future__ import annotations

from pathlib import Path

import torch
import yaml

from uwaga.errors import SettingsError
from uwaga.models.build import check_model
from uwaga.settings import Settings
from uwaga.training.base import Base, open_base
from uwaga.training.card import model_card
from uwaga.training.changes import check_text, check_unchanged, free_changes
from uwaga.training.checkpoint import newest_checkpoint, read_progress
from uwaga.training.corpus import prepare_corpora
from uwaga.training.disk import failures_named, remove_leftovers, replace_text
from uwaga.training.final import load_final_weights
from uwaga.training.finished import check_dtype, finished_folder, write_finished
from uwaga.training.interrupt import Interrupt
from uwaga.training.lock import RunLock
from uwaga.training.report import Reporter
from uwaga.training.run import Run, prepare_process
from uwaga.training.start import start_model
from uwaga.training.validation import Validation


def train(settings: Settings) -> Path | None:
    """Train, or go on with a run that was stopped; the same call either way.

    Returns:
        the folder of the finished model, or None if the run was interrupted after writing a checkpoint.

    Raises:
        RunInUseError: another process trains in the folder.
        UwagaError: the settings, the corpora, a checkpoint or the disk is at fault.
    """
    settings, base = open_base(settings)
    check_dtype(settings, base)
    check_model(settings.model)
    device = prepare_process(settings)
    _check_device(device, settings)
    settings.run.mkdir(parents=True, exist_ok=True)
    with failures_named(settings.run), RunLock(settings.run):
        remove_leftovers(settings.run)
        with Reporter(settings.run, settings.training.steps) as reporter, Interrupt() as interrupt:
            return _train(settings, base, device, reporter, interrupt)


def _train(
    settings: Settings, base: Base | None, device: torch.device, reporter: Reporter, interrupt: Interrupt
) -> Path | None:
    newest = newest_checkpoint(settings.run / "checkpoints")
    if newest is None:
        check_text(settings.run, settings)
    else:
        check_unchanged(newest, read_progress(newest).settings, settings)
        for change in free_changes(settings):
            reporter.say(f"changed: {change}")
    _write_settings(settings)
    sides = None if base is None or settings.adapt.vocabulary == "new" else (base.source, base.target)
    corpora = prepare_corpora(settings, reporter.say, sides)
    model = start_model(settings, base, corpora.source, corpora.target).to(device)
    run = Run(settings, model, corpora, reporter, base)
    if run.resume():
        reporter.say(f"going on from step {run.progress.step}")
        reporter.start(run.progress)
    else:
        weights = sum(p.numel() for p in model.parameters())
        trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
        told = f"{weights:,} weights" if trained == weights else f"{weights:,} weights, {trained:,} trained,"
        reporter.say(f"a new run with {told} in {settings.run}")
        reporter.start(run.progress)
        if base is not None:
            run.measure_before()
    if not run.train(interrupt):
        reporter.say(f"stopped at step {run.progress.step}; the same command goes on from there")
        return None
    return _finish(run)


def _finish(run: Run) -> Path:
    """Choose the weights, validate them as they will be used, write the model folder."""
    settings, corpora, reporter = run.settings, run.corpora, run.reporter
    weights = load_final_weights(run)
    reporter.say(f"final model: {weights.origin}")
    result = run.validate("the final model", run.beam)
    reporter.validation(run.progress, result, "final", weights.steps)
    changes = _changes(run, result)
    for change in changes:
        reporter.say(change)
    folder = finished_folder(settings)
    run.model.eval()
    card = model_card(settings, weights.origin, result, run.progress, changes)
    sides = (corpora.source, corpora.target)
    write_finished(folder, settings, run.base, run.model, sides, card, result.usual)
    reporter.finish()
    what, option = ("model", "--model") if settings.adapt.lora is None else ("adapter", "--adapter")
    reporter.say(f"{what} written to {folder}; try: uwaga translate {option} {folder} 'a sentence'")
    return folder


def _changes(run: Run, result: Validation) -> list[str]:
    """What each dev set scored before the first update and scores now: ``dev: BLEU 13.7 → 22.9 (+9.2)``."""
    if not run.progress.before and not run.corpora.also:
        return []
    lines = []
    for name, now in {"dev": result.main, **run.measure(run.corpora.also, "after")}.items():
        unit = "BLEU" if run.training.validation_sentences else "log-probability per token"
        before = run.progress.before.get(name)
        told = f"{now:.2f}" if before is None else f"{before:.2f} → {now:.2f} ({now - before:+.2f})"
        lines.append(f"{name}: {unit} {told}")
    return lines


def _write_settings(settings: Settings) -> None:
    text = yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    replace_text(settings.run / "settings.yaml", text)


def _check_device(device: torch.device, settings: Settings) -> None:
    if device.type == "cuda" and not torch.cuda.is_available():
        raise SettingsError(
            f"training.device: {settings.training.device} is not there; set it to auto or cpu"
        )

"""The entry point of training: :func:`train` turns settings into a model folder."""

from __future__ import annotations

import hashlib
import json
from contextlib import ExitStack
from pathlib import Path

import torch
import yaml

from uwaga.files.atomic import write_file
from uwaga.files.lock import RunLock
from uwaga.models.base import Seq2Seq
from uwaga.models.build import check_model
from uwaga.settings import Settings, TrainingSettings
from uwaga.training.base import Base, open_base
from uwaga.training.batch_sharding import check_world
from uwaga.training.changes import check_text, check_unchanged, free_changes
from uwaga.training.checkpoint import failures_named, newest_checkpoint, read_progress, remove_leftovers
from uwaga.training.consistency import check_consistent, check_shared_folder
from uwaga.training.corpus import prepare_corpora
from uwaga.training.final_model import (
    check_dtype,
    final_folder,
    load_final_weights,
    model_card,
    write_final_model,
)
from uwaga.training.initial_model import start_model
from uwaga.training.process import Interrupt, prepare_process
from uwaga.training.ranks import ALONE, Ranks
from uwaga.training.report import NullReporter, Reporter
from uwaga.training.run import Run
from uwaga.training.step import TrainableModel
from uwaga.training.utilisation import find_utilisation
from uwaga.training.validation import Validation

FINISHED = "finished.json"
"""File in a run's folder with the checkpoint and the settings that its model was written with."""


def train(settings: Settings, ranks: Ranks = ALONE) -> Path | None:
    """Train a model, or resume an interrupted run; the call is the same. A finished run is not changed.

    Args:
        settings: the settings of the run.
        ranks: the processes that train it together; each of them makes this call.

    Returns:
        the folder of the finished model, or None if the run was interrupted and has written a checkpoint.

    Raises:
        RunInUseError: another process trains in the folder.
        RankLostError: another process has ended or does not answer.
        FailedElsewhereError: another process has failed and has reported why.
        UwagaError: an error in the settings, the corpora, a checkpoint or on the disk.
    """
    settings, base, device = ranks.agree(lambda: _checked(settings, ranks))
    check_consistent(ranks, settings, base)
    ranks.connect(device, settings.training.timeout)
    with failures_named(settings.run), ExitStack() as held:
        ranks.lead(lambda: _claim(settings, held))
        check_shared_folder(ranks, settings.run)
        reporter = held.enter_context(
            (Reporter if ranks.first else NullReporter)(settings.run, settings.training.steps)
        )
        if ranks.lead(lambda: _is_finished(settings)):
            folder = final_folder(settings)
            reporter.say(f"finished already: {folder}; delete it to validate and write it again")
            return folder
        interrupt = held.enter_context(Interrupt(patient=ranks.world > 1))
        ranks.hurry_when(lambda: interrupt.requested)
        run = _open_run(settings, base, device, reporter, ranks)
        if not run.train(interrupt):
            reporter.say(f"stopped at step {run.progress.step}; rerun the same command to resume")
            return None
        return Path(ranks.lead(lambda: str(_finish(run))))


def _checked(settings: Settings, ranks: Ranks) -> tuple[Settings, Base | None, torch.device]:
    """Complete and check the settings; return them with the base model and the device. Nothing is written."""
    settings, base = open_base(settings)
    check_dtype(settings, base)
    check_model(settings.model)
    check_world(settings.training, ranks.world)
    return settings, base, prepare_process(settings, ranks)


def _claim(settings: Settings, held: ExitStack) -> None:
    """Lock the run's folder, and check that the settings match those of an interrupted run there."""
    settings.run.mkdir(parents=True, exist_ok=True)
    held.enter_context(RunLock(settings.run))
    remove_leftovers(settings.run)
    newest = newest_checkpoint(settings.run / "checkpoints")
    if newest is None:
        check_text(settings.run, settings)
    else:
        check_unchanged(newest, read_progress(newest).settings, settings)


def _open_run(
    settings: Settings, base: Base | None, device: torch.device, reporter: Reporter, ranks: Ranks
) -> Run:
    """Return the run, restored from its newest checkpoint or before its first update."""
    if ranks.first and newest_checkpoint(settings.run / "checkpoints") is not None:
        for change in free_changes(settings):
            reporter.say(f"changed: {change}")
    ranks.lead(lambda: _write_settings(settings))
    sides = None if base is None or settings.adapt.vocabulary == "new" else (base.source, base.target)
    corpora = ranks.in_turn(lambda: prepare_corpora(settings, reporter.say, sides))
    training = settings.training
    model = ranks.agree(lambda: start_model(settings, base, corpora.source, corpora.target))
    if training.precision == "float64":
        model.double()
    ranks.broadcast([parameter.data for parameter in model.parameters()])
    trained = ranks.agree(lambda: _trained(model, training, ranks, device))
    reporter.utilisation = find_utilisation(model, training, ranks, device)
    run = Run(settings, model, corpora, reporter, base, ranks, trained)
    resumed = ranks.agree(run.resume)
    if resumed:
        reporter.say(f"resuming from step {run.progress.step}")
    else:
        weights = sum(p.numel() for p in model.parameters())
        changed = sum(p.numel() for p in model.parameters() if p.requires_grad)
        size = f"{weights:,} weights" if changed == weights else f"{weights:,} weights, {changed:,} trained"
        reporter.say(f"starting a new run in {settings.run}: {size}")
    _say_ranks(training, ranks, device, reporter)
    reporter.start(run.progress)
    if base is not None and not resumed:
        ranks.lead(run.measure_before)
    return run


def _trained(
    model: Seq2Seq, settings: TrainingSettings, ranks: Ranks, device: torch.device
) -> TrainableModel:
    """Return the trainable weights on the device; the model is moved there too unless it is sharded."""
    if ranks.world == 1 or settings.distributed == "ddp":
        return TrainableModel(model.to(device), settings, ranks)
    from uwaga.training.fsdp import ShardedTrainableModel

    return ShardedTrainableModel(model, settings, ranks, device)


def _say_ranks(training: TrainingSettings, ranks: Ranks, device: torch.device, reporter: Reporter) -> None:
    """Report how an update is divided among several processes, and the peak that utilisation refers to."""
    if ranks.world > 1:
        each = training.accumulate // ranks.world
        reporter.say(
            f"{ranks.world} processes ({training.distributed}, {device.type}): an update is "
            f"{training.accumulate} batches of {training.batch_tokens:,} tokens, {each} for each process"
        )
    if reporter.utilisation:
        reporter.say(str(reporter.utilisation))


def _finish(run: Run) -> Path:
    """Choose the final weights, validate them with the final beam size, and write the model folder."""
    settings, corpora, reporter = run.settings, run.corpora, run.reporter
    weights = load_final_weights(run)
    reporter.say(f"final model: {weights.origin}")
    result = run.validate("the final model", run.beam)
    reporter.validation(run.progress, result, "final", weights.steps)
    changes = _changes(run, result)
    for change in changes:
        reporter.say(change)
    folder = final_folder(settings)
    run.model.eval()
    card = model_card(settings, weights.origin, result, run.progress, changes)
    sides = (corpora.source, corpora.target)
    write_final_model(folder, settings, run.base, run.model, sides, card, result.score_stats)
    reporter.finish()
    write_file(settings.run / FINISHED, json.dumps(_finished_state(settings)))
    what, option = ("model", "--model") if settings.adapt.lora is None else ("adapter", "--adapter")
    reporter.say(f"{what} written to {folder}; try: uwaga translate {option} {folder} 'a sentence'")
    return folder


def _is_finished(settings: Settings) -> bool:
    """Return True if the run has written its model, and neither its settings nor its checkpoints changed."""
    try:
        before = json.loads((settings.run / FINISHED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return final_folder(settings).is_dir() and before == _finished_state(settings)


def _finished_state(settings: Settings) -> dict[str, object]:
    values = settings.model_dump_json(exclude={"run"})
    newest = newest_checkpoint(settings.run / "checkpoints")
    return {"checkpoint": newest and newest.name, "settings": hashlib.sha256(values.encode()).hexdigest()}


def _changes(run: Run, result: Validation) -> list[str]:
    """Return a line per dev set with its scores before and after: ``dev: BLEU 13.7 → 22.9 (+9.2)``."""
    if not run.progress.before and not run.corpora.also:
        return []
    lines = []
    for name, now in {"dev": result.main, **run.measure(run.corpora.also, "after")}.items():
        unit = "BLEU" if run.training.validation_sentences else "log-probability per token"
        before = run.progress.before.get(name)
        shown = f"{now:.2f}" if before is None else f"{before:.2f} → {now:.2f} ({now - before:+.2f})"
        lines.append(f"{name}: {unit} {shown}")
    return lines


def _write_settings(settings: Settings) -> None:
    text = yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    write_file(settings.run / "settings.yaml", text)

"""The entry point of training: :func:`train` turns settings into a model folder.

Unusual: the same call handles a new, an interrupted and a finished run, and every process of a run makes it;
work that needs several processes, or only one of them, goes through ``ranks``. This file does not depend on
the model's family, the loss, or the order of the corpora; :mod:`uwaga.training.run` has the loop.
"""

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
from uwaga.training.base_model import BaseCheckpoint, open_base
from uwaga.training.batch_sharding import check_process_count
from uwaga.training.changes import check_subword_models, check_unchanged, describe_changes
from uwaga.training.checkpoint import newest_checkpoint, read_progress, remove_leftovers, wrap_write_errors
from uwaga.training.consistency import check_consistent, check_shared_folder
from uwaga.training.corpus import Corpora, prepare_corpora
from uwaga.training.final_model import (
    check_save_dtype,
    final_folder,
    load_final_weights,
    model_card,
    write_final_model,
)
from uwaga.training.initial_model import make_initial_model
from uwaga.training.page import read_json
from uwaga.training.process import Interrupt, prepare_process
from uwaga.training.ranks import SINGLE_PROCESS, Ranks
from uwaga.training.report import NullReporter, Reporter
from uwaga.training.run import Run
from uwaga.training.step import TrainableModel
from uwaga.training.utilisation import find_utilisation
from uwaga.training.validation import Validation

FINISHED_FILE = "finished.json"
"""File in a run's folder with the checkpoint and the settings of its finished model."""


def train(settings: Settings, ranks: Ranks = SINGLE_PROCESS) -> Path | None:
    """Train a model, or resume an interrupted run. A finished run is not changed.

    Args:
        settings: settings of the run.
        ranks: processes that train the model together; each of them makes this call.

    Returns:
        the folder of the finished model, or None if the run was interrupted and has written a checkpoint.

    Raises:
        RunInUseError: another process is training in the folder.
        RankLostError: another process has ended or has not answered in time.
        FailedElsewhereError: another process has failed and has reported the reason.
        UwagaError: there is a problem with the settings, the corpora, a checkpoint or the disk.
    """
    settings, base, device = ranks.run_on_all(lambda: _check_settings(settings, ranks))
    check_consistent(ranks, settings, base)
    ranks.connect(device, settings.training.timeout)
    with wrap_write_errors(settings.run), ExitStack() as stack:
        ranks.run_on_rank_0(lambda: _lock_folder(settings, stack))
        check_shared_folder(ranks, settings.run)
        reporter = stack.enter_context(
            (Reporter if ranks.is_first else NullReporter)(settings.run, settings.training.steps)
        )
        if ranks.run_on_rank_0(lambda: _is_finished(settings)):
            folder = final_folder(settings)
            reporter.log(f"finished already: {folder}; delete it to validate and write it again")
            return folder
        interrupt = stack.enter_context(Interrupt(ignore_repeats=ranks.world > 1))
        ranks.set_stop_condition(lambda: interrupt.requested)
        run = _start_or_resume(settings, base, device, reporter, ranks)
        if not run.train(interrupt):
            reporter.log(f"stopped at step {run.progress.step}; rerun the same command to resume")
            return None
        return Path(ranks.run_on_rank_0(lambda: str(_write_model(run))))


def _check_settings(settings: Settings, ranks: Ranks) -> tuple[Settings, BaseCheckpoint | None, torch.device]:
    """Return the completed and checked settings, the base model and the device; write no files."""
    settings, base = open_base(settings)
    check_save_dtype(settings, base)
    check_model(settings.model)
    check_process_count(settings.training, ranks.world)
    return settings, base, prepare_process(settings, ranks)


def _lock_folder(settings: Settings, stack: ExitStack) -> None:
    """Lock the run's folder, and check that the settings match those of an interrupted run in it."""
    settings.run.mkdir(parents=True, exist_ok=True)
    stack.enter_context(RunLock(settings.run))
    remove_leftovers(settings.run)
    newest_path = newest_checkpoint(settings.run / "checkpoints")
    if newest_path is None:
        check_subword_models(settings.run, settings)
    else:
        check_unchanged(newest_path, read_progress(newest_path).settings, settings)


def _start_or_resume(
    settings: Settings, base: BaseCheckpoint | None, device: torch.device, reporter: Reporter, ranks: Ranks
) -> Run:
    """Return the run, restored from its newest checkpoint if there is one."""
    if ranks.is_first and newest_checkpoint(settings.run / "checkpoints") is not None:
        for change in describe_changes(settings):
            reporter.log(f"changed: {change}")
    ranks.run_on_rank_0(lambda: _write_settings(settings))
    tokenisers = None if base is None or settings.adapt.vocabulary == "new" else (base.source, base.target)
    corpora = ranks.run_rank_0_first(lambda: prepare_corpora(settings, reporter.log, tokenisers))
    model = _make_model(settings, base, corpora, ranks)
    trainable = ranks.run_on_all(lambda: _make_trainable(model, settings.training, ranks, device))
    reporter.utilisation = find_utilisation(model, settings.training, ranks, device)
    run = Run(settings, model, corpora, reporter, base, ranks, trainable)
    resumed = ranks.run_on_all(run.resume)
    _log_start(run, resumed)
    _log_ranks(settings.training, ranks, device, reporter)
    reporter.start(run.progress)
    if base is not None and not resumed:
        ranks.run_on_rank_0(run.score_base)
    return run


def _make_model(settings: Settings, base: BaseCheckpoint | None, corpora: Corpora, ranks: Ranks) -> Seq2Seq:
    """Return the initial model, with the same weights in all processes."""
    model = ranks.run_on_all(lambda: make_initial_model(settings, base, corpora.source, corpora.target))
    if settings.training.precision == "float64":
        model.double()
    ranks.broadcast([parameter.data for parameter in model.parameters()])
    return model


def _log_start(run: Run, resumed: bool) -> None:
    """Log the step from which a run is resumed, or the number of weights of a new run."""
    if resumed:
        run.reporter.log(f"resuming from step {run.progress.step}")
        return
    weights = sum(p.numel() for p in run.model.parameters())
    trainable_weights = sum(p.numel() for p in run.model.parameters() if p.requires_grad)
    size = f"{weights:,} weights"
    if trainable_weights < weights:
        size += f", {trainable_weights:,} trained"
    run.reporter.log(f"starting a new run in {run.settings.run}: {size}")


def _make_trainable(
    model: Seq2Seq, settings: TrainingSettings, ranks: Ranks, device: torch.device
) -> TrainableModel:
    """Return the trainable weights on the device; without sharding, the model itself is moved there."""
    if ranks.world == 1 or settings.distributed == "ddp":
        return TrainableModel(model.to(device), settings, ranks)
    from uwaga.training.fsdp import ShardedTrainableModel

    return ShardedTrainableModel(model, settings, ranks, device)


def _log_ranks(training: TrainingSettings, ranks: Ranks, device: torch.device, reporter: Reporter) -> None:
    """Log how updates are divided among processes, and the peak speed to which utilisation refers."""
    if ranks.world > 1:
        batches = training.accumulate // ranks.world
        reporter.log(
            f"{ranks.world} processes ({training.distributed}, {device.type}): an update is "
            f"{training.accumulate} batches of {training.batch_tokens:,} tokens, {batches} for each process"
        )
    if reporter.utilisation:
        reporter.log(str(reporter.utilisation))


def _write_model(run: Run) -> Path:
    """Choose the final weights, validate them, and write the model folder; return its path."""
    settings, corpora, reporter = run.settings, run.corpora, run.reporter
    weights = load_final_weights(run)
    reporter.log(f"final model: {weights.origin}")
    result = run.validate("the final model", run.beam)
    reporter.validation(run.progress, result, "final", weights.steps)
    changes = _describe_score_changes(run, result)
    for change in changes:
        reporter.log(change)
    folder = final_folder(settings)
    run.model.eval()
    card = model_card(settings, weights.origin, result, run.progress, changes)
    tokenisers = (corpora.source, corpora.target)
    write_final_model(folder, settings, run.base, run.model, tokenisers, card, result.score_stats)
    reporter.finish()
    write_file(settings.run / FINISHED_FILE, json.dumps(_finished_state(settings)))
    reporter.log(f"{'model' if settings.adapt.lora is None else 'adapter'} written to {folder}")
    return folder


def _is_finished(settings: Settings) -> bool:
    """Return True if the finished model exists and neither settings nor checkpoints have changed since."""
    saved_state = read_json(settings.run / FINISHED_FILE)
    return final_folder(settings).is_dir() and saved_state == _finished_state(settings)


def _finished_state(settings: Settings) -> dict[str, object]:
    values = settings.model_dump_json(exclude={"run"})
    newest_path = newest_checkpoint(settings.run / "checkpoints")
    return {
        "checkpoint": newest_path and newest_path.name,
        "settings": hashlib.sha256(values.encode()).hexdigest(),
    }


def _describe_score_changes(run: Run, result: Validation) -> list[str]:
    """Return one line per dev set with its scores before and after: ``dev: BLEU 13.7 → 22.9 (+9.2)``."""
    if not run.progress.before and not run.corpora.also:
        return []
    lines = []
    for name, current_score in {
        "dev": result.main_score,
        **run.score_dev_sets(run.corpora.also, "after"),
    }.items():
        unit = "BLEU" if run.training.validation_sentences else "log-probability per token"
        score_before = run.progress.before.get(name)
        scores = (
            f"{current_score:.2f}"
            if score_before is None
            else f"{score_before:.2f} → {current_score:.2f} ({current_score - score_before:+.2f})"
        )
        lines.append(f"{name}: {unit} {scores}")
    return lines


def _write_settings(settings: Settings) -> None:
    text = yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    write_file(settings.run / "settings.yaml", text)

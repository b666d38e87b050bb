"""A training run, from a settings file to a model folder, which can be interrupted and resumed at any time.

The folder of a run::

    lock              the process that is training in the folder
    settings.yaml     the settings of the run
    text/             the subword models
    data/             the prepared corpora
    checkpoints/      step-*.safetensors, the newest and the best
    logs/             TensorBoard events
    metrics.jsonl     one line per report and validation
    samples.jsonl     translations of a few dev sentences, and BLEU by length, per validation
    report.html       curves and samples, written at the end (or by `uwaga report` at any time)
    model/            the finished model
    finished.json     the checkpoint and settings of the finished model
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from uwaga.data.batches import Batch
from uwaga.errors import CheckpointError
from uwaga.models.base import Seq2Seq
from uwaga.search import options_from_settings
from uwaga.settings import Settings
from uwaga.training.base_model import BaseCheckpoint
from uwaga.training.batch_sharding import shard_batches
from uwaga.training.changes import check_unchanged, fixed_settings, scoring_settings
from uwaga.training.checkpoint import (
    Progress,
    checkpoint_path,
    checkpoint_steps,
    is_regular,
    newest_checkpoint,
    read_checkpoint,
    regular_steps,
    write_checkpoint,
)
from uwaga.training.corpus import Corpora, DevSet
from uwaga.training.initial_model import learning_rate_factors
from uwaga.training.optimiser import make_optimiser, optimiser_tensors, restore_optimiser
from uwaga.training.process import Interrupt
from uwaga.training.ranks import SINGLE_PROCESS, Ranks, full_tensors
from uwaga.training.report import Reporter, ValidationPart
from uwaga.training.step import TrainableModel, UpdateStats
from uwaga.training.validation import Validation, validate


class Run:
    """A training run: a model, its optimiser and its position in the data.

    On the same kind of device, with the same numbers of processes and threads, the state after an update
    depends only on the settings and the corpora, not on interruptions: the order of the data is a function of
    the seed and the epoch, and random numbers are a function of the seed and the update.
    """

    def __init__(
        self,
        settings: Settings,
        model: Seq2Seq,
        corpora: Corpora,
        reporter: Reporter,
        base: BaseCheckpoint | None = None,
        ranks: Ranks = SINGLE_PROCESS,
        trainable: TrainableModel | None = None,
    ) -> None:
        """Create a run before its first update.

        Args:
            settings: settings of the run, completed by :func:`uwaga.training.base_model.open_base`.
            model: model, on the CPU or the training device.
            corpora: prepared data.
            reporter: reporter of the progress.
            base: base model, or None.
            ranks: processes that train the model together, each with its own ``Run``.
            trainable: weights that updates change; those of ``model`` by default.
        """
        self.settings, self.training, self.base = settings, settings.training, base
        self.model, self.corpora, self.reporter, self.ranks = model, corpora, reporter, ranks
        self.trainable = trainable or TrainableModel(model, self.training, ranks)
        self.optimiser = make_optimiser(
            self.trainable.model, self.training, learning_rate_factors(settings, self.trainable.model)
        )
        self.folder = settings.run / "checkpoints"
        self.progress = Progress(
            settings=fixed_settings(settings),
            scoring=scoring_settings(settings),
            corpus=corpora.size,
            base="" if base is None else base.sha256,
        )

    def resume(self) -> bool:
        """Restore the newest checkpoint; return True if there is one, otherwise False."""
        path = newest_checkpoint(self.folder)
        if path is None:
            return False
        progress, tensors = read_checkpoint(path)
        check_unchanged(path, progress.settings, self.settings)
        if progress.base != self.progress.base:
            raise CheckpointError(
                f"{path}: {self.settings.init} has changed since the run started from it (checksum "
                f"{progress.base[:12]} then, {self.progress.base[:12]} now); restore the model, or start "
                "another run with --set run=FOLDER"
            )
        weights = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
        load_weights(self.model, weights, path)
        self.trainable.copy_from(self.model)
        if progress.step:  # there is no optimiser state before the first update
            restore_optimiser(self.trainable.model, self.optimiser, progress.step, tensors)
        self.progress = self._with_current_settings(progress)
        return True

    def _with_current_settings(self, saved_progress: Progress) -> Progress:
        """Return the progress of a checkpoint, updated for the current settings and corpora."""
        current_progress = self.progress
        if saved_progress.corpus not in ("", current_progress.corpus):
            self.reporter.log(
                f"data.train has changed: {saved_progress.corpus} before, {current_progress.corpus} now; "
                "the run continues with the new data, so its result differs from that of an uninterrupted run"
            )
        is_comparable = saved_progress.scoring in ({}, current_progress.scoring)
        if not is_comparable:
            self.reporter.log(
                "the validation settings have changed: earlier scores are not used to choose the best "
                "checkpoint"
            )
        return replace(
            saved_progress,
            settings=current_progress.settings,
            scoring=current_progress.scoring,
            corpus=current_progress.corpus,
            best=saved_progress.best if is_comparable else {},
            stale=saved_progress.stale if is_comparable else 0,
            interrupted=False,
        )

    def score_base(self) -> None:
        """Store the base model's score on every dev set in the run's progress, for the final comparison."""
        sets = {"dev": self.corpora.dev, **self.corpora.also}
        self.progress = replace(self.progress, before=self.score_dev_sets(sets, "before"))

    def score_dev_sets(self, sets: Mapping[str, DevSet], part: ValidationPart) -> dict[str, float]:
        """Validate and report the current weights on each dev set; return the main scores by dev set name."""
        scores: dict[str, float] = {}
        for name, dev_set in sets.items():
            result = self.validate(f"{name}, {part}", self.beam, dev_set)
            self.reporter.report_dev_set(self.progress, name, result, part)
            scores[name] = result.main_score
        return scores

    @property
    def beam(self) -> int:
        """The default beam size of the finished model."""
        return self.settings.decoding.beam if self.base is None else self.base.search.beam

    def save(self, interrupted: bool = False) -> None:
        """Write a checkpoint, and delete checkpoints that are no longer needed."""
        self.trainable.copy_to(self.model, self.ranks.is_first)
        moments = optimiser_tensors(self.trainable.model, self.optimiser)
        full_moments = full_tensors(moments, self.ranks.is_first)
        self.ranks.run_on_rank_0(lambda: self._write_and_prune(full_moments, interrupted))

    def _write_and_prune(self, moments: Mapping[str, Tensor], interrupted: bool) -> None:
        frozen_names = {
            name for name, p in self.model.named_parameters(remove_duplicate=False) if not p.requires_grad
        }
        state = self.model.state_dict()
        tensors: dict[str, Tensor] = {f"model.{k}": v for k, v in state.items() if k not in frozen_names}
        for name, tied_name in self._find_aliases().items():
            if name not in frozen_names:
                del tensors[f"model.{name}"]
                assert f"model.{tied_name}" in tensors
        tensors.update(moments)
        write_checkpoint(self.folder, replace(self.progress, interrupted=interrupted), tensors)
        regular = regular_steps(self.folder, self.training)
        keep = {*regular[-self.training.keep_last :], *self.progress.best, self.progress.step}
        for step in checkpoint_steps(self.folder):
            if step not in keep:
                checkpoint_path(self.folder, step).unlink(missing_ok=True)

    def _find_aliases(self) -> dict[str, str]:
        """Return the additional names of tied tensors, each mapped to the first name of its tensor."""
        first_names: dict[int, str] = {}
        aliases = {}
        for name, tensor in self.model.state_dict().items():
            if tensor.data_ptr() in first_names:
                aliases[name] = first_names[tensor.data_ptr()]
            else:
                first_names[tensor.data_ptr()] = name
        return aliases

    def train(self, interrupt: Interrupt) -> bool:
        """Train until the last step, early stopping or an interrupt; return False after an interrupt."""
        self.model.train()
        updater = self.trainable.updater(self.optimiser)
        ranks, accumulate = self.ranks, self.training.accumulate
        batches = self.corpora.stream(self.progress.epoch, self.progress.batch, ranks.rank, ranks.world)
        try:
            while self.progress.step < self.training.steps:
                group: list[Batch] = []
                epoch, index = self.progress.epoch, self.progress.batch
                for _ in range(accumulate // ranks.world):
                    (epoch, index), batch = next(batches)
                    group.append(batch)
                sharding, stopping = shard_batches(ranks, group, interrupt.requested, accumulate)
                if stopping:
                    self.save(interrupted=True)
                    return False
                result = updater.update(group, self.progress.step + 1, sharding)
                self.progress = replace(
                    self.progress, step=self.progress.step + 1, epoch=epoch, batch=index + 1
                )
                if self._after_update(result):
                    return True
            return True
        finally:
            batches.close()
            updater.close()

    def _after_update(self, result: UpdateStats) -> bool:
        """Report an update; validate and save if due; return True if training should stop early."""
        self.reporter.update(self.progress, result)
        step = self.progress.step
        keep, continues = is_regular(step, self.training), True
        if step == self.training.steps or step % self.training.validate_every == 0:
            self.trainable.copy_to(self.model, self.ranks.is_first)
            is_best, continues = self.ranks.run_on_rank_0(self._validate_step)
            keep = keep or is_best
        if keep:
            self.save()
        return not continues

    def _validate_step(self) -> tuple[bool, bool]:
        """Validate on all dev sets; return whether this step is one of the best, and whether to continue."""
        label, beam = f"step {self.progress.step}", self.training.validation_beam
        result = self.validate(label, beam)
        self.reporter.validation(self.progress, result)
        for name, dev_set in self.corpora.also.items():
            validation = self.validate(f"{name}, {label}", beam, dev_set)
            self.reporter.report_dev_set(self.progress, name, validation, "also")
        self._update_best(result)
        patience = self.training.patience
        return self.progress.step in self.progress.best, not patience or self.progress.stale < patience

    def validate(self, label: str, beam: int, dev_set: DevSet | None = None) -> Validation:
        """Return the result of a validation of the current weights.

        Args:
            label: name of the validation, for the progress display.
            beam: beam size.
            dev_set: dev set; the main dev set of the run by default.
        """
        dev_sets = dev_set or self.corpora.dev
        decoding = options_from_settings(self.settings.decoding)[0] if self.base is None else self.base.search
        with self.reporter.validating(label), self.trainable.on_device(self.model):
            return validate(
                self.model,
                dev_sets.batches,
                dev_sets.pairs[: self.training.validation_sentences],
                self.corpora.source,
                self.corpora.target,
                self.training.model_copy(update={"validation_beam": beam}),
                decoding,
            )

    def _update_best(self, result: Validation) -> None:
        score = result.score(self.training.early_stopping_metric)
        best_scores = self.progress.best
        is_improved = not best_scores or score > max(best_scores.values())
        steps_by_score = sorted({**best_scores, self.progress.step: score}.items(), key=lambda item: -item[1])
        self.progress = replace(
            self.progress,
            best=dict(steps_by_score[: max(1, self.training.keep_best)]),
            stale=0 if is_improved else self.progress.stale + 1,
        )


def load_weights(model: Seq2Seq, weights: dict[str, Tensor], path: Path) -> None:
    """Load weights into a model; one name of a tied tensor suffices, and frozen weights may be missing.

    Raises:
        CheckpointError: a weight is unknown or missing, or has a different shape; the message gives ``path``.
    """
    expected_tensors = model.state_dict()
    for name, tensor in weights.items():
        if name not in expected_tensors:
            raise CheckpointError(f"{path}: the model has no weight named {name}")
        if expected_tensors[name].shape != tensor.shape:
            raise CheckpointError(
                f"{path}: {name} has shape {tuple(tensor.shape)} in the checkpoint "
                f"and {tuple(expected_tensors[name].shape)} in the model"
            )
    stored_pointers = {expected_tensors[name].data_ptr() for name in weights}
    frozen_pointers = {p.data_ptr() for p in model.parameters() if not p.requires_grad}
    missing_names = [
        name
        for name, tensor in expected_tensors.items()
        if tensor.data_ptr() not in stored_pointers | frozen_pointers
    ]
    if missing_names:
        raise CheckpointError(f"{path}: the checkpoint lacks the weights {', '.join(missing_names[:5])}")
    model.load_state_dict(weights, strict=False)

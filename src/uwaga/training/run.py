"""A training run, from a settings file to a model folder, which can be interrupted and resumed at any time.

The folder of a run::

    lock              the process that trains there, while it runs
    settings.yaml     the settings of the run
    text/             the subword models
    data/             the prepared corpora
    checkpoints/      step-*.safetensors, the newest and the best
    logs/             TensorBoard events
    metrics.jsonl     one line per report and validation
    samples.jsonl     per validation: translations of a few dev sentences, and BLEU by length
    report.html       curves and samples, written at the end (`uwaga report` writes it any time)
    model/            the finished model
    finished.json     the checkpoint and the settings that it was written with
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from uwaga.data.batches import Batch
from uwaga.errors import CheckpointError
from uwaga.models.base import Seq2Seq
from uwaga.search import from_settings
from uwaga.settings import Settings
from uwaga.training.base import Base
from uwaga.training.batch_sharding import shard_batches
from uwaga.training.changes import check_unchanged, fixed_settings, scoring
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
from uwaga.training.initial_model import learning_rates
from uwaga.training.optimiser import make_optimiser, optimiser_tensors, restore_optimiser
from uwaga.training.process import Interrupt
from uwaga.training.ranks import ALONE, Ranks, whole_tensors
from uwaga.training.report import Reporter, ValidationPart
from uwaga.training.step import TrainableModel, Update
from uwaga.training.validation import Validation, validate


class Run:
    """A model, its optimiser and its position in the data, advanced one update at a time.

    After every update the whole state depends only on the settings and the corpora (for one kind of device
    and a fixed number of processes and threads), however often the run was interrupted: the order of the data
    is a function of seed and epoch, and random numbers are a function of seed and update.
    """

    def __init__(
        self,
        settings: Settings,
        model: Seq2Seq,
        corpora: Corpora,
        reporter: Reporter,
        base: Base | None = None,
        ranks: Ranks = ALONE,
        trained: TrainableModel | None = None,
    ) -> None:
        """Create a run before its first update.

        Args:
            settings: the settings of the run, completed by :func:`uwaga.training.base.open_base`.
            model: on the CPU or on the training device.
            corpora: the prepared data.
            reporter: receives the progress.
            base: the model that the run starts from, or None.
            ranks: the processes that train it together, each of which has one ``Run``.
            trained: the weights that an update changes; ``model`` itself by default.
        """
        self.settings, self.training, self.base = settings, settings.training, base
        self.model, self.corpora, self.reporter, self.ranks = model, corpora, reporter, ranks
        self.trained = trained or TrainableModel(model, self.training, ranks)
        self.optimiser = make_optimiser(
            self.trained.model, self.training, learning_rates(settings, self.trained.model)
        )
        self.folder = settings.run / "checkpoints"
        self.progress = Progress(
            settings=fixed_settings(settings),
            scoring=scoring(settings),
            corpus=corpora.size,
            base="" if base is None else base.sha256,
        )

    def resume(self) -> bool:
        """Restore the newest checkpoint; return False if there is none."""
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
        self.trained.fill(self.model)
        if progress.step:  # before the first update there is nothing to restore
            restore_optimiser(self.trained.model, self.optimiser, progress.step, tensors)
        self.progress = self._adopt(progress)
        return True

    def _adopt(self, before: Progress) -> Progress:
        """Return a checkpoint's progress, updated to the current settings and corpora."""
        now = self.progress
        if before.corpus not in ("", now.corpus):
            self.reporter.say(
                f"data.train has changed: {before.corpus} before, {now.corpus} now; the run continues with "
                "the new data, so its result differs from an uninterrupted run"
            )
        same = before.scoring in ({}, now.scoring)
        if not same:
            self.reporter.say(
                "the validation settings have changed: earlier scores no longer count for the best checkpoint"
            )
        return replace(
            before,
            settings=now.settings,
            scoring=now.scoring,
            corpus=now.corpus,
            best=before.best if same else {},
            stale=before.stale if same else 0,
            interrupted=False,
        )

    def measure_before(self) -> None:
        """Score the model that the run starts from on every dev set, for the comparison at the end."""
        sets = {"dev": self.corpora.dev, **self.corpora.also}
        self.progress = replace(self.progress, before=self.measure(sets, "before"))

    def measure(self, sets: Mapping[str, DevSet], part: ValidationPart) -> dict[str, float]:
        """Return the :attr:`Validation.main` score of the model on each dev set, by name."""
        scores: dict[str, float] = {}
        for name, chosen in sets.items():
            result = self.validate(f"{name}, {part}", self.beam, chosen)
            self.reporter.also(self.progress, name, result, part)
            scores[name] = result.main
        return scores

    @property
    def beam(self) -> int:
        """Beam size of the finished model."""
        return self.settings.decoding.beam if self.base is None else self.base.search.beam

    def save(self, interrupted: bool = False) -> None:
        """Write a checkpoint of the trainable weights, and remove those that need not be kept any more."""
        self.trained.collect(self.model, self.ranks.first)
        moments = optimiser_tensors(self.trained.model, self.optimiser)
        whole = whole_tensors(moments, self.ranks.first)
        self.ranks.lead(lambda: self._write(whole, interrupted))

    def _write(self, moments: Mapping[str, Tensor], interrupted: bool) -> None:
        frozen = {
            name for name, p in self.model.named_parameters(remove_duplicate=False) if not p.requires_grad
        }
        state = self.model.state_dict()
        tensors: dict[str, Tensor] = {f"model.{k}": v for k, v in state.items() if k not in frozen}
        for name, tied in self._aliases().items():
            if name not in frozen:
                del tensors[f"model.{name}"]
                assert f"model.{tied}" in tensors
        tensors.update(moments)
        write_checkpoint(self.folder, replace(self.progress, interrupted=interrupted), tensors)
        regular = regular_steps(self.folder, self.training)
        keep = {*regular[-self.training.keep_last :], *self.progress.best, self.progress.step}
        for step in checkpoint_steps(self.folder):
            if step not in keep:
                checkpoint_path(self.folder, step).unlink(missing_ok=True)

    def _aliases(self) -> dict[str, str]:
        """Return the further names of tied tensors, each with the first name of its tensor."""
        first: dict[int, str] = {}
        aliases = {}
        for name, tensor in self.model.state_dict().items():
            if tensor.data_ptr() in first:
                aliases[name] = first[tensor.data_ptr()]
            else:
                first[tensor.data_ptr()] = name
        return aliases

    def train(self, interrupt: Interrupt) -> bool:
        """Update until the last step, early stopping or an interrupt; return True if the run is finished."""
        self.model.train()
        updater = self.trained.updater(self.optimiser)
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
                done = updater.update(group, self.progress.step + 1, sharding)
                self.progress = replace(
                    self.progress, step=self.progress.step + 1, epoch=epoch, batch=index + 1
                )
                if self._after_update(done):
                    return True
            return True
        finally:
            batches.close()
            updater.close()

    def _after_update(self, done: Update) -> bool:
        """Report, validate and save where due; return True if the run is finished."""
        self.reporter.update(self.progress, done)
        step = self.progress.step
        keep, patient = is_regular(step, self.training), True
        if step == self.training.steps or step % self.training.validate_every == 0:
            self.trained.collect(self.model, self.ranks.first)
            best, patient = self.ranks.lead(self._judge)
            keep = keep or best
        if keep:
            self.save()
        return not patient

    def _judge(self) -> tuple[bool, bool]:
        """Validate; return whether this step is one of the best, and whether training continues."""
        what, beam = f"step {self.progress.step}", self.training.validation_beam
        result = self.validate(what, beam)
        self.reporter.validation(self.progress, result)
        for name, chosen in self.corpora.also.items():
            validation = self.validate(f"{name}, {what}", beam, chosen)
            self.reporter.also(self.progress, name, validation, "also")
        self._rank(result)
        patience = self.training.patience
        return self.progress.step in self.progress.best, not patience or self.progress.stale < patience

    def validate(self, what: str, beam: int, chosen: DevSet | None = None) -> Validation:
        """Validate the current weights.

        Args:
            what: name of the validation, for the progress display.
            beam: beam size.
            chosen: the dev set; the run's first one by default.
        """
        dev = chosen or self.corpora.dev
        decoding = from_settings(self.settings.decoding)[0] if self.base is None else self.base.search
        with self.reporter.validating(what), self.trained.on_device(self.model):
            return validate(
                self.model,
                dev.batches,
                dev.pairs[: self.training.validation_sentences],
                self.corpora.source,
                self.corpora.target,
                self.training.model_copy(update={"validation_beam": beam}),
                decoding,
            )

    def _rank(self, result: Validation) -> None:
        score = result.score(self.training.early_stopping_metric)
        before = self.progress.best
        improved = not before or score > max(before.values())
        ranked = sorted({**before, self.progress.step: score}.items(), key=lambda item: -item[1])
        self.progress = replace(
            self.progress,
            best=dict(ranked[: max(1, self.training.keep_best)]),
            stale=0 if improved else self.progress.stale + 1,
        )


def load_weights(model: Seq2Seq, weights: dict[str, Tensor], path: Path) -> None:
    """Load weights into a model; tied tensors are stored once, and frozen ones may be missing."""
    expected = model.state_dict()
    for name, tensor in weights.items():
        if name not in expected:
            raise CheckpointError(f"{path}: the model has no weight named {name}")
        if expected[name].shape != tensor.shape:
            raise CheckpointError(
                f"{path}: {name} has shape {tuple(tensor.shape)} in the checkpoint "
                f"and {tuple(expected[name].shape)} in the model"
            )
    stored = {expected[name].data_ptr() for name in weights}
    frozen = {p.data_ptr() for p in model.parameters() if not p.requires_grad}
    missing = [name for name, tensor in expected.items() if tensor.data_ptr() not in stored | frozen]
    if missing:
        raise CheckpointError(f"{path}: no weight for {', '.join(missing[:5])}")
    model.load_state_dict(weights, strict=False)

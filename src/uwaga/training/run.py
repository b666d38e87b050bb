"""A training run: from a settings file to a model folder, resumable at any moment.

The folder of a run::

    lock              who trains there, while somebody does
    settings.yaml     what it is trained with
    text/             the subword models
    data/             the prepared corpora
    checkpoints/      step-*.safetensors, the newest and the best
    logs/             TensorBoard events
    metrics.jsonl     one line per report and validation
    samples.jsonl     translations of a few dev sentences, and BLEU by length, of each validation
    report.html       the curves and these, when the run has ended (`uwaga report` writes it before)
    model/            the finished model
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
from uwaga.training.batch_sharding import deal_out
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
from uwaga.training.report import Judged, Reporter
from uwaga.training.step import TrainableModel, Update
from uwaga.training.validation import Validation, validate


class Run:
    """A model, its optimiser and its place in the data, moved forward one update at a time.

    After every update the whole state is a function of the settings and the corpora alone (on one kind of
    device with one number of processes and threads), however often the run was stopped and started: the order
    of the data is a function of seed and epoch, and what is drawn at random one of seed and update.
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
        """``ranks`` train it together, each with one of these.

        ``trained`` is what they update, the model itself if it is not given.
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
        """Go to the newest checkpoint, if there is one.

        Raises:
            CheckpointError: it is damaged or was made with other settings.
        """
        path = newest_checkpoint(self.folder)
        if path is None:
            return False
        progress, tensors = read_checkpoint(path)
        check_unchanged(path, progress.settings, self.settings)
        if progress.base != self.progress.base:
            raise CheckpointError(
                f"{path}: the run began from other weights than {self.settings.init} has now (checksum "
                f"{progress.base[:12]} then, {self.progress.base[:12]} now); put the model back, or begin "
                "another run with --set run=FOLDER"
            )
        weights = {k.removeprefix("model."): v for k, v in tensors.items() if k.startswith("model.")}
        load_weights(self.model, weights, path)
        self.trained.fill(self.model)
        if progress.step:  # before the first update there is nothing to restore
            restore_optimiser(self.trained.model, self.optimiser, progress.step, tensors)
        self.progress = self._going_on(progress)
        return True

    def _going_on(self, before: Progress) -> Progress:
        """Where a checkpoint stood, under the settings and corpora of now."""
        now = self.progress
        if before.corpus not in ("", now.corpus):
            self.reporter.say(
                f"data.train holds something else now: {before.corpus} before, {now.corpus} now; "
                "from here on the run is not the one that it would have been"
            )
        same = before.scoring in ({}, now.scoring)
        if not same:
            self.reporter.say("validation has changed: no score so far counts for the best checkpoint")
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
        """Measure what the model that the run begins from scores, for the comparison at the end."""
        sets = {"dev": self.corpora.dev, **self.corpora.also}
        self.progress = replace(self.progress, before=self.measure(sets, "before"))

    def measure(self, sets: Mapping[str, DevSet], part: Judged) -> dict[str, float]:
        """The :attr:`Validation.main` score of the model on each of these dev sets, by name."""
        found: dict[str, float] = {}
        for name, chosen in sets.items():
            result = self.validate(f"{name}, {part}", self.beam, chosen)
            self.reporter.also(self.progress, name, result, part)
            found[name] = result.main
        return found

    @property
    def beam(self) -> int:
        """Of the finished model."""
        return self.settings.decoding.beam if self.base is None else self.base.search.beam

    def save(self, interrupted: bool = False) -> None:
        """Write a checkpoint, of what trains alone, and remove those that are no longer wanted."""
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
        wanted = {*regular[-self.training.keep_last :], *self.progress.best, self.progress.step}
        for step in checkpoint_steps(self.folder):
            if step not in wanted:
                checkpoint_path(self.folder, step).unlink(missing_ok=True)

    def _aliases(self) -> dict[str, str]:
        """Names of tied tensors and the first name each of them has."""
        first: dict[int, str] = {}
        aliases = {}
        for name, tensor in self.model.state_dict().items():
            if tensor.data_ptr() in first:
                aliases[name] = first[tensor.data_ptr()]
            else:
                first[tensor.data_ptr()] = name
        return aliases

    def train(self, interrupt: Interrupt) -> bool:
        """Update until the last step, early stopping or an interrupt; True if the run is finished.

        Raises:
            RankLostError: another process of the run has ended, or does not answer.
            FailedElsewhereError: another has failed, and has said why.
        """
        self.model.train()
        updater = self.trained.updater(self.optimiser)
        ranks, accumulate = self.ranks, self.training.accumulate
        batches = self.corpora.stream(self.progress.epoch, self.progress.batch, ranks.rank, ranks.world)
        try:
            while self.progress.step < self.training.steps:
                own: list[Batch] = []
                epoch, index = self.progress.epoch, self.progress.batch
                for _ in range(accumulate // ranks.world):
                    (epoch, index), batch = next(batches)
                    own.append(batch)
                deal, stopping = deal_out(ranks, own, interrupt.requested, accumulate)
                if stopping:
                    self.save(interrupted=True)
                    return False
                done = updater.update(own, self.progress.step + 1, deal)
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
        """Show, validate and save what is due; whether the run is finished."""
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
        """Validate; whether this step is one of the best, and whether the run may go on."""
        what, beam = f"step {self.progress.step}", self.training.validation_beam
        result = self.validate(what, beam)
        self.reporter.validation(self.progress, result)
        for name, chosen in self.corpora.also.items():
            found = self.validate(f"{name}, {what}", beam, chosen)
            self.reporter.also(self.progress, name, found, "also")
        self._rank(result)
        patience = self.training.patience
        return self.progress.step in self.progress.best, not patience or self.progress.stale < patience

    def validate(self, what: str, beam: int, chosen: DevSet | None = None) -> Validation:
        """Validate the model as it stands, ``what`` it is called, decoding with ``beam``.

        On the dev set, or another that is ``chosen``.
        """
        dev = chosen or self.corpora.dev
        decoding = from_settings(self.settings.decoding)[0] if self.base is None else self.base.search
        with self.reporter.validating(what), self.trained.at_hand(self.model):
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
    """Put weights into a model whose tied tensors are stored once; those that do not train may be missing.

    Raises:
        CheckpointError: a name or shape does not fit; the message gives both sides.
    """
    expected = model.state_dict()
    for name, tensor in weights.items():
        if name not in expected:
            raise CheckpointError(f"{path}: the model has no weight called {name}")
        if expected[name].shape != tensor.shape:
            raise CheckpointError(
                f"{path}: {name} is {tuple(tensor.shape)} there "
                f"and {tuple(expected[name].shape)} in the model"
            )
    stored = {expected[name].data_ptr() for name in weights}
    frozen = {p.data_ptr() for p in model.parameters() if not p.requires_grad}
    missing = [name for name, tensor in expected.items() if tensor.data_ptr() not in stored | frozen]
    if missing:
        raise CheckpointError(f"{path}: there is no weight for {', '.join(missing[:5])}")
    model.load_state_dict(weights, strict=False)

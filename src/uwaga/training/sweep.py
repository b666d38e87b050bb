"""Hyperparameter search: runs of ``uwaga train``, with settings drawn and pruned by Optuna."""

from __future__ import annotations

import contextlib
import csv
import ctypes
import hashlib
import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import optuna
import yaml
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from uwaga.errors import DataError, SettingsError
from uwaga.files.atomic import write_file
from uwaga.files.lock import RunLock
from uwaga.settings import Settings, change_setting, parse
from uwaga.settings.sweep import ParameterSettings, SweepSettings, Value
from uwaga.training.page import METRICS, read_records
from uwaga.training.process import Interrupt

LOG = "train.log"
PATIENCE = 120.0
"""Seconds that a run may take to write its checkpoint and leave."""
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def changes_of(values: Mapping[str, Value]) -> list[str]:
    """The values as ``--set`` takes them: JSON is YAML."""
    return [f"{name}={json.dumps(value)}" for name, value in values.items()]


class TrialRun:
    """A run that goes on by itself.

    Args:
        settings: the file that all runs share.
        values: what is changed for this one.
        folder: of the run. One that was begun goes on from its newest checkpoint.
        metric: what is read of its validations: higher is better, so a loss is turned.
    """

    def __init__(self, settings: Path, values: Mapping[str, Value], folder: Path, metric: str) -> None:
        self.folder, self._metric = folder, metric
        self._told, self._asked = -1, False
        folder.mkdir(parents=True, exist_ok=True)
        changes = [*changes_of(values), f"run={json.dumps(str(folder))}"]
        command = [sys.executable, "-m", "uwaga", "train", str(settings)]
        with (folder / LOG).open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - this program, with settings that were checked
                [*command, *(word for change in changes for word in ("--set", change))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the sweep, which passes it on
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )

    @property
    def ended(self) -> bool:
        """Whether the process has."""
        return self._process.poll() is not None

    @property
    def failed(self) -> bool:
        """Whether it has ended, and not as it should."""
        return self.ended and self._process.returncode != 0

    def validations(self) -> Iterator[tuple[int, float]]:
        """The steps and scores of validations since the last call."""
        for step, score in self._scores("dev"):
            if step > self._told:
                self._told = step
                yield step, score

    def result(self) -> float:
        """The score of the finished model.

        Raises:
            DataError: the run has not measured it.
        """
        found = [score for _, score in self._scores("final")]
        if not found:
            raise DataError(f"{self.folder / METRICS}: no {self._metric} of the finished model")
        return found[-1]

    def interrupt(self) -> None:
        """Ask the run to write a checkpoint and leave."""
        if not self.ended and not self._asked:
            self._process.send_signal(signal.SIGINT)
        self._asked = True

    def stop(self) -> None:
        """Ask it to, and wait until it has left; one that takes too long is killed, and has an older one."""
        self.interrupt()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_words(self) -> str:
        """The last line of its log."""
        text = (self.folder / LOG).read_text(encoding="utf-8", errors="replace")
        return text.rstrip().rpartition("\n")[2]

    def _scores(self, part: str) -> Iterator[tuple[int, float]]:
        for _, values in read_records(self.folder / METRICS):
            score = values.get(self._metric)
            if values["part"] == part and isinstance(score, int | float):
                turned = -float(score) if self._metric == "loss" else float(score)
                yield values["step"], turned if math.isfinite(turned) else -math.inf


def _die_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGTERM)
        if os.getppid() == 1:
            os._exit(1)


STUDY = "study.db"
OF = "uwaga"
"""The attribute of a study that says what it is of."""
ERROR = "error"
"""The attribute of a trial whose run failed: its last words."""
KEPT = TrialState.COMPLETE, TrialState.PRUNED


def open_study(folder: Path, settings: SweepSettings, metric: str, base: object) -> optuna.Study:
    """The study in a folder, a new one where there is none.

    Args:
        folder: of the sweep.
        settings: of the sweep.
        metric: what is best.
        base: the settings that all runs share, as JSON has them.

    Raises:
        SettingsError: the study there is of other parameters or other settings.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    told = json.dumps(
        [base, metric, {name: one.model_dump() for name, one in settings.parameters.items()}], sort_keys=True
    )
    mark = hashlib.sha256(told.encode()).hexdigest()
    study = optuna.create_study(
        storage=f"sqlite:///{(folder / STUDY).resolve()}",
        study_name="uwaga",
        direction="maximize",
        sampler=_sampler(settings),
        pruner=_pruner(settings),
        load_if_exists=True,
    )
    if study.user_attrs.setdefault(OF, mark) != mark:
        raise SettingsError(
            f"{folder / STUDY}: of other parameters or other settings; choose another folder with the "
            "sweep's `run`, or delete this one"
        )
    study.set_user_attr(OF, mark)
    if settings.sampler == "grid":
        grid = {name: _grid(one) for name, one in settings.parameters.items()}
        for point in product(*grid.values()):
            study.enqueue_trial(dict(zip(grid, point, strict=True)), skip_if_exists=True)
    return study


def is_exhausted(study: optuna.Study, settings: SweepSettings) -> bool:
    """Whether nothing is left to be drawn: of a grid, when each of its points has been."""
    return settings.sampler == "grid" and not study.get_trials(states=(TrialState.WAITING,))


def counted(study: optuna.Study) -> list[FrozenTrial]:
    """The trials that ended by themselves; those that were stopped with the sweep come again."""
    return [one for one in study.trials if one.state in KEPT or ERROR in one.user_attrs]


def take_up_again(study: optuna.Study) -> None:
    """Let the values of trials that a killed sweep has left come again, before any others."""
    for trial in study.get_trials(states=(TrialState.RUNNING,)):
        put_back(study, trial.number, trial.params)


def put_back(study: optuna.Study, number: int, values: Mapping[str, Any]) -> None:
    """Let the values of a trial come again: its run goes on from its checkpoint."""
    study.tell(number, state=TrialState.FAIL)
    study.enqueue_trial(dict(values))


def same_before(study: optuna.Study, values: Mapping[str, Any]) -> FrozenTrial | None:
    """A trial of the same values that has ended, None where there is none."""
    return next((one for one in counted(study) if one.params == values), None)


def distributions(parameters: Mapping[str, ParameterSettings]) -> dict[str, BaseDistribution]:
    """The parameters as Optuna has them."""
    return {name: _distribution(one) for name, one in parameters.items()}


def _distribution(one: ParameterSettings) -> BaseDistribution:
    if one.values is not None:
        return CategoricalDistribution(one.values)
    low, high = one.range
    if one.whole:
        return IntDistribution(int(low), int(high), one.log, 1 if one.step is None else int(one.step))
    return FloatDistribution(low, high, one.log, one.step)


def _sampler(settings: SweepSettings) -> optuna.samplers.BaseSampler:
    if settings.sampler != "tpe":
        return optuna.samplers.RandomSampler(settings.seed)
    return optuna.samplers.TPESampler(seed=settings.seed, constant_liar=settings.jobs > 1)


def _grid(one: ParameterSettings) -> Sequence[Any]:
    if one.values is not None:
        return one.values
    (low, high), step = one.range, one.step or 1
    return [low + at * step for at in range(math.floor((high - low) / step + 1e-9) + 1)]


def _pruner(settings: SweepSettings) -> optuna.pruners.BasePruner:
    if settings.pruner == "median":
        return optuna.pruners.MedianPruner(settings.warm_trials, n_warmup_steps=0)
    if settings.pruner == "hyperband":
        return optuna.pruners.HyperbandPruner()
    return optuna.pruners.NopPruner()


TABLE = "trials.tsv"
BEST = "best.yaml"
SECONDS = 0.5
"""Between two looks at the runs."""


@dataclass
class _Going:
    trial: optuna.Trial
    run: TrialRun
    validations: int = 0


def sweep(
    settings: SweepSettings, file: Path, values: Mapping[str, Any], say: Callable[[str], None]
) -> Path | None:
    """Try settings, or go on with a sweep that was stopped.

    Args:
        settings: of the sweep.
        file: the settings that all runs share.
        values: what is in it, unchecked.
        say: told how it goes, a line at a time.

    Returns:
        the folder of the best run; None if the sweep was interrupted, or no run has ended well.

    Raises:
        SettingsError: a parameter's value makes settings that cannot be trained, the folder holds another
            sweep, or no run has ended well.
        RunInUseError: another process sweeps in the folder.
    """
    base = _check(settings, file, values)
    metric = settings.metric or base.training.early_stopping_metric
    if metric != "loss" and not base.training.validation_sentences:
        raise SettingsError(f"metric {metric}: training.validation_sentences is 0, so none is decoded")
    folder = settings.run or base.run
    folder.mkdir(parents=True, exist_ok=True)
    with RunLock(folder, "sweeps", "the sweep's run"), Interrupt() as interrupt:
        study = open_study(folder, settings, metric, base.model_dump(mode="json", exclude={"run"}))
        take_up_again(study)
        _Sweep(settings, file, folder, metric, study, say).go_on(interrupt)
        if interrupt.requested:
            say(f"stopped with {len(counted(study))} of {settings.trials} trials; the same command goes on")
            return None
        return _best(study, folder, values, say)


class _Sweep:
    """The runs that are going on."""

    def __init__(
        self,
        settings: SweepSettings,
        file: Path,
        folder: Path,
        metric: str,
        study: optuna.Study,
        say: Callable[[str], None],
    ) -> None:
        self.settings, self.file, self.folder, self.metric = settings, file, folder, metric
        self.study, self.say = study, say
        self.space = distributions(settings.parameters)
        self.going: list[_Going] = []

    def go_on(self, interrupt: Interrupt) -> None:
        """Until all have ended; interrupted, what goes on is stopped and comes again."""
        try:
            while not interrupt.requested:
                self._begin()
                if not self.going:
                    return
                time.sleep(SECONDS)
                for one in list(self.going):
                    self._look(one)
        finally:
            for one in self.going:
                one.run.interrupt()
            for one in self.going:
                one.run.stop()
                put_back(self.study, one.trial.number, one.trial.params)

    def _begin(self) -> None:
        while (
            len(self.going) < self.settings.jobs
            and len(counted(self.study)) + len(self.going) < self.settings.trials
        ):
            if is_exhausted(self.study, self.settings):
                return
            trial = self.study.ask(self.space)
            known = same_before(self.study, trial.params)
            if known is not None:  # what is trained is what its settings say: nothing new would come of it
                self._tell_again(trial, known)
                continue
            name = f"trial {trial.number}"
            self.say(f"{name}: {', '.join(changes_of(trial.params))}")
            run = TrialRun(self.file, trial.params, self.folder / folder_of(trial.params), self.metric)
            self.going.append(_Going(trial, run))

    def _tell_again(self, trial: optuna.Trial, known: optuna.trial.FrozenTrial) -> None:
        if ERROR in known.user_attrs:
            trial.set_user_attr(ERROR, known.user_attrs[ERROR])
        self.study.tell(trial, known.value if known.state is TrialState.COMPLETE else None, known.state)
        self.say(f"trial {trial.number}: the values of trial {known.number} again")

    def _look(self, one: _Going) -> None:
        number, ended = one.trial.number, one.run.ended  # before its records are read
        for step, score in one.run.validations():
            one.trial.report(score, step)
            one.validations += 1
            self.say(f"trial {number}: step {step}, {self._shown(score)}")
            if not ended and one.validations > self.settings.warm_validations and one.trial.should_prune():
                one.run.stop()
                self._end(one, None, TrialState.PRUNED)
                self.say(f"trial {number}: stopped early")
                return
        if not ended:
            return
        if one.run.failed:
            one.trial.set_user_attr(ERROR, one.run.last_words())
            self._end(one, None, TrialState.FAIL)
            self.say(f"trial {number}: failed: {one.run.last_words()} ({one.run.folder})")
            return
        score = one.run.result()
        self._end(one, score, TrialState.COMPLETE)
        best = self.study.best_trial
        so_far = f"best: trial {best.number}, {self._shown(best.value)}"
        self.say(f"trial {number}: {self._shown(score)}; {so_far}")

    def _end(self, one: _Going, score: float | None, state: TrialState) -> None:
        self.study.tell(one.trial, score, state)
        self.going.remove(one)
        write_file(self.folder / TABLE, _table(self.study, self.settings))

    def _shown(self, score: float | None) -> str:
        assert score is not None
        return f"{self.metric} {abs(score):.3f}"


def folder_of(values: Mapping[str, Value]) -> str:
    """The name of a run's folder: that of the same values, always."""
    told = json.dumps(dict(values), sort_keys=True)
    return f"trial-{hashlib.sha256(told.encode()).hexdigest()[:10]}"


def _check(settings: SweepSettings, file: Path, values: Mapping[str, Any]) -> Settings:
    """The settings that all runs share; each listed value and both ends of each range are tried in them."""
    base = parse(Settings, _changed(values, []), str(file))
    for name, parameter in settings.parameters.items():
        if name == "run":
            raise SettingsError("run: each trial has a folder of its own")
        for value in parameter.ends:
            change = changes_of({name: value})
            parse(Settings, _changed(values, change), f"{file} with {change[0]}")
    return base


def _changed(values: Mapping[str, Any], changes: list[str]) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(values))
    for change in changes:
        change_setting(made, change)
    return made


def _table(study: optuna.Study, settings: SweepSettings) -> str:
    written = io.StringIO()
    table = csv.writer(written, dialect="excel-tab", lineterminator="\n")
    table.writerow(["trial", "state", "score", "folder", *settings.parameters])
    for one in counted(study):
        score = "" if one.value is None else f"{one.value:.6g}"
        row = [one.params[name] for name in settings.parameters]
        table.writerow([one.number, one.state.name.lower(), score, folder_of(one.params), *row])
    return written.getvalue()


def _best(study: optuna.Study, folder: Path, values: Mapping[str, Any], say: Callable[[str], None]) -> Path:
    ended = counted(study)
    if not any(one.state is TrialState.COMPLETE for one in ended):
        failures = [one.user_attrs[ERROR] for one in ended if ERROR in one.user_attrs]
        why = f"; the last failure: {failures[-1]}" if failures else ""
        raise SettingsError(f"{folder}: none of {len(ended)} trials has ended well{why}")
    best = study.best_trial
    run = folder / folder_of(best.params)
    made = _changed(values, [*changes_of(best.params), f"run={json.dumps(str(run))}"])
    write_file(folder / BEST, yaml.safe_dump(made, sort_keys=False, allow_unicode=True))
    say(f"best: trial {best.number}, {', '.join(changes_of(best.params))}: {run}; settings: {folder / BEST}")
    return run

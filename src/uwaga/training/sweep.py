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

from uwaga.child_processes import python_command
from uwaga.errors import DataError, SettingsError
from uwaga.files.atomic import write_file
from uwaga.files.lock import RunLock
from uwaga.settings import Settings, change_setting, parse
from uwaga.settings.training import ParameterSettings, SweepSettings, Value
from uwaga.training.page import METRICS, read_records
from uwaga.training.process import Interrupt

LOG = "train.log"
PATIENCE = 120.0
"""Seconds that a run may take to write its checkpoint and exit."""
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def changes_of(values: Mapping[str, Value]) -> list[str]:
    """Return the values as arguments of ``--set``: JSON is YAML."""
    return [f"{name}={json.dumps(value)}" for name, value in values.items()]


class TrialRun:
    """A run of ``uwaga train`` in a process of its own.

    Args:
        settings: the settings file that all runs share.
        values: the settings changed in this run.
        folder: the folder of the run; an interrupted run there is resumed.
        metric: the metric of its validations; a loss is negated, so that higher is better.
    """

    def __init__(self, settings: Path, values: Mapping[str, Value], folder: Path, metric: str) -> None:
        self.folder, self._metric = folder, metric
        self._last_step, self._interrupted = -1, False
        folder.mkdir(parents=True, exist_ok=True)
        changes = [*changes_of(values), f"run={json.dumps(str(folder))}"]
        command = python_command("-m", "uwaga", "train", str(settings))
        with (folder / LOG).open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - this program, with checked settings
                [*command, *(word for change in changes for word in ("--set", change))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # the sweep receives Ctrl-C and interrupts its runs
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )

    @property
    def ended(self) -> bool:
        """True if the process has exited."""
        return self._process.poll() is not None

    @property
    def failed(self) -> bool:
        """True if the process has exited with an error."""
        return self.ended and self._process.returncode != 0

    def validations(self) -> Iterator[tuple[int, float]]:
        """Yield the steps and scores of validations since the last call."""
        for step, score in self._scores("dev"):
            if step > self._last_step:
                self._last_step = step
                yield step, score

    def result(self) -> float:
        """Return the score of the finished model.

        Raises:
            DataError: the run has not reported it.
        """
        scores = [score for _, score in self._scores("final")]
        if not scores:
            raise DataError(f"{self.folder / METRICS}: no {self._metric} of the finished model")
        return scores[-1]

    def interrupt(self) -> None:
        """Make the run write a checkpoint and exit."""
        if not self.ended and not self._interrupted:
            if os.name == "nt":  # which has no signals between processes
                self._process.terminate()
            else:
                self._process.send_signal(signal.SIGINT)
        self._interrupted = True

    def stop(self) -> None:
        """Interrupt the run and wait for it; after :data:`PATIENCE` seconds it is killed."""
        self.interrupt()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_log_line(self) -> str:
        """Return the last line of the run's log."""
        text = (self.folder / LOG).read_text(encoding="utf-8", errors="replace")
        return text.rstrip().rpartition("\n")[2]

    def _scores(self, part: str) -> Iterator[tuple[int, float]]:
        for _, values in read_records(self.folder / METRICS):
            score = values.get(self._metric)
            if values["part"] == part and isinstance(score, int | float):
                value = -float(score) if self._metric == "loss" else float(score)
                yield values["step"], value if math.isfinite(value) else -math.inf


def _die_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGTERM)
        if os.getppid() == 1:
            os._exit(1)


STUDY = "study.db"
OF = "uwaga"
"""Attribute of a study: checksum of its parameters and settings."""
ERROR = "error"
"""Attribute of a trial whose run failed: the last line of its log."""
KEPT = TrialState.COMPLETE, TrialState.PRUNED


def open_study(folder: Path, settings: SweepSettings, metric: str, base: object) -> optuna.Study:
    """Open the study in a folder, or create it.

    Args:
        folder: the folder of the sweep.
        settings: the settings of the sweep.
        metric: to maximise.
        base: the settings that all runs share, as JSON values.

    Raises:
        SettingsError: the existing study has other parameters or other settings.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    description = json.dumps(
        [base, metric, {name: parameter.model_dump() for name, parameter in settings.parameters.items()}],
        sort_keys=True,
    )
    checksum = hashlib.sha256(description.encode()).hexdigest()
    study = optuna.create_study(
        storage=f"sqlite:///{(folder / STUDY).resolve()}",
        study_name="uwaga",
        direction="maximize",
        sampler=_sampler(settings),
        pruner=_pruner(settings),
        load_if_exists=True,
    )
    if study.user_attrs.setdefault(OF, checksum) != checksum:
        raise SettingsError(
            f"{folder / STUDY}: the study has other parameters or other settings; choose another folder with "
            "the sweep's `run`, or delete this one"
        )
    study.set_user_attr(OF, checksum)
    if settings.sampler == "grid":
        grid = {name: _grid(parameter) for name, parameter in settings.parameters.items()}
        for point in product(*grid.values()):
            study.enqueue_trial(dict(zip(grid, point, strict=True)), skip_if_exists=True)
    return study


def is_exhausted(study: optuna.Study, settings: SweepSettings) -> bool:
    """Return True if every point of a grid has been drawn."""
    return settings.sampler == "grid" and not study.get_trials(states=(TrialState.WAITING,))


def counted(study: optuna.Study) -> list[FrozenTrial]:
    """Return the trials that ended by themselves; those interrupted with the sweep are repeated."""
    return [trial for trial in study.trials if trial.state in KEPT or ERROR in trial.user_attrs]


def requeue_unfinished(study: optuna.Study) -> None:
    """Enqueue the values of trials that a killed sweep has left unfinished."""
    for trial in study.get_trials(states=(TrialState.RUNNING,)):
        put_back(study, trial.number, trial.params)


def put_back(study: optuna.Study, number: int, values: Mapping[str, Any]) -> None:
    """Enqueue the values of a trial again; its run will resume from its checkpoint."""
    study.tell(number, state=TrialState.FAIL)
    study.enqueue_trial(dict(values))


def find_duplicate(study: optuna.Study, values: Mapping[str, Any]) -> FrozenTrial | None:
    """Return a trial that has ended with the same values, or None."""
    return next((trial for trial in counted(study) if trial.params == values), None)


def distributions(parameters: Mapping[str, ParameterSettings]) -> dict[str, BaseDistribution]:
    """Return the parameters as Optuna's distributions."""
    return {name: _distribution(parameter) for name, parameter in parameters.items()}


def _distribution(parameter: ParameterSettings) -> BaseDistribution:
    if parameter.values is not None:
        return CategoricalDistribution(parameter.values)
    low, high = parameter.range
    if parameter.whole:
        return IntDistribution(
            int(low), int(high), parameter.log, 1 if parameter.step is None else int(parameter.step)
        )
    return FloatDistribution(low, high, parameter.log, parameter.step)


def _sampler(settings: SweepSettings) -> optuna.samplers.BaseSampler:
    if settings.sampler != "tpe":
        return optuna.samplers.RandomSampler(settings.seed)
    return optuna.samplers.TPESampler(seed=settings.seed, constant_liar=settings.jobs > 1)


def _grid(parameter: ParameterSettings) -> Sequence[Any]:
    if parameter.values is not None:
        return parameter.values
    (low, high), step = parameter.range, parameter.step or 1
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
"""Seconds between two checks of the runs."""


@dataclass
class _RunningTrial:
    trial: optuna.Trial
    run: TrialRun
    validations: int = 0


def sweep(
    settings: SweepSettings, file: Path, values: Mapping[str, Any], say: Callable[[str], None]
) -> Path | None:
    """Run or resume a hyperparameter search.

    Args:
        settings: the settings of the sweep.
        file: the settings file that all runs share.
        values: its unchecked content.
        say: called with each line of progress.

    Returns:
        the folder of the best run; None if the sweep was interrupted.

    Raises:
        SettingsError: a parameter's value gives invalid settings, the folder contains another sweep, or no
            run
            has succeeded.
        RunInUseError: another process runs a sweep in the folder.
    """
    base = _check(settings, file, values)
    metric = settings.metric or base.training.early_stopping_metric
    if metric != "loss" and not base.training.validation_sentences:
        raise SettingsError(f"metric {metric}: training.validation_sentences is 0, so none is decoded")
    folder = settings.run or base.run
    folder.mkdir(parents=True, exist_ok=True)
    with RunLock(folder, "sweeps", "the sweep's run"), Interrupt() as interrupt:
        study = open_study(folder, settings, metric, base.model_dump(mode="json", exclude={"run"}))
        requeue_unfinished(study)
        _Sweep(settings, file, folder, metric, study, say).run(interrupt)
        if interrupt.requested:
            say(
                f"stopped with {len(counted(study))} of {settings.trials} trials; rerun the same command to "
                "resume"
            )
            return None
        return _best(study, folder, values, say)


class _Sweep:
    """The trials of a sweep and their running processes."""

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
        self.running: list[_RunningTrial] = []

    def run(self, interrupt: Interrupt) -> None:
        """Run trials until all have ended; on an interrupt the running ones are stopped and requeued."""
        try:
            while not interrupt.requested:
                self._begin()
                if not self.running:
                    return
                time.sleep(SECONDS)
                for trial in list(self.running):
                    self._look(trial)
        finally:
            for trial in self.running:
                trial.run.interrupt()
            for trial in self.running:
                trial.run.stop()
                put_back(self.study, trial.trial.number, trial.trial.params)

    def _begin(self) -> None:
        while (
            len(self.running) < self.settings.jobs
            and len(counted(self.study)) + len(self.running) < self.settings.trials
        ):
            if is_exhausted(self.study, self.settings):
                return
            trial = self.study.ask(self.space)
            duplicate = find_duplicate(self.study, trial.params)
            if duplicate is not None:  # the result would be the same
                self._report_duplicate(trial, duplicate)
                continue
            name = f"trial {trial.number}"
            self.say(f"{name}: {', '.join(changes_of(trial.params))}")
            run = TrialRun(self.file, trial.params, self.folder / folder_of(trial.params), self.metric)
            self.running.append(_RunningTrial(trial, run))

    def _report_duplicate(self, trial: optuna.Trial, duplicate: optuna.trial.FrozenTrial) -> None:
        if ERROR in duplicate.user_attrs:
            trial.set_user_attr(ERROR, duplicate.user_attrs[ERROR])
        self.study.tell(
            trial, duplicate.value if duplicate.state is TrialState.COMPLETE else None, duplicate.state
        )
        self.say(f"trial {trial.number}: same values as trial {duplicate.number}")

    def _look(self, trial: _RunningTrial) -> None:
        number, ended = trial.trial.number, trial.run.ended  # before its records are read
        for step, score in trial.run.validations():
            trial.trial.report(score, step)
            trial.validations += 1
            self.say(f"trial {number}: step {step}, {self._shown(score)}")
            if (
                not ended
                and trial.validations > self.settings.warm_validations
                and trial.trial.should_prune()
            ):
                trial.run.stop()
                self._end(trial, None, TrialState.PRUNED)
                self.say(f"trial {number}: pruned")
                return
        if not ended:
            return
        if trial.run.failed:
            trial.trial.set_user_attr(ERROR, trial.run.last_log_line())
            self._end(trial, None, TrialState.FAIL)
            self.say(f"trial {number}: failed: {trial.run.last_log_line()} ({trial.run.folder})")
            return
        score = trial.run.result()
        self._end(trial, score, TrialState.COMPLETE)
        best = self.study.best_trial
        so_far = f"best: trial {best.number}, {self._shown(best.value)}"
        self.say(f"trial {number}: {self._shown(score)}; {so_far}")

    def _end(self, trial: _RunningTrial, score: float | None, state: TrialState) -> None:
        self.study.tell(trial.trial, score, state)
        self.running.remove(trial)
        write_file(self.folder / TABLE, _table(self.study, self.settings))

    def _shown(self, score: float | None) -> str:
        assert score is not None
        return f"{self.metric} {abs(score):.3f}"


def folder_of(values: Mapping[str, Value]) -> str:
    """Return the name of a trial's folder, which depends on its values only."""
    text = json.dumps(dict(values), sort_keys=True)
    return f"trial-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def _check(settings: SweepSettings, file: Path, values: Mapping[str, Any]) -> Settings:
    """Return the settings that all runs share, after checking them with every listed value and range end."""
    base = parse(Settings, _changed(values, []), str(file))
    for name, parameter in settings.parameters.items():
        if name == "run":
            raise SettingsError("run: each trial has its own folder")
        for value in parameter.ends:
            change = changes_of({name: value})
            parse(Settings, _changed(values, change), f"{file} with {change[0]}")
    return base


def _changed(values: Mapping[str, Any], changes: list[str]) -> dict[str, Any]:
    changed: dict[str, Any] = json.loads(json.dumps(values))
    for change in changes:
        change_setting(changed, change)
    return changed


def _table(study: optuna.Study, settings: SweepSettings) -> str:
    written = io.StringIO()
    table = csv.writer(written, dialect="excel-tab", lineterminator="\n")
    table.writerow(["trial", "state", "score", "folder", *settings.parameters])
    for trial in counted(study):
        score = "" if trial.value is None else f"{trial.value:.6g}"
        row = [trial.params[name] for name in settings.parameters]
        table.writerow([trial.number, trial.state.name.lower(), score, folder_of(trial.params), *row])
    return written.getvalue()


def _best(study: optuna.Study, folder: Path, values: Mapping[str, Any], say: Callable[[str], None]) -> Path:
    ended = counted(study)
    if not any(trial.state is TrialState.COMPLETE for trial in ended):
        failures = [trial.user_attrs[ERROR] for trial in ended if ERROR in trial.user_attrs]
        why = f"; the last failure: {failures[-1]}" if failures else ""
        raise SettingsError(f"{folder}: none of {len(ended)} trials has succeeded{why}")
    best = study.best_trial
    run = folder / folder_of(best.params)
    best_settings = _changed(values, [*changes_of(best.params), f"run={json.dumps(str(run))}"])
    write_file(folder / BEST, yaml.safe_dump(best_settings, sort_keys=False, allow_unicode=True))
    say(f"best: trial {best.number}, {', '.join(changes_of(best.params))}: {run}; settings: {folder / BEST}")
    return run

"""Hyperparameter search: Optuna samples the settings of runs of ``uwaga train``, and prunes bad runs."""

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
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState

from uwaga.child_processes import python_command
from uwaga.errors import DataError, SettingsError
from uwaga.files.atomic import write_file
from uwaga.files.lock import RunLock
from uwaga.settings import Settings, change_setting, parse
from uwaga.settings.training import ParameterSettings, SweepSettings, Value
from uwaga.training.page import METRICS_FILE, read_records
from uwaga.training.process import Interrupt

LOG_FILE = "train.log"
STOP_SECONDS = 120.0
"""Number of seconds within which an interrupted run must write its checkpoint and exit."""
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)


def format_set_arguments(values: Mapping[str, Value]) -> list[str]:
    """Return values as arguments of ``--set``; they are written as JSON, which is also valid YAML."""
    return [f"{name}={json.dumps(value)}" for name, value in values.items()]


class TrialRun:
    """A run of ``uwaga train`` in a separate process.

    Args:
        settings: settings file of all runs.
        values: settings of this run that differ from the file.
        folder: folder of the run; an interrupted run in the folder is resumed.
        metric: metric of the validations; the loss is negated, so that higher is better.
    """

    def __init__(self, settings: Path, values: Mapping[str, Value], folder: Path, metric: str) -> None:
        self.folder, self._metric = folder, metric
        self._last_step, self._interrupted = -1, False
        folder.mkdir(parents=True, exist_ok=True)
        changes = [*format_set_arguments(values), f"run={json.dumps(str(folder))}"]
        command = python_command("-m", "uwaga", "train", str(settings))
        with (folder / LOG_FILE).open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - this program, with checked settings
                [*command, *(word for change in changes for word in ("--set", change))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # the sweep receives Ctrl-C and interrupts its runs
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )

    @property
    def has_exited(self) -> bool:
        """True if the process has exited."""
        return self._process.poll() is not None

    @property
    def has_failed(self) -> bool:
        """True if the process has exited with an error."""
        return self.has_exited and self._process.returncode != 0

    def validations(self) -> Iterator[tuple[int, float]]:
        """Yield the step and the score of each validation since the last call."""
        for step, score in self._scores("dev"):
            if step > self._last_step:
                self._last_step = step
                yield step, score

    def result(self) -> float:
        """Return the score of the finished model.

        Raises:
            DataError: the run has not reported a score of the finished model.
        """
        scores = [score for _, score in self._scores("final")]
        if not scores:
            raise DataError(f"{self.folder / METRICS_FILE}: the finished model has no {self._metric}")
        return scores[-1]

    def interrupt(self) -> None:
        """Ask the run to write a checkpoint and exit."""
        if not self.has_exited and not self._interrupted:
            if os.name == "nt":  # Windows has no signals between processes
                self._process.terminate()
            else:
                self._process.send_signal(signal.SIGINT)
        self._interrupted = True

    def stop(self) -> None:
        """Interrupt the run and wait for it; kill it after :data:`STOP_SECONDS` seconds."""
        self.interrupt()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_log_line(self) -> str:
        """Return the last line of the run's log."""
        text = (self.folder / LOG_FILE).read_text(encoding="utf-8", errors="replace")
        return text.rstrip().rpartition("\n")[2]

    def _scores(self, part: str) -> Iterator[tuple[int, float]]:
        for _, values in read_records(self.folder / METRICS_FILE):
            score = values.get(self._metric)
            if values["part"] == part and isinstance(score, int | float):
                value = -float(score) if self._metric == "loss" else float(score)
                yield values["step"], value if math.isfinite(value) else -math.inf


def _die_with_parent() -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGTERM)
        if os.getppid() == 1:
            os._exit(1)


STUDY_FILE = "study.db"
CHECKSUM_ATTRIBUTE = "uwaga"
"""Name of the study attribute that contains a checksum of the parameters and settings."""
ERROR_ATTRIBUTE = "error"
"""Name of the attribute of a failed trial that contains the last line of the trial's log."""
FINISHED_TRIAL_STATES = TrialState.COMPLETE, TrialState.PRUNED


def open_study(folder: Path, settings: SweepSettings, metric: str, base: object) -> optuna.Study:
    """Return the study in a folder; the study is created if it does not exist.

    Args:
        folder: folder of the sweep.
        settings: settings of the sweep.
        metric: metric to maximise.
        base: settings of all runs, as JSON values.

    Raises:
        SettingsError: the existing study has different parameters or settings.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    description = json.dumps(
        [base, metric, {name: parameter.model_dump() for name, parameter in settings.parameters.items()}],
        sort_keys=True,
    )
    checksum = hashlib.sha256(description.encode()).hexdigest()
    study = optuna.create_study(
        storage=f"sqlite:///{(folder / STUDY_FILE).resolve()}",
        study_name="uwaga",
        direction="maximize",
        sampler=_make_sampler(settings),
        pruner=_make_pruner(settings),
        load_if_exists=True,
    )
    if study.user_attrs.setdefault(CHECKSUM_ATTRIBUTE, checksum) != checksum:
        raise SettingsError(
            f"{folder / STUDY_FILE}: the existing study has different parameters or settings; choose another "
            f"folder with the setting `run` of the sweep, or delete the folder {folder}"
        )
    study.set_user_attr(CHECKSUM_ATTRIBUTE, checksum)
    if settings.sampler == "grid":
        grid = {name: _grid_values(parameter) for name, parameter in settings.parameters.items()}
        for point in product(*grid.values()):
            study.enqueue_trial(dict(zip(grid, point, strict=True)), skip_if_exists=True)
    return study


def is_exhausted(study: optuna.Study, settings: SweepSettings) -> bool:
    """Return True if all points of a grid have been tried."""
    return settings.sampler == "grid" and not study.get_trials(states=(TrialState.WAITING,))


def finished_trials(study: optuna.Study) -> list[FrozenTrial]:
    """Return the trials that were completed, pruned or failed, but not those interrupted with the sweep."""
    return [
        trial
        for trial in study.trials
        if trial.state in FINISHED_TRIAL_STATES or ERROR_ATTRIBUTE in trial.user_attrs
    ]


def requeue_unfinished(study: optuna.Study) -> None:
    """Enqueue the values of trials that were running when a sweep was killed."""
    for trial in study.get_trials(states=(TrialState.RUNNING,)):
        requeue(study, trial.number, trial.params)


def requeue(study: optuna.Study, number: int, values: Mapping[str, Any]) -> None:
    """Enqueue the values of a trial again; its run will resume from the newest checkpoint."""
    study.tell(number, state=TrialState.FAIL)
    study.enqueue_trial(dict(values))


def find_duplicate(study: optuna.Study, values: Mapping[str, Any]) -> FrozenTrial | None:
    """Return a finished trial with the same values, or None."""
    return next((trial for trial in finished_trials(study) if trial.params == values), None)


def distributions(parameters: Mapping[str, ParameterSettings]) -> dict[str, BaseDistribution]:
    """Return Optuna's distribution for each parameter by name."""
    return {name: _make_distribution(parameter) for name, parameter in parameters.items()}


def _make_distribution(parameter: ParameterSettings) -> BaseDistribution:
    if parameter.values is not None:
        return CategoricalDistribution(parameter.values)
    low, high = parameter.range
    if parameter.is_integer:
        return IntDistribution(
            int(low), int(high), parameter.log, 1 if parameter.step is None else int(parameter.step)
        )
    return FloatDistribution(low, high, parameter.log, parameter.step)


def _make_sampler(settings: SweepSettings) -> optuna.samplers.BaseSampler:
    if settings.sampler != "tpe":
        return optuna.samplers.RandomSampler(settings.seed)
    return optuna.samplers.TPESampler(seed=settings.seed, constant_liar=settings.jobs > 1)


def _grid_values(parameter: ParameterSettings) -> Sequence[Any]:
    if parameter.values is not None:
        return parameter.values
    (low, high), step = parameter.range, parameter.step or 1
    return [low + i * step for i in range(math.floor((high - low) / step + 1e-9) + 1)]


def _make_pruner(settings: SweepSettings) -> optuna.pruners.BasePruner:
    if settings.pruner == "median":
        return optuna.pruners.MedianPruner(settings.warm_trials, n_warmup_steps=0)
    if settings.pruner == "hyperband":
        return optuna.pruners.HyperbandPruner()
    return optuna.pruners.NopPruner()


TABLE_FILE = "trials.tsv"
BEST_FILE = "best.yaml"
POLL_SECONDS = 0.5
"""Seconds between two checks of the running trials."""


@dataclass
class _RunningTrial:
    trial: optuna.Trial
    run: TrialRun
    validations: int = 0


def sweep(
    settings: SweepSettings, file: Path, values: Mapping[str, Any], log: Callable[[str], None]
) -> Path | None:
    """Run or resume a hyperparameter search.

    Args:
        settings: settings of the sweep.
        file: settings file of all runs.
        values: content of the file, not yet checked.
        log: function called with each line of progress.

    Returns:
        the folder of the best run; None if the sweep was interrupted.

    Raises:
        SettingsError: a parameter's value gives invalid settings, the folder contains another sweep, or no
            run has succeeded.
        RunInUseError: another process runs a sweep in the folder.
    """
    base = _check_settings(settings, file, values)
    metric = settings.metric or base.training.early_stopping_metric
    if metric != "loss" and not base.training.validation_sentences:
        raise SettingsError(
            f"metric {metric}: no sentence is decoded, because training.validation_sentences is 0; set "
            "metric: loss, or training.validation_sentences"
        )
    folder = settings.run or base.run
    folder.mkdir(parents=True, exist_ok=True)
    with RunLock(folder, "running a sweep", "the sweep's run"), Interrupt() as interrupt:
        study = open_study(folder, settings, metric, base.model_dump(mode="json", exclude={"run"}))
        requeue_unfinished(study)
        _SweepRunner(settings, file, folder, metric, study, log).run(interrupt)
        if interrupt.requested:
            log(
                f"stopped with {len(finished_trials(study))} of {settings.trials} trials; rerun the same "
                "command to resume"
            )
            return None
        return _report_best(study, folder, values, log)


class _SweepRunner:
    """Runs the trials of a sweep, several at a time."""

    def __init__(
        self,
        settings: SweepSettings,
        file: Path,
        folder: Path,
        metric: str,
        study: optuna.Study,
        log: Callable[[str], None],
    ) -> None:
        self.settings, self.file, self.folder, self.metric = settings, file, folder, metric
        self.study, self.log = study, log
        self.space = distributions(settings.parameters)
        self.running: list[_RunningTrial] = []

    def run(self, interrupt: Interrupt) -> None:
        """Run trials until all have ended; after an interrupt, stop and requeue the running trials."""
        try:
            while not interrupt.requested:
                self._start_trials()
                if not self.running:
                    return
                time.sleep(POLL_SECONDS)
                for trial in list(self.running):
                    self._poll(trial)
        finally:
            for trial in self.running:
                trial.run.interrupt()
            for trial in self.running:
                trial.run.stop()
                requeue(self.study, trial.trial.number, trial.trial.params)

    def _start_trials(self) -> None:
        while (
            len(self.running) < self.settings.jobs
            and len(finished_trials(self.study)) + len(self.running) < self.settings.trials
        ):
            if is_exhausted(self.study, self.settings):
                return
            trial = self.study.ask(self.space)
            duplicate = find_duplicate(self.study, trial.params)
            if duplicate is not None:  # the result would be the same
                self._report_duplicate(trial, duplicate)
                continue
            name = f"trial {trial.number}"
            self.log(f"{name}: {', '.join(format_set_arguments(trial.params))}")
            run = TrialRun(self.file, trial.params, self.folder / trial_folder(trial.params), self.metric)
            self.running.append(_RunningTrial(trial, run))

    def _report_duplicate(self, trial: optuna.Trial, duplicate: optuna.trial.FrozenTrial) -> None:
        if ERROR_ATTRIBUTE in duplicate.user_attrs:
            trial.set_user_attr(ERROR_ATTRIBUTE, duplicate.user_attrs[ERROR_ATTRIBUTE])
        self.study.tell(
            trial, duplicate.value if duplicate.state is TrialState.COMPLETE else None, duplicate.state
        )
        self.log(f"trial {trial.number}: same values as trial {duplicate.number}")

    def _poll(self, trial: _RunningTrial) -> None:
        trial_number, exited = trial.trial.number, trial.run.has_exited  # checked before reading its records
        for step, score in trial.run.validations():
            trial.trial.report(score, step)
            trial.validations += 1
            self.log(f"trial {trial_number}: step {step}, {self._format_score(score)}")
            if (
                not exited
                and trial.validations > self.settings.warm_validations
                and trial.trial.should_prune()
            ):
                trial.run.stop()
                self._end_trial(trial, None, TrialState.PRUNED)
                self.log(f"trial {trial_number}: pruned")
                return
        if not exited:
            return
        if trial.run.has_failed:
            trial.trial.set_user_attr(ERROR_ATTRIBUTE, trial.run.last_log_line())
            self._end_trial(trial, None, TrialState.FAIL)
            self.log(f"trial {trial_number}: failed: {trial.run.last_log_line()} ({trial.run.folder})")
            return
        score = trial.run.result()
        self._end_trial(trial, score, TrialState.COMPLETE)
        best_trial = self.study.best_trial
        best_so_far = f"best: trial {best_trial.number}, {self._format_score(best_trial.value)}"
        self.log(f"trial {trial_number}: {self._format_score(score)}; {best_so_far}")

    def _end_trial(self, trial: _RunningTrial, score: float | None, state: TrialState) -> None:
        self.study.tell(trial.trial, score, state)
        self.running.remove(trial)
        write_file(self.folder / TABLE_FILE, _format_table(self.study, self.settings))

    def _format_score(self, score: float | None) -> str:
        assert score is not None
        return f"{self.metric} {abs(score):.3f}"


def trial_folder(values: Mapping[str, Value]) -> str:
    """Return the name of the folder of a trial, which depends only on the values of the trial."""
    text = json.dumps(dict(values), sort_keys=True)
    return f"trial-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def _check_settings(settings: SweepSettings, file: Path, values: Mapping[str, Any]) -> Settings:
    """Return the settings of all runs, after checking them with each listed value and each end of a range."""
    base = parse(Settings, _apply_changes(values, []), str(file))
    for name, parameter in settings.parameters.items():
        if name == "run":
            raise SettingsError("run: cannot be varied, because each trial has its own folder")
        for value in parameter.extremes:
            change = format_set_arguments({name: value})
            parse(Settings, _apply_changes(values, change), f"{file} with {change[0]}")
    return base


def _apply_changes(values: Mapping[str, Any], changes: list[str]) -> dict[str, Any]:
    values_copy: dict[str, Any] = json.loads(json.dumps(values))
    for change in changes:
        change_setting(values_copy, change)
    return values_copy


def _format_table(study: optuna.Study, settings: SweepSettings) -> str:
    text = io.StringIO()
    table = csv.writer(text, dialect="excel-tab", lineterminator="\n")
    table.writerow(["trial", "state", "score", "folder", *settings.parameters])
    for trial in finished_trials(study):
        score = "" if trial.value is None else f"{trial.value:.6g}"
        row = [trial.params[name] for name in settings.parameters]
        table.writerow([trial.number, trial.state.name.lower(), score, trial_folder(trial.params), *row])
    return text.getvalue()


def _report_best(
    study: optuna.Study, folder: Path, values: Mapping[str, Any], log: Callable[[str], None]
) -> Path:
    trials = finished_trials(study)
    if not any(trial.state is TrialState.COMPLETE for trial in trials):
        failures = [
            trial.user_attrs[ERROR_ATTRIBUTE] for trial in trials if ERROR_ATTRIBUTE in trial.user_attrs
        ]
        details = f"; the last failure: {failures[-1]}" if failures else ""
        raise SettingsError(f"{folder}: none of the {len(trials)} trials has succeeded{details}")
    best_trial = study.best_trial
    run = folder / trial_folder(best_trial.params)
    best_settings = _apply_changes(
        values, [*format_set_arguments(best_trial.params), f"run={json.dumps(str(run))}"]
    )
    write_file(folder / BEST_FILE, yaml.safe_dump(best_settings, sort_keys=False, allow_unicode=True))
    log(
        f"best: trial {best_trial.number}, {', '.join(format_set_arguments(best_trial.params))}: {run}; "
        f"settings: {folder / BEST_FILE}"
    )
    return run

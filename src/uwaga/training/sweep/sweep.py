"""Run after run, or several at once, until there are as many as were asked for."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
import yaml
from optuna.trial import TrialState

from uwaga.errors import SettingsError
from uwaga.files.lock import RunLock
from uwaga.settings import Settings, change_setting, parse
from uwaga.settings.sweep import SweepSettings, Value
from uwaga.training.disk import replace_text
from uwaga.training.interrupt import Interrupt
from uwaga.training.sweep.study import (
    ERROR,
    counted,
    distributions,
    is_exhausted,
    open_study,
    put_back,
    same_before,
    take_up_again,
)
from uwaga.training.sweep.trial import TrialRun, changes_of

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
        replace_text(self.folder / TABLE, _table(self.study, self.settings))

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
    replace_text(folder / BEST, yaml.safe_dump(made, sort_keys=False, allow_unicode=True))
    say(f"best: trial {best.number}, {', '.join(changes_of(best.params))}: {run}; settings: {folder / BEST}")
    return run

"""What Optuna is asked: which values next, whether a run is worth going on with; kept in a file of SQLite."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial, TrialState

from uwaga.errors import SettingsError
from uwaga.settings.sweep import ParameterSettings, SweepSettings

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

"""Checks that only permitted settings have changed when a run is resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from uwaga.errors import CheckpointError, SettingsError
from uwaga.settings import DataSettings, Settings, load_settings

CHANGEABLE_SETTINGS = {
    "data.train", "data.dev", "data.licence", "training.average", "training.bleu_tokenise", "training.device",
    "training.distributed", "training.early_stopping_metric", "training.keep_best", "training.keep_last",
    "training.patience", "training.peak_flops", "training.save_dtype", "training.save_every",
    "training.threads", "training.timeout", "training.validate_every", "training.validation_beam",
    "training.validation_sentences",
}  # fmt: skip
"""Settings that may change within a run, because they do not affect its updates."""
STEPS_SETTING = "training.steps"
_OPEN_ENDED_SCHEDULES = ("inverse_sqrt", "constant")
"""Schedules whose learning rate does not depend on the number of steps."""
SCORING_SETTINGS = (
    "training.bleu_tokenise",
    "training.early_stopping_metric",
    "training.validation_beam",
    "training.validation_sentences",
)
"""Settings that affect the score of a validation."""


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested settings as a flat mapping with dotted names, such as ``training.schedule.peak``."""
    flat_values: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat_values |= flatten(value, f"{prefix}{name}.")
        else:
            flat_values[prefix + name] = value
    return flat_values


def fixed_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that must not change within a run, by dotted name.

    Settings with default values are omitted, so that a setting added to uwaga later does not invalidate an
    old run.
    """
    values = settings.model_dump(
        mode="json", include={"init", "adapt", "data", "text", "model", "training"}, exclude_defaults=True
    )
    values.get("data", {}).pop("also", None)  # used only for evaluation
    if settings.model.family != "transformer":  # otherwise the family would be omitted as a default
        values["model"] = {"family": settings.model.family, **values.get("model", {})}
    for index, corpus in enumerate(settings.data.train):  # the list itself may change
        options = corpus.model_dump(
            mode="json", exclude_defaults=True, exclude={"files", "name", "format", "alignment"}
        )
        values.setdefault("data", {})[f"train.{index}"] = options
    changeable = CHANGEABLE_SETTINGS | (
        {STEPS_SETTING} if settings.training.schedule.kind in _OPEN_ENDED_SCHEDULES else set()
    )
    return {name: value for name, value in sorted(flatten(values).items()) if name not in changeable}


def scoring_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that must be equal for validation scores to be comparable, by dotted name."""
    values = flatten(settings.model_dump(mode="json", include={"training"}))
    return {name: values[name] for name in SCORING_SETTINGS}


def check_unchanged(path: Path, old_settings: dict[str, Any], settings: Settings) -> None:
    """Raise CheckpointError if a setting that must not change within a run has changed.

    Args:
        path: path of the checkpoint, for the message.
        old_settings: result of :func:`fixed_settings` stored in the checkpoint.
        settings: current settings.
    """
    current = fixed_settings(settings)
    changed_names = _changed_names(old_settings, current)
    if not changed_names:
        return
    changes = "; ".join(_describe_change(name, old_settings, current, settings) for name in changed_names)
    steps = (
        ""
        if STEPS_SETTING in changed_names
        else f"{STEPS_SETTING}, "
        if settings.training.schedule.kind in _OPEN_ENDED_SCHEDULES
        else ""
    )
    raise CheckpointError(
        f"{path}: written with other settings: {changes}. These cannot change within a run: restore them, or "
        f"choose another folder with --set run=FOLDER. Settings that may change: {steps}decoding, "
        f"{', '.join(sorted(CHANGEABLE_SETTINGS))}"
    )


def check_subword_models(run: Path, settings: Settings) -> None:
    """Raise SettingsError if the subword models of a run were trained with settings other than the run's.

    This check is for runs without checkpoints, which would otherwise silently use models that contradict
    their settings.
    """
    models = sorted((run / "text").glob("*.spm"))
    path = run / "settings.yaml"
    if not models or not path.exists():
        return  # no models, or provided by the user
    try:
        saved_settings = load_settings(path)
    except SettingsError:
        return  # written by another version
    old_settings, new_settings = (
        {f"text.{k}": v for k, v in group.text.model_dump().items()} for group in (saved_settings, settings)
    )
    if changed_names := _changed_names(old_settings, new_settings):
        changes = "; ".join(
            f"{name} was {old_settings[name]} and is now {new_settings[name]}" for name in changed_names
        )
        raise SettingsError(
            f"{run / 'text'}: the subword models were trained with other settings: {changes}; delete "
            "this folder"
        )


def describe_changes(settings: Settings) -> list[str]:
    """Return a line such as ``training.steps: 10 → 15`` for each setting that differs from settings.yaml."""
    try:
        old_values = flatten(load_settings(settings.run / "settings.yaml").model_dump(mode="json"))
    except SettingsError:
        return []
    new_values = flatten(settings.model_dump(mode="json"))
    changed_names = [name for name in _changed_names(old_values, new_values) if name != "run"]
    return [f"{name}: {old_values.get(name)} → {new_values.get(name)}" for name in changed_names]


def _changed_names(old_values: dict[str, Any], new_values: dict[str, Any]) -> list[str]:
    return [
        name for name in sorted({*old_values, *new_values}) if old_values.get(name) != new_values.get(name)
    ]


def _describe_change(
    name: str, old_values: dict[str, Any], new_values: dict[str, Any], settings: Settings
) -> str:
    default = _default_settings(settings).get(name)
    note = (
        f" (the learning rate of schedule {settings.training.schedule.kind} depends on it)"
        if name == STEPS_SETTING
        else ""
    )
    return f"{name} was {old_values.get(name, default)} and is now {new_values.get(name, default)}{note}"


def _default_settings(settings: Settings) -> dict[str, Any]:
    """Return the default of every setting, for a model of the same family as ``settings``."""
    data = DataSettings(train=settings.data.train, dev=settings.data.dev)
    default = Settings(run=settings.run, data=data)
    values = default.model_dump(mode="json") | {"model": type(settings.model)().model_dump(mode="json")}
    return flatten(values)

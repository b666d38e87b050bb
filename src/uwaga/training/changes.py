"""What of a run's settings may change between two parts of it, and what has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from uwaga.errors import CheckpointError, SettingsError
from uwaga.settings import DataSettings, Settings, load_settings

FREE = {
    "data.train",
    "data.dev",
    "data.licence",
    "training.average",
    "training.bleu_tokenise",
    "training.device",
    "training.distributed",
    "training.early_stopping_metric",
    "training.keep_best",
    "training.keep_last",
    "training.patience",
    "training.peak_flops",
    "training.save_dtype",
    "training.save_every",
    "training.threads",
    "training.timeout",
    "training.validate_every",
    "training.validation_beam",
    "training.validation_sentences",
}
"""Settings of data and training that decide no weight: where things are, what is measured, what is kept."""
LENGTH = "training.steps"
_ENDLESS = ("inverse_sqrt", "constant")
"""Schedules whose rate does not depend on how long the run is."""
SCORED = (
    "training.bleu_tokenise",
    "training.early_stopping_metric",
    "training.validation_beam",
    "training.validation_sentences",
)
"""Settings that decide what a validation's score means."""


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Groups of settings as one mapping, with dots between the names: ``training.schedule.peak``."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def fixed_settings(settings: Settings) -> dict[str, Any]:
    """The settings that must not change within a run, those that are not at their default.

    Without defaults, so that a setting added to uwaga later does not disown an old run.
    """
    values = settings.model_dump(
        mode="json", include={"init", "adapt", "data", "text", "model", "training"}, exclude_defaults=True
    )
    values.get("data", {}).pop("also", None)  # which is measured only
    if settings.model.family != "transformer":  # of each family it is the default
        values["model"] = {"family": settings.model.family, **values.get("model", {})}
    for number, corpus in enumerate(settings.data.train):  # of which the list as a whole may change
        said = corpus.model_dump(
            mode="json", exclude_defaults=True, exclude={"files", "name", "format", "alignment"}
        )
        values.setdefault("data", {})[f"train.{number}"] = said
    free = FREE | ({LENGTH} if settings.training.schedule.kind in _ENDLESS else set())
    return {name: value for name, value in sorted(flatten(values).items()) if name not in free}


def scoring(settings: Settings) -> dict[str, Any]:
    """The settings by which validations are compared with each other."""
    whole = flatten(settings.model_dump(mode="json", include={"training"}))
    return {name: whole[name] for name in SCORED}


def check_unchanged(path: Path, before: dict[str, Any] | str, settings: Settings) -> None:
    """Refuse to go on from a checkpoint that was made with other settings.

    Args:
        path: the checkpoint, for the message.
        before: its fixed settings; of an older uwaga a hash, in whose place those in settings.yaml stand.
        settings: the settings now.

    Raises:
        CheckpointError: names each changed setting with its old and new value, and those that may change.
    """
    now = fixed_settings(settings)
    if isinstance(before, str):
        before = fixed_settings(load_settings(settings.run / "settings.yaml"))
    changed = _changed(before, now)
    if not changed:
        return
    told = "; ".join(_told(name, before, now, settings) for name in changed)
    steps = "" if LENGTH in changed else f"{LENGTH}, " if settings.training.schedule.kind in _ENDLESS else ""
    raise CheckpointError(
        f"{path}: made with other settings: {told}. That cannot change within a run: put it back, or choose "
        f"another folder with --set run=FOLDER. What may change: {steps}decoding, {', '.join(sorted(FREE))}"
    )


def check_text(run: Path, settings: Settings) -> None:
    """Refuse other subword settings than those that the folder's subword models were made with.

    For a run without checkpoints, which could otherwise go on silently with models that the settings deny.

    Raises:
        SettingsError: names each changed setting with both values, and what to delete.
    """
    models = sorted((run / "text").glob("*.spm"))
    path = run / "settings.yaml"
    if not models or not path.exists():
        return  # there are none, or they are the user's own
    try:
        before = load_settings(path)
    except SettingsError:
        return  # of another version: nothing can be said
    old, new = ({f"text.{k}": v for k, v in one.text.model_dump().items()} for one in (before, settings))
    if changed := _changed(old, new):
        told = "; ".join(f"{name} was {old[name]} and is now {new[name]}" for name in changed)
        raise SettingsError(f"{run / 'text'}: subword models made with other settings: {told}; delete it")


def free_changes(settings: Settings) -> list[str]:
    """What has changed since settings.yaml was written, as lines to show: ``training.steps: 10 → 15``."""
    try:
        before = flatten(load_settings(settings.run / "settings.yaml").model_dump(mode="json"))
    except SettingsError:
        return []
    now = flatten(settings.model_dump(mode="json"))
    changed = [name for name in _changed(before, now) if name != "run"]
    return [f"{name}: {before.get(name)} → {now.get(name)}" for name in changed]


def _changed(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]


def _told(name: str, before: dict[str, Any], now: dict[str, Any], settings: Settings) -> str:
    default = _defaults(settings).get(name)
    why = f" (the rate of schedule {settings.training.schedule.kind} depends on it)" if name == LENGTH else ""
    return f"{name} was {before.get(name, default)} and is now {now.get(name, default)}{why}"


def _defaults(settings: Settings) -> dict[str, Any]:
    """What is not named is this, for a model of the family of ``settings``."""
    data = DataSettings(train=settings.data.train, dev=settings.data.dev)
    plain = Settings(run=settings.run, data=data)
    values = plain.model_dump(mode="json") | {"model": type(settings.model)().model_dump(mode="json")}
    return flatten(values)

"""The check that a resumed job is the one that was started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from uwaga.errors import SettingsError, shown


def check_same_job(place: str, started: Mapping[str, Any], now: Mapping[str, Any], elsewhere: str) -> None:
    """Refuse to resume a job with other options, models or inputs than it was started with.

    Args:
        place: name of the file or folder that the job writes.
        started: what was recorded when the job was started, as JSON values.
        now: the same of the job to run.
        elsewhere: how the user can choose another place, for the message.

    Raises:
        SettingsError: names the place, the first option that differs, and both values.
    """
    before, after = dict(_leaves(started)), dict(_leaves(now))
    for key in [*after, *before]:
        if before.get(key) != after.get(key):
            raise SettingsError(
                f"{place}: was started with {key} = {shown(before.get(key))}, and is now asked for with "
                f"{shown(after.get(key))}; use the same options to resume it, {elsewhere}, or delete it to "
                "start over"
            )


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    """Yield every leaf of nested mappings and lists with its dotted key."""
    if isinstance(value, list | tuple):
        value = {str(index): item for index, item in enumerate(value)}
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, item in value.items():
        yield from _leaves(item, f"{name}.{key}" if name else key)

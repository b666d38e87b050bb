"""Values that a user gives by name, checked before anything is computed with them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from uwaga.decoder import MAX_TOKENS
from uwaga.errors import SettingsError, shown


def check_whole(name: str, value: object, least: int, most: int = MAX_TOKENS) -> None:
    """Refuse what is no whole number from ``least`` to ``most``.

    Raises:
        SettingsError: names the option.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SettingsError(f"{name} must be a whole number, {least} or more, not {shown(value)}")
    if value > most:
        raise SettingsError(f"{name} must be {most} or less, not {shown(value)}")


def check_between(name: str, value: object, least: float, most: float = math.inf) -> None:
    """Refuse what is no number from ``least`` to ``most``.

    Raises:
        SettingsError: names the option.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise SettingsError(f"{name} must be a number from {least:g} to {most:g}, not {shown(value)}")


def check_one_of(name: str, value: object, allowed: Sequence[object]) -> None:
    """Refuse what is none of the values allowed, which are words, True and False.

    Raises:
        SettingsError: names the option and the values.
    """
    if not any(value is one or (isinstance(value, str) and value == one) for one in allowed):
        choices = ", ".join(one if isinstance(one, str) else repr(one) for one in allowed)
        raise SettingsError(f"{name} must be one of {choices}, not {shown(value)}")


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither True nor False.

    Raises:
        SettingsError: names the option.
    """
    if not isinstance(value, bool):
        raise SettingsError(f"{name} must be True or False, not {shown(value)}")


def check_word(name: str, value: object, what: str) -> None:
    """Refuse what is neither None nor a string; ``what`` says which, for the message.

    Raises:
        SettingsError: names the option.
    """
    if value is not None and not isinstance(value, str):
        raise SettingsError(f"{name} must be {what}, not {shown(value)}")

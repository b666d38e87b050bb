"""The errors of the package: uwaga's, and those that CTranslate2 raises in the same places."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from uwaga.errors import SettingsError, UwagaError


class ArgumentError(SettingsError, ValueError, TypeError):
    """An argument is unknown, of another type, impossible, or one that uwaga does not have."""


class RunError(UwagaError, RuntimeError):
    """A model cannot be loaded or has been unloaded, or a file cannot be translated."""


@contextmanager
def as_argument_errors() -> Iterator[None]:
    """Raise uwaga's errors of settings as :class:`ArgumentError`."""
    try:
        yield
    except SettingsError as error:
        raise error if isinstance(error, ArgumentError) else ArgumentError(str(error)) from None

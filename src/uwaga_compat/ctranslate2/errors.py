"""Errors that are instances both of uwaga's error classes and of the classes that CTranslate2 raises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from uwaga.errors import SettingsError, UwagaError


class ArgumentError(SettingsError, ValueError, TypeError):
    """An error about an argument that is unknown, invalid or not supported by uwaga."""


class RunError(UwagaError, RuntimeError):
    """An error about a model that is not or cannot be loaded, or about a file that cannot be translated."""


@contextmanager
def as_argument_errors() -> Iterator[None]:
    """Return a context manager that converts SettingsError to :class:`ArgumentError`."""
    try:
        yield
    except SettingsError as error:
        raise error if isinstance(error, ArgumentError) else ArgumentError(str(error)) from None

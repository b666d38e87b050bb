"""What a loaded model is, in a line: its ``repr``."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable

from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.checkpoints.languages import UNKNOWN, LanguagePair


@runtime_checkable
class Summarised(Protocol):
    """A model that says what it is."""

    @property
    def described(self) -> str:
        """Family, engine, precision and threads, with commas between."""
        ...


def summary(model: object) -> str:
    """What a model says of itself, or else the name of its class."""
    return model.described if isinstance(model, Summarised) else type(model).__name__


def whence(where: str, pair: LanguagePair) -> str:
    """A model's folder (``bundled`` is the one that comes with uwaga) and its languages.

    Where none are chosen it is how many there are to choose from.
    """
    name = repr("bundled" if where and Path(where) == BUNDLED else where)
    if tuple(pair) != UNKNOWN:
        return f"{name}, {pair[0]} → {pair[1]}"
    if pair.sources or pair.targets:
        return f"{name}, {len(pair.sources)} → {len(pair.targets)} languages"
    return f"{name}, languages not stated"

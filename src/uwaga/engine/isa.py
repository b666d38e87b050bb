"""Which instruction set the engine uses: the fastest that the processor has, or the one that is asked for."""

from __future__ import annotations

import os

from uwaga.engine import _core
from uwaga.errors import SettingsError

VARIABLE = "UWAGA_ISA"


def chosen_isa(name: str | None = None) -> int:
    """The number of an instruction set: ``name``, else ``UWAGA_ISA``, else the fastest there is.

    Raises:
        SettingsError: there is no such one, or this build or processor lacks it.
    """
    asked = (name or os.environ.get(VARIABLE) or "").strip().lower()
    if not asked:
        return _core.best_isa()
    if asked not in _core.ISAS:
        raise SettingsError(f"{VARIABLE}: {asked!r} is none of {', '.join(_core.ISAS)}")
    isa = _core.ISAS.index(asked)
    if not _core.supported(isa):
        raise SettingsError(
            f"{VARIABLE}: this processor or build lacks {asked}; it has {', '.join(usable())}"
        )
    return isa


def usable() -> list[str]:
    """The instruction sets that can be used here."""
    return [name for number, name in enumerate(_core.ISAS) if _core.supported(number)]

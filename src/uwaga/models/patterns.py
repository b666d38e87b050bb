"""Names of a model's parts by pattern, as settings choose them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase

from uwaga.errors import SettingsError, shown

NEAR = 3


def names_matching(pattern: str, names: Sequence[str], key: str, what: str) -> list[str]:
    """The names that a pattern fits.

    Args:
        pattern: with ``*`` and ``?``, as ``encoder.*``.
        names: of all there are.
        key: the setting that holds the pattern, for the message.
        what: what the names are of, for the message.

    Raises:
        SettingsError: none; lists names that are near.
    """
    found = [name for name in names if fnmatchcase(name, pattern)]
    if found:
        return found
    near = difflib.get_close_matches(pattern.replace("*", ""), names, n=NEAR, cutoff=0.3)
    near = near or [*names[:NEAR]]
    told = ", ".join(near) if near else "none at all"
    raise SettingsError(
        f"{key}: {shown(pattern)} fits no {what} of the model; there are, for example, {told}"
    )

"""Arguments of the form ``NAME=PATH``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import PurePath

from uwaga.errors import SettingsError


def named(values: Sequence[str], option: str) -> dict[str, str]:
    """Paths by their names, in order; a path without a name is called after its last parts.

    A folder called ``model`` or a file of any name says little: of ``runs/bahdanau/model`` the name is
    ``bahdanau``, of ``out/luong.de`` it is ``luong``.

    Raises:
        SettingsError: an empty name or path, or a name that is given twice.
    """
    found: dict[str, str] = {}
    for value in values:
        name, equals, path = value.partition("=")
        if not equals or os.sep in name or os.path.exists(value):  # noqa: PTH110
            name, path = _called(value), value
        if not name or not path:
            raise SettingsError(f"{option} {value!r}: give NAME=PATH, or the path alone")
        if name in found:
            raise SettingsError(f"{option}: two are called {name!r}; tell them apart as NAME=PATH")
        found[name] = path
    return found


def _called(path: str) -> str:
    parts = PurePath(path).parts
    last = parts[-1] if parts else ""
    if last == "model" and len(parts) > 1:
        return parts[-2]
    return last.partition(".")[0] or last

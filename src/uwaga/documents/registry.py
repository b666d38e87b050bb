"""The registry of document formats: every :class:`DocumentFormat` in a module of ``formats/``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from uwaga.documents.document import DocumentOptions, Reader
from uwaga.errors import SettingsError
from uwaga.files.zip import Archive


@dataclass(frozen=True)
class DocumentFormat:
    """A format of documents; one of ``read`` and ``members`` is given.

    Attributes:
        name: what ``--format`` calls it.
        suffixes: what names of its files end in, in lower case; one without a dot before it is a whole name.
        read: takes a file apart.
        members: of a zip archive: its members that hold text, and who takes each apart.
        check: looks at options before a file is read, and may raise.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Reader | None = None
    members: Callable[[Archive], Mapping[str, Reader]] | None = None
    check: Callable[[DocumentOptions], None] | None = None


@cache
def formats() -> Mapping[str, DocumentFormat]:
    """Return all formats by name. Optional libraries are imported only when a document is read."""
    package = importlib.import_module("uwaga.documents.formats")
    modules = [
        importlib.import_module(f"{package.__name__}.{module.name}")
        for module in pkgutil.iter_modules(package.__path__)
    ]
    return {
        value.name: value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, DocumentFormat)
    }


def find_format(path: Path, name: str | None = None) -> DocumentFormat:
    """The format of a file, by what its name ends in, or as the user says.

    Raises:
        SettingsError: there is none of that name, or nobody knows what such files are.
    """
    known = formats()
    if name is not None:
        if name not in known:
            raise SettingsError(f"{name!r} is no format of documents; there are {', '.join(sorted(known))}")
        return known[name]
    lowered = path.name.lower()
    fitting = [
        (len(end), one)
        for one in known.values()
        for end in one.suffixes
        if (lowered.endswith(end) if end.startswith(".") else lowered == end)
    ]
    if not fitting:
        raise SettingsError(
            f"{path}: its name does not say what it is; name the format: {', '.join(sorted(known))}"
        )
    return max(fitting, key=lambda pair: pair[0])[1]

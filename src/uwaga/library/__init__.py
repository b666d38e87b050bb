"""The library of models: those on this machine, and the catalogues of those to download.

Importing this fetches nothing and reads no file.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uwaga.files.http import Limits
    from uwaga.library.catalogue import available, download, listing, remove
    from uwaga.library.entry import CatalogueEntry, Listing, Query, RemoteFile, Source
    from uwaga.library.installed import find_installed, installed_models, path
    from uwaga.library.sources import SOURCES, register

_PLACES = {
    "library.catalogue": ("available", "download", "listing", "remove"),
    "library.entry": ("CatalogueEntry", "Listing", "Query", "RemoteFile", "Source"),
    "library.installed": ("find_installed", "installed_models", "path"),
    "library.sources": ("SOURCES", "register"),
    "files.http": ("Limits",),
}

__all__ = [
    "SOURCES",
    "CatalogueEntry",
    "Limits",
    "Listing",
    "Query",
    "RemoteFile",
    "Source",
    "available",
    "download",
    "find_installed",
    "installed_models",
    "listing",
    "path",
    "register",
    "remove",
]


def __getattr__(name: str) -> object:
    """Import a module at first use: to find installed models needs no HTTP client."""
    for module, names in _PLACES.items():
        if name in names:
            return getattr(importlib.import_module(f"uwaga.{module}"), name)
    raise AttributeError(f"module 'uwaga.library' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

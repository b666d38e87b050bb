"""The catalogue of models: what there is to download, and what is on this machine.

Nothing is fetched by importing this, and no file but those that a call names.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uwaga.files.http import Limits
    from uwaga.library.catalogue import available, download, listing, remove
    from uwaga.library.entry import CatalogueEntry, RemoteFile
    from uwaga.library.installed_models import find_installed, installed, path
    from uwaga.library.sources.registry import SOURCES, register
    from uwaga.library.sources.source import Listing, Query, Source

_PLACES = {
    "library.catalogue": ("available", "download", "listing", "remove"),
    "library.entry": ("CatalogueEntry", "RemoteFile"),
    "library.installed_models": ("find_installed", "installed", "path"),
    "library.sources.source": ("Listing", "Query", "Source"),
    "library.sources.registry": ("SOURCES", "register"),
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
    "installed",
    "listing",
    "path",
    "register",
    "remove",
]


def __getattr__(name: str) -> object:
    """Import a module when something of it is asked for: finding what is installed needs no HTTP."""
    for module, names in _PLACES.items():
        if name in names:
            return getattr(importlib.import_module(f"uwaga.{module}"), name)
    raise AttributeError(f"module 'uwaga.library' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

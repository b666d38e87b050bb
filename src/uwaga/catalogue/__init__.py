"""The catalogue of models: what there is to download, and what is on this machine.

Nothing is fetched by importing this, and no file but those that a call names.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uwaga.catalogue.catalogue import available, download, listing, remove
    from uwaga.catalogue.entry import CatalogueEntry, RemoteFile
    from uwaga.catalogue.here import find_installed, installed, path
    from uwaga.catalogue.source import Listing, Query, Source
    from uwaga.catalogue.sources import SOURCES, register
    from uwaga.catalogue.web import Limits

_PLACES = {
    "catalogue": ("available", "download", "listing", "remove"),
    "entry": ("CatalogueEntry", "RemoteFile"),
    "here": ("find_installed", "installed", "path"),
    "source": ("Listing", "Query", "Source"),
    "sources": ("SOURCES", "register"),
    "web": ("Limits",),
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
            return getattr(importlib.import_module(f"uwaga.catalogue.{module}"), name)
    raise AttributeError(f"module 'uwaga.catalogue' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__

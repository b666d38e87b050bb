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

from .catalogue import available, download, listing, remove
from .entry import CatalogueEntry, Limits, Listing, Query, RemoteFile, Source
from .installed import find_installed, installed_models, path
from .sources import SOURCES, register

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
    "remove",
]

from uwaga.library.catalogue import available, download, listing, remove
from uwaga.library.entry import CatalogueEntry, Limits, Listing, Query, RemoteFile, Source
from uwaga.library.installed import find_installed, installed_models, path
from uwaga.library.sources import SOURCES

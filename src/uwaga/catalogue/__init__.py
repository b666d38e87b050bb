"""The catalogue of models: what there is to download, and what is on this machine.

Nothing is fetched by importing this, and no file but those that a call names.
"""

from uwaga.catalogue.catalogue import available, download, find_installed, installed, listing, path, remove
from uwaga.catalogue.entry import CatalogueEntry, RemoteFile
from uwaga.catalogue.source import Listing, Query, Source
from uwaga.catalogue.sources import SOURCES, register
from uwaga.catalogue.web import Limits

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

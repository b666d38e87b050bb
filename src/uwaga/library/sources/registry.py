"""The registry of sources: the catalogue and the command line read it, and nothing else names a source.

A new source is one file that ends in ``register(Source(...))``.
"""

from __future__ import annotations

from uwaga.errors import CatalogueError, shown
from uwaga.library.sources.argos import ARGOS
from uwaga.library.sources.firefox import FIREFOX
from uwaga.library.sources.firefox_records import FIREFOX_RECORDS
from uwaga.library.sources.local import FOLDERS, PACKAGED
from uwaga.library.sources.opus import OPUS
from uwaga.library.sources.source import Source

SOURCES: list[Source] = [FIREFOX, ARGOS, OPUS, FIREFOX_RECORDS, FOLDERS, PACKAGED]
"""The first is asked where none is named."""


def register(added: Source) -> Source:
    """Add a source; one of the same name is replaced."""
    SOURCES[:] = [*(one for one in SOURCES if one.name != added.name), added]
    return added


def find_source(name: str | None, model: str = "") -> Source:
    """The source of a name; where none is given that of which a model has its name, or the first.

    Raises:
        CatalogueError: there is none of that name.
    """
    if name is None:
        named = [one for one in SOURCES if model.startswith(one.prefix or f"{one.name}-")]
        return max(named, key=lambda one: len(one.name), default=SOURCES[0])
    found = next((one for one in SOURCES if one.name == name), None)
    if found is None:
        known = ", ".join(one.name for one in SOURCES)
        raise CatalogueError(f"{shown(name)}: no such source of models; there are: {known}")
    return found

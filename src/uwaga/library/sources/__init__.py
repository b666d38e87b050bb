"""The sources of models, a module for each.

The catalogue and the command line read the registry; nothing else names a source. A new source is a file that
ends in ``register(Source(...))``.
"""

from __future__ import annotations

from uwaga.errors import CatalogueError, shown
from uwaga.library.entry import Source
from uwaga.library.sources.argos import ARGOS
from uwaga.library.sources.firefox import FIREFOX, FIREFOX_RECORDS
from uwaga.library.sources.local import FOLDERS, PACKAGED
from uwaga.library.sources.opus import OPUS

SOURCES: list[Source] = [FIREFOX, ARGOS, OPUS, FIREFOX_RECORDS, FOLDERS, PACKAGED]
"""The first is the default."""


def register(source: Source) -> Source:
    """Add a source, which replaces any of the same name."""
    SOURCES[:] = [*(other for other in SOURCES if other.name != source.name), source]
    return source


def find_source(name: str | None, model: str = "") -> Source:
    """Return the source of a name; for None the one whose prefix begins a model's name, or the default."""
    if name is None:
        fitting = [source for source in SOURCES if model.startswith(source.prefix or f"{source.name}-")]
        return max(fitting, key=lambda source: len(source.name), default=SOURCES[0])
    source = next((source for source in SOURCES if source.name == name), None)
    if source is None:
        names = ", ".join(source.name for source in SOURCES)
        raise CatalogueError(f"{shown(name)}: no such source of models; the sources are {names}")
    return source

"""The sources of models, one per module.

The catalogue and the command line use the registry, and no other code names a source. To add a source, write
a module that calls ``register(Source(...))``.
"""

from __future__ import annotations

from uwaga.errors import CatalogueError, quoted
from uwaga.library.entry import Source
from uwaga.library.sources.argos import ARGOS
from uwaga.library.sources.firefox import FIREFOX, FIREFOX_RECORDS
from uwaga.library.sources.local import FOLDERS, PACKAGED
from uwaga.library.sources.opus import OPUS

SOURCES: list[Source] = [FIREFOX, ARGOS, OPUS, FIREFOX_RECORDS, FOLDERS, PACKAGED]
"""All sources; the first is the default."""


def register(source: Source) -> Source:
    """Add a source, replacing any source of the same name."""
    SOURCES[:] = [*(other for other in SOURCES if other.name != source.name), source]
    return source


def find_source(name: str | None, model: str = "") -> Source:
    """Return the source of a name; for None, the source whose prefix matches ``model``, or the default."""
    if name is None:
        candidates = [source for source in SOURCES if model.startswith(source.prefix or f"{source.name}-")]
        return max(candidates, key=lambda source: len(source.name), default=SOURCES[0])
    source = next((source for source in SOURCES if source.name == name), None)
    if source is None:
        names = ", ".join(source.name for source in SOURCES)
        raise CatalogueError(f"{quoted(name)}: no such source of models; the sources are {names}")
    return source

"""The sources of models, one per module.

The catalogue and the command line find sources only through the registry. A plugin adds a source with
``SOURCES.register(name)(Source(...))``.
"""

from __future__ import annotations

from uwaga.errors import CatalogueError, SettingsError
from uwaga.library.entry import Source
from uwaga.plugins import Registry

SOURCES: Registry[Source] = Registry(
    "source of models",
    "uwaga.sources",
    {
        "firefox": "uwaga.library.sources.firefox:FIREFOX",
        "argos": "uwaga.library.sources.argos:ARGOS",
        "opus-mt": "uwaga.library.sources.opus:OPUS",
        "firefox-records": "uwaga.library.sources.firefox:FIREFOX_RECORDS",
        "folder": "uwaga.library.sources.local:FOLDERS",
        "packages": "uwaga.library.sources.local:PACKAGED",
    },
)
DEFAULT_SOURCE = "firefox"


def find_source(name: str | None, model: str = "") -> Source:
    """Return the source with the given name.

    If ``name`` is None, return the source whose prefix matches ``model`` or, without a match, the default.
    """
    if name is None:
        sources = SOURCES.values()
        candidates = [source for source in sources if model.startswith(source.prefix or f"{source.name}-")]
        return max(candidates, key=lambda source: len(source.name), default=SOURCES[DEFAULT_SOURCE])
    try:
        return SOURCES.find(name)
    except SettingsError as error:
        raise CatalogueError(str(error)) from None

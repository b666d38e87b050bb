"""What a source of models is to the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from uwaga.files.http import Limits
from uwaga.library.entry import CatalogueEntry
from uwaga.library.fields import same_language


@dataclass(frozen=True)
class Query:
    """What is looked for in a source.

    Attributes:
        source: code of the language to translate from, None for any.
        target: code of the language to translate to, None for any.
        place: the mirror to ask instead of the source's own address, a URL or a folder; empty for none.
        environment: where variables are looked up.
        limits: of waiting.
    """

    source: str | None
    target: str | None
    place: str
    environment: Mapping[str, str]
    limits: Limits

    def matches(self, entry: CatalogueEntry) -> bool:
        """Whether an entry is of these languages."""
        wanted = ((self.source, entry.source_language), (self.target, entry.target_language))
        return all(asked is None or same_language(asked, found) for asked, found in wanted)


@dataclass(frozen=True)
class Listing:
    """What a source lists.

    Attributes:
        entries: models.
        problems: what is wrong with entries that are refused, each by its name.
    """

    entries: tuple[CatalogueEntry, ...]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """A source of models.

    Attributes:
        name: as ``--from-source`` takes it, and the beginning of its models' names.
        title: for people.
        address: of its catalogue, empty where it has none of its own.
        variable: of the environment, which names a mirror.
        read: what it lists; raises CatalogueError.
        fetch: brings a model to this machine and gives its place, of a source with a way of its own.
        pairs: the languages that a model's name may mean, of a source that is asked for one pair at a time.
        prefix: of its models' names, by default its own name and a hyphen.
    """

    name: str
    title: str
    address: str
    variable: str
    read: Callable[[Query], Listing]
    fetch: Callable[[CatalogueEntry], str] | None = None
    pairs: Callable[[str], list[tuple[str, str]]] | None = None
    prefix: str = ""

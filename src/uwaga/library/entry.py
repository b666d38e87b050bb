"""The records of a catalogue: sources, what they are asked for, and the models that they list.

A record is checked when it is made: none names a file outside its model's folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from uwaga.errors import CatalogueError
from uwaga.files.http import Limits as Limits
from uwaga.library.fields import same_spelling
from uwaga.library.installed import mean_score

MODEL_BYTES = 1 << 33
"""The largest weight file accepted, unpacked."""
OTHER_BYTES = 1 << 28
"""The largest other file accepted, unpacked."""
FIREFOX_LICENCE = "MPL-2.0"


@dataclass(frozen=True)
class RemoteFile:
    """A file of a model that can be downloaded.

    Attributes:
        name: the name under which it is installed.
        locations: URLs, or paths on this machine, in the order in which they are tried.
        packing: ``gzip``, ``zstd`` or empty.
        size: bytes unpacked; None where the catalogue does not state it.
        sha256: hexadecimal SHA-256 of the unpacked file; None where the catalogue does not state it.
        packed_size: bytes as sent.
        packed_sha256: SHA-256 of the file as sent.
        largest: limit on the unpacked bytes where no size is stated.
    """

    name: str
    locations: tuple[str, ...]
    packing: str = ""
    size: int | None = None
    sha256: str | None = None
    packed_size: int | None = None
    packed_sha256: str | None = None
    largest: int = OTHER_BYTES

    @property
    def most(self) -> int:
        """Limit on the unpacked bytes."""
        return self.largest if self.size is None else self.size

    @property
    def most_sent(self) -> int:
        """Limit on the bytes received: incompressible data grow by less than 1 % when packed."""
        if self.packed_size is not None:
            return self.packed_size
        return self.most + self.most // 100 + 4096


def check_names(files: Sequence[RemoteFile], where: str) -> None:
    """Check that no two files would overwrite each other, on a case-insensitive file system too."""
    names = sorted(file.name.lower() for file in files)
    if len(set(names)) < len(names):
        raise CatalogueError(f"{where}: two files have the same name: {', '.join(names)}; refused")


@dataclass(frozen=True)
class CatalogueEntry:
    """A model that a catalogue lists. A text is empty where the catalogue states nothing.

    Attributes:
        source: name of the source that lists it.
        name: the name under which it is installed, such as ``firefox-en-pt-tiny``.
        source_language: code of the language it translates from.
        target_language: code of the language it translates to.
        architecture: ``tiny``, ``base`` and so on.
        version: the version of the model as its publisher counts.
        status: release status in the publisher's words.
        released: True if its publisher offers it to users.
        licence: name of the licence, or why none is known.
        files: the files to download.
        metrics: scores by name.
        parameters: number of parameters, None where it is not stated.
        model: the model's file, if the model is a single file.
        repository: repository on the Hugging Face hub, of a model that ``huggingface_hub`` downloads.
        place: folder or file of a model that is on this machine already and is not copied.
    """

    source: str
    name: str
    source_language: str
    target_language: str
    architecture: str = ""
    version: str = ""
    status: str = ""
    released: bool = True
    licence: str = ""
    files: tuple[RemoteFile, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    parameters: int | None = None
    model: str = ""
    repository: str = ""
    place: Path | None = None

    @property
    def pair(self) -> str:
        """Both languages, ``en-pt``."""
        return f"{self.source_language}-{self.target_language}"

    @property
    def size(self) -> int | None:
        """Unpacked bytes of the files whose size is stated; None if no size is."""
        stated = [file.size for file in self.files if file.size is not None]
        return sum(stated) if stated else None

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-serializable summary."""
        return {
            "name": self.name,
            "source": self.source,
            "languages": {"source": self.source_language, "target": self.target_language},
            "architecture": self.architecture,
            "version": self.version,
            "status": self.status,
            "released": self.released,
            "licence": self.licence,
            "bytes": self.size,
            "parameters": self.parameters,
            "metrics": dict(self.metrics),
            "files": [file.name for file in self.files],
        }


def entry_name(source: str, *parts: str) -> str:
    """Join a source, languages and architecture with hyphens to the name of a model."""
    return "-".join(part for part in (source, *parts) if part)


def quality(entry: CatalogueEntry) -> tuple[bool, float, int]:
    """Return the sort key of the models of a pair: released before others, then by score, then by size.

    The models of one catalogue state the same scores, so that their means can be compared.
    """
    return entry.released, mean_score(entry.metrics), entry.size or 0


@dataclass(frozen=True)
class Query:
    """A request to a source.

    Attributes:
        source: code of the language to translate from, None for any.
        target: code of the language to translate to, None for any.
        place: URL or folder of a mirror to read instead of the source's own address; empty for none.
        environment: environment variables.
        limits: timeouts and retries of downloads.
    """

    source: str | None
    target: str | None
    place: str
    environment: Mapping[str, str]
    limits: Limits

    def matches(self, entry: CatalogueEntry) -> bool:
        """Return True if an entry translates between these languages."""
        sides = ((self.source, entry.source_language), (self.target, entry.target_language))
        return all(wanted is None or same_spelling(wanted, code) for wanted, code in sides)


@dataclass(frozen=True)
class Listing:
    """The answer of a source.

    Attributes:
        entries: models.
        problems: why entries were refused, each with its name.
    """

    entries: tuple[CatalogueEntry, ...]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """A source of models.

    Attributes:
        name: the value of ``--from-source``, and the beginning of its models' names.
        title: its name for people.
        address: URL of its catalogue, empty if it has none of its own.
        variable: environment variable that names a mirror.
        read: returns the models it lists; raises CatalogueError.
        fetch: downloads a model and returns its path, for a source with its own way of doing so.
        pairs: returns the language pairs that a model's name may mean, for a source that lists one pair at a
            time.
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

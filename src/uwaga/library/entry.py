"""The records of a catalogue: sources, queries, and the models that sources list.

Records are validated on creation: none names a file outside its model's folder.
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
"""Maximum unpacked size of a weight file."""
OTHER_BYTES = 1 << 28
"""Maximum unpacked size of any other file."""
FIREFOX_LICENCE = "MPL-2.0"


@dataclass(frozen=True)
class RemoteFile:
    """A downloadable file of a model.

    Attributes:
        name: the name under which it is installed.
        locations: URLs, or paths on this machine, in the order to try them.
        packing: ``gzip``, ``zstd`` or empty.
        size: unpacked size in bytes, None if the catalogue does not state it.
        sha256: hexadecimal SHA-256 of the unpacked file, None if the catalogue does not state it.
        packed_size: size of the transferred file in bytes, None if the catalogue does not state it.
        packed_sha256: SHA-256 of the transferred file, None if the catalogue does not state it.
        default_limit: limit on the unpacked bytes if no size is stated.
    """

    name: str
    locations: tuple[str, ...]
    packing: str = ""
    size: int | None = None
    sha256: str | None = None
    packed_size: int | None = None
    packed_sha256: str | None = None
    default_limit: int = OTHER_BYTES

    @property
    def max_bytes(self) -> int:
        """Limit on the unpacked bytes."""
        return self.default_limit if self.size is None else self.size

    @property
    def max_packed_bytes(self) -> int:
        """Limit on the received bytes: incompressible data grow by less than 1 % when packed."""
        if self.packed_size is not None:
            return self.packed_size
        return self.max_bytes + self.max_bytes // 100 + 4096


def check_names(files: Sequence[RemoteFile], context: str) -> None:
    """Check that no two files have the same name, even on a case-insensitive file system."""
    names = sorted(file.name.lower() for file in files)
    if len(set(names)) < len(names):
        raise CatalogueError(f"{context}: two files have the same name: {', '.join(names)}; refused")


@dataclass(frozen=True)
class CatalogueEntry:
    """A model listed by a catalogue. Texts that the catalogue does not state are empty.

    Attributes:
        source: the name of the source that lists it.
        name: the name under which it is installed, such as ``firefox-en-pt-tiny``.
        source_language: code of the source language.
        target_language: code of the target language.
        architecture: ``tiny``, ``base`` and so on.
        version: the publisher's version of the model.
        status: the publisher's release status.
        released: True if the publisher has released it to users.
        licence: the name of the licence, or why it is unknown.
        files: the files to download.
        metrics: scores by name.
        parameters: number of parameters, None if it is not stated.
        model: the model file, if the model is a single file.
        repository: the Hugging Face repository of a model that ``huggingface_hub`` downloads.
        path: folder or file of a model that is already on this machine and is used without copying it.
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
    path: Path | None = None

    @property
    def pair(self) -> str:
        """The language pair, such as ``en-pt``."""
        return f"{self.source_language}-{self.target_language}"

    @property
    def size(self) -> int | None:
        """Total unpacked bytes of the files whose size is stated, or None if there are none."""
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
    """Return the name of a model: source, languages and architecture, joined by hyphens."""
    return "-".join(part for part in (source, *parts) if part)


def quality(entry: CatalogueEntry) -> tuple[bool, float, int]:
    """Return the sort key of the models of a pair: released first, then by score, then by size.

    The models of a catalogue have the same kinds of scores, so their means are comparable.
    """
    return entry.released, mean_score(entry.metrics), entry.size or 0


@dataclass(frozen=True)
class Query:
    """A request to a source.

    Attributes:
        source: code of the source language, None for any.
        target: code of the target language, None for any.
        mirror: URL or folder of a mirror to read instead of the source's own address; empty for none.
        environment: environment variables.
        limits: timeouts and retries of downloads.
    """

    source: str | None
    target: str | None
    mirror: str
    environment: Mapping[str, str]
    limits: Limits

    def matches(self, entry: CatalogueEntry) -> bool:
        """Return True if an entry translates between these languages."""
        languages = ((self.source, entry.source_language), (self.target, entry.target_language))
        return all(requested is None or same_spelling(requested, code) for requested, code in languages)


@dataclass(frozen=True)
class Listing:
    """The response of a source.

    Attributes:
        entries: the models.
        problems: why entries were refused, with their names.
    """

    entries: tuple[CatalogueEntry, ...]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """A source of models.

    Attributes:
        name: the value of ``--from-source``, and the start of its models' names.
        title: the name to display.
        address: the URL of its catalogue, empty if it has none.
        variable: environment variable that names a mirror.
        read: returns its models; raises CatalogueError.
        fetch: downloads a model and returns its path; None for the default procedure.
        pairs: returns the possible language pairs of a model name, for a source that can only be listed by
            language pair.
        prefix: the prefix of its models' names, by default its name and a hyphen.
    """

    name: str
    title: str
    address: str
    variable: str
    read: Callable[[Query], Listing]
    fetch: Callable[[CatalogueEntry], str] | None = None
    pairs: Callable[[str], list[tuple[str, str]]] | None = None
    prefix: str = ""

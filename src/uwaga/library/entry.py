"""Data classes for catalogues: sources, queries, and the models that sources list.

Sources validate the values: no file name can refer to a file outside the model's folder.
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
"""Maximum unpacked size of a weight file in bytes."""
OTHER_BYTES = 1 << 28
"""Maximum unpacked size of any other file in bytes."""
FIREFOX_LICENCE = "MPL-2.0"


@dataclass(frozen=True)
class RemoteFile:
    """A downloadable file of a model.

    Attributes:
        name: the name under which the file is installed.
        locations: URLs or local paths, in the order in which they are tried.
        packing: the compression, ``gzip`` or ``zstd``; empty if the file is not compressed.
        size: unpacked size in bytes, None if the catalogue does not state it.
        sha256: hexadecimal SHA-256 of the unpacked file, None if the catalogue does not state it.
        packed_size: size of the transferred file in bytes, None if the catalogue does not state it.
        packed_sha256: SHA-256 of the transferred file, None if the catalogue does not state it.
        default_limit: maximum unpacked size in bytes if no size is stated.
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
        """Maximum unpacked size in bytes."""
        return self.default_limit if self.size is None else self.size

    @property
    def max_packed_bytes(self) -> int:
        """Maximum size of the transferred file in bytes.

        The limit allows for data that compression makes larger, by less than 1 %.
        """
        if self.packed_size is not None:
            return self.packed_size
        return self.max_bytes + self.max_bytes // 100 + 4096


def check_names(files: Sequence[RemoteFile], context: str) -> None:
    """Raise CatalogueError if two files have the same name, ignoring case."""
    names = sorted(file.name.lower() for file in files)
    if len(set(names)) < len(names):
        raise CatalogueError(
            f"{context}: two files have the same name: {', '.join(names)}; the entry is refused"
        )


@dataclass(frozen=True)
class CatalogueEntry:
    """A model in a catalogue. Texts that the catalogue does not state are empty.

    Attributes:
        source: name of the source that lists the model.
        name: name under which the model is installed, such as ``firefox-en-pt-tiny``.
        source_language: code of the source language.
        target_language: code of the target language.
        architecture: ``tiny``, ``base`` and so on.
        version: the publisher's version of the model.
        status: the publisher's release status.
        released: True if the publisher has released the model.
        licence: name of the licence, or a remark that it is unknown.
        files: the files to download.
        metrics: scores by name.
        parameters: number of parameters, None if it is not stated.
        model: name of the model file if the model is a single file, otherwise empty.
        repository: name of the Hugging Face repository if ``huggingface_hub`` downloads the model, otherwise
            empty.
        path: folder or file of a model that is on this machine and is used without copying, otherwise None.
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
        """Total unpacked size in bytes of the files whose size is stated, or None if none is stated."""
        stated_sizes = [file.size for file in self.files if file.size is not None]
        return sum(stated_sizes) if stated_sizes else None

    def to_dict(self) -> dict[str, object]:
        """Return a summary as JSON values."""
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
    """Return the name of a model: the source and the given parts, joined by hyphens."""
    return "-".join(part for part in (source, *parts) if part)


def quality(entry: CatalogueEntry) -> tuple[bool, float, int]:
    """Return a sort key for models of the same language pair; better models have greater keys.

    Models are compared by release, then by mean score, then by size. Means are comparable because all models
    of a catalogue have the same kinds of scores.
    """
    return entry.released, mean_score(entry.metrics), entry.size or 0


@dataclass(frozen=True)
class Query:
    """A request to a source.

    Attributes:
        source: code of the source language, None for any.
        target: code of the target language, None for any.
        mirror: URL or folder of a mirror to read instead of the source's address; empty if there is none.
        environment: environment variables.
        limits: timeouts and retries of downloads.
    """

    source: str | None
    target: str | None
    mirror: str
    environment: Mapping[str, str]
    limits: Limits

    def matches(self, entry: CatalogueEntry) -> bool:
        """Return True if an entry translates between the languages of the query."""
        languages = ((self.source, entry.source_language), (self.target, entry.target_language))
        return all(
            requested_code is None or same_spelling(requested_code, code)
            for requested_code, code in languages
        )


@dataclass(frozen=True)
class Listing:
    """The response of a source to a query.

    Attributes:
        entries: the models.
        problems: messages about the entries that were refused.
    """

    entries: tuple[CatalogueEntry, ...]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source:
    """A source of models.

    Attributes:
        name: name of the source for ``--from-source``.
        title: name to display.
        address: URL of the catalogue, empty if there is none.
        variable: name of the environment variable that gives a mirror.
        read: function that returns the models of the source; raises CatalogueError.
        fetch: function that downloads a model and returns its path; None for the default procedure.
        pairs: function that returns the possible language pairs of a model name; None except for sources
            whose models can be listed only by language pair.
        prefix: prefix of the names of the source's models, by default ``name`` and a hyphen.
    """

    name: str
    title: str
    address: str
    variable: str
    read: Callable[[Query], Listing]
    fetch: Callable[[CatalogueEntry], str] | None = None
    pairs: Callable[[str], list[tuple[str, str]]] | None = None
    prefix: str = ""

"""What a catalogue says of a model, checked: no record names a place outside of its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from uwaga.errors import CatalogueError
from uwaga.library.installations import mean_score

MODEL_BYTES = 1 << 33
"""The largest file of weights, unpacked."""
OTHER_BYTES = 1 << 28
"""The largest other file, unpacked."""
FIREFOX_LICENCE = "MPL-2.0"


@dataclass(frozen=True)
class RemoteFile:
    """A file of a model that can be fetched.

    Attributes:
        name: under which it is installed.
        locations: where it is, tried in this order: URLs, or paths of this machine.
        packing: ``gzip``, ``zstd``, or empty.
        size: bytes, unpacked; None where nothing is stated.
        sha256: of the unpacked file, in hexadecimal; None where nothing is stated.
        packed_size: bytes as it is sent.
        packed_sha256: of what is sent.
        largest: bytes that it may have, unpacked, where no size is stated.
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
        """Bytes that are unpacked at most."""
        return self.largest if self.size is None else self.size

    @property
    def most_sent(self) -> int:
        """Bytes that are received at most: what cannot be packed grows by less than a hundredth part."""
        if self.packed_size is not None:
            return self.packed_size
        return self.most + self.most // 100 + 4096


def check_names(files: Sequence[RemoteFile], where: str) -> None:
    """Refuse files that would be installed over each other, also where capitals do not count.

    Raises:
        CatalogueError: two have the same name; the message begins with ``where``.
    """
    names = sorted(one.name.lower() for one in files)
    if len(set(names)) < len(names):
        raise CatalogueError(f"{where}: two files are called alike: {', '.join(names)}; refused")


@dataclass(frozen=True)
class CatalogueEntry:
    """A model of a catalogue.

    Attributes:
        source: the name of the source that lists it.
        name: under which it is installed, such as ``firefox-en-pt-tiny``.
        source_language: code of the language that it translates from.
        target_language: code of the language that it translates to.
        architecture: ``tiny``, ``base`` and so on; empty where nothing is stated.
        version: as its maker counts; empty where nothing is stated.
        status: how far it is released, in its maker's words.
        released: whether its maker offers it to users.
        licence: its name, or why none is known.
        files: what is fetched.
        metrics: scores by their names.
        parameters: how many, None where nothing is stated.
        model: the file that is the model, of one that is a single file.
        repository: of a model that ``huggingface_hub`` fetches.
        place: of a model that is on this machine already and is not copied.
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
        """Bytes of its files, unpacked, as far as they are stated; None where none is."""
        stated = [one.size for one in self.files if one.size is not None]
        return sum(stated) if stated else None

    def to_dict(self) -> dict[str, object]:
        """What JSON can hold of it."""
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
            "files": [one.name for one in self.files],
        }


def entry_name(source: str, *parts: str) -> str:
    """The name of a model: its source, languages and architecture with hyphens between."""
    return "-".join(part for part in (source, *parts) if part)


def quality(entry: CatalogueEntry) -> tuple[bool, float, int]:
    """What the better of two models of a pair has more of: released, then its score, then its size.

    The models of one catalogue state the same scores, so that their means can be compared.
    """
    return entry.released, mean_score(entry.metrics), entry.size or 0

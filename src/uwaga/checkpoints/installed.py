"""The models that are on this machine. Nothing here asks a network."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from uwaga.checkpoints import formats
from uwaga.checkpoints.description import Description, Pairs, file_size
from uwaga.checkpoints.hub import BUNDLED
from uwaga.checkpoints.uwaga.schema import CONFIG
from uwaga.errors import ModelError, UwagaError

DEEPEST = 4
"""How far below a folder that a user names models are looked for."""
REVISION = re.compile(r"[\w.\-]{1,64}", re.ASCII)
COMMIT_FILE = 256
"""Bytes that are read of a file that names a commit."""


@dataclass(frozen=True)
class InstalledModel:
    """A model on this machine.

    Attributes:
        name: what ``uwaga translate --model`` calls it.
        kind: where it was found: ``bundled``, ``hub``, ``argos`` or ``folder``.
        place: folder or file.
        bytes: of all its files.
        description: what it is, None where it cannot be said.
        problems: what is wrong with it.
    """

    name: str
    kind: str
    place: str
    bytes: int
    description: Description | None
    problems: tuple[str, ...] = ()

    @property
    def languages(self) -> Pairs:
        """Codes of the languages that it translates from, and of those to; empty where nothing is stated."""
        return self.description.languages if self.description is not None else ((), ())

    def to_dict(self) -> dict[str, object]:
        """What JSON can hold of it; of the description what tells models apart."""
        values: dict[str, object] = {
            "name": self.name,
            "kind": self.kind,
            "place": self.place,
            "bytes": self.bytes,
            "problems": list(self.problems),
        }
        found = self.description
        if found is not None:
            source, target = found.languages
            values |= {
                "format": found.format,
                "family": found.family,
                "languages": {"source": list(source), "target": list(target)},
                "precision": list(found.weights.formats),
                "parameters": found.weights.parameters,
                "licence": found.licence,
            }
        return values


def installed_models(
    folders: Sequence[Path] = (), environment: Mapping[str, str] = os.environ
) -> Iterator[InstalledModel]:
    """The bundled model, those in the hub's cache, Argos Translate's, and those in ``folders``.

    Args:
        folders: where else to look, a few levels deep.
        environment: where the variables that place the caches are looked up.

    Raises:
        ModelError: one of ``folders`` is no folder.
    """
    for folder in folders:
        if not folder.is_dir():
            raise ModelError(f"{folder}: no such folder to look for models in")
    if (BUNDLED / CONFIG).is_file():
        yield _found("bundled", "bundled", BUNDLED)
    yield from _in_hub_cache(hub_cache(environment))
    data = environment.get("XDG_DATA_HOME") or "~/.local/share"
    for place in _entries(Path(data).expanduser() / "argos-translate" / "packages"):
        yield _found(str(place), "argos", place)
    for folder in folders:
        yield from _below(folder, DEEPEST)


def hub_cache(environment: Mapping[str, str]) -> Path:
    """Where ``huggingface_hub`` keeps what it fetched, by the variables that it looks at."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name):
            return Path(environment[name]).expanduser()
    caches = environment.get("XDG_CACHE_HOME") or "~/.cache"
    home = environment.get("HF_HOME") or f"{caches}/huggingface"
    return Path(home).expanduser() / "hub"


def _in_hub_cache(cache: Path) -> Iterator[InstalledModel]:
    for repository in _entries(cache):
        kind, _, name = repository.name.partition("--")
        if kind != "models" or not name or not repository.is_dir():
            continue
        name = name.replace("--", "/")
        place = _snapshot(repository)
        if place is None:
            problem = "nothing of it was fetched whole: `hf download` fetches it again"
            yield InstalledModel(name, "hub", str(repository), 0, None, (problem,))
        else:
            yield _found(name, "hub", place)


def _snapshot(repository: Path) -> Path | None:
    """The version of a repository that its name stands for: that of ``main``, or else the newest."""
    snapshots = [one for one in _entries(repository / "snapshots") if one.is_dir()]
    try:
        with (repository / "refs" / "main").open(encoding="utf-8") as file:
            commit = file.read(COMMIT_FILE).strip()
    except (OSError, UnicodeDecodeError):
        commit = ""
    if REVISION.fullmatch(commit) and repository / "snapshots" / commit in snapshots:
        return repository / "snapshots" / commit
    return max(snapshots, key=lambda one: one.stat().st_mtime, default=None)


def _below(folder: Path, depth: int) -> Iterator[InstalledModel]:
    """Models in a folder: it itself, or what is below it."""
    if formats.detect(folder) is not None:
        yield _found(str(folder), "folder", folder)
        return
    for place in _entries(folder):
        if place.is_dir() and depth and not place.is_symlink():
            yield from _below(place, depth - 1)
        elif place.is_file() and place.suffix in formats.files().suffixes and formats.detect(place):
            yield _found(str(place), "folder", place)


def _found(name: str, kind: str, place: Path) -> InstalledModel:
    """A model with its description, or with the reason why there is none."""
    files = [one for one in place.rglob("*") if one.is_file()] if place.is_dir() else [place]
    try:
        description = formats.describe(place)
    except (UwagaError, OSError) as error:
        return InstalledModel(name, kind, str(place), file_size(files), None, (str(error),))
    return InstalledModel(name, kind, str(place), file_size(files), description, description.problems)


def _entries(folder: Path) -> list[Path]:
    """What is in a folder, by name; nothing where it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []

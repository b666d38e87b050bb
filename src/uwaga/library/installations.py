"""The models that are on this machine. Nothing here asks a network."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.description import Description, Pairs, file_size
from uwaga.checkpoints.formats.uwaga.names import CONFIG
from uwaga.errors import ModelError, UwagaError
from uwaga.languages.codes import base_language
from uwaga.library.hub import BUNDLED
from uwaga.library.origin import ORIGIN, Origin, infer_origin, installed_folders, read_origin
from uwaga.library.packages import packaged_models
from uwaga.library.routes import Rank

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
        kind: where it was found: ``bundled``, ``catalogue``, ``package``, ``hub``, ``argos`` or ``folder``.
        place: folder or file.
        bytes: of all its files.
        description: what it is, None where it cannot be said.
        problems: what is wrong with it.
        origin: where it came from, of a model of the catalogue or of a package; else None.
    """

    name: str
    kind: str
    place: str
    bytes: int
    description: Description | None
    problems: tuple[str, ...] = ()
    origin: Origin | None = None

    @property
    def languages(self) -> Pairs:
        """Codes of the languages that it translates from, and of those to; empty where nothing is stated."""
        if self.origin is not None and self.origin.source_languages:
            return self.origin.source_languages, self.origin.target_languages
        return self.description.languages if self.description is not None else ((), ())

    @property
    def architecture(self) -> str:
        """``tiny``, ``base`` and so on, as the catalogue calls it; empty where nothing is stated."""
        return self.origin.architecture if self.origin is not None else ""

    @property
    def metrics(self) -> Mapping[str, float]:
        """Its scores as the catalogue states them."""
        return self.origin.metrics if self.origin is not None else {}

    @property
    def size(self) -> int:
        """How many weights it has; of one where that is not stated, its bytes."""
        stated = (self.origin and self.origin.parameters) or (
            self.description and self.description.weights.parameters
        )
        return stated or self.bytes

    @property
    def damaged(self) -> bool:
        """Whether something is wrong with it, so that it cannot be described."""
        return bool(self.problems) and self.description is None

    @cached_property
    def rank(self) -> Rank:
        """The order in which models are chosen; the greater comes first.

        The bundled demonstration model comes last. A model of a single language pair comes before a
        multilingual one, then the one with the better mean of the scores that its catalogue states, then the
        one with more parameters, then the one that was installed last.
        """
        single_pair = all(len(set(map(base_language, codes))) == 1 for codes in self.languages)
        try:
            installed = Path(self.place).stat().st_mtime
        except OSError:
            installed = 0.0
        return self.kind != "bundled", single_pair, mean_score(self.metrics), self.size, installed

    @property
    def licence(self) -> str | None:
        """As the catalogue or the model card states it, None where neither does."""
        stated = self.origin.licence if self.origin is not None else ""
        return stated or (self.description.licence if self.description is not None else None)

    def to_dict(self) -> dict[str, object]:
        """What JSON can hold of it; of the description what tells models apart."""
        values: dict[str, object] = {
            "name": self.name,
            "kind": self.kind,
            "place": self.place,
            "bytes": self.bytes,
            "problems": list(self.problems),
        }
        source, target = self.languages
        if source or target or self.description is not None:
            values |= {"languages": {"source": list(source), "target": list(target)}, "licence": self.licence}
        found = self.description
        if found is not None:
            values |= {
                "format": found.format,
                "family": found.family,
                "precision": list(found.weights.formats),
                "parameters": found.weights.parameters,
            }
        if self.origin is not None:
            values["origin"] = self.origin.model_dump(mode="json")
        return values


def mean_score(metrics: Mapping[str, float]) -> float:
    """Return the mean of the stated chrF, BLEU and COMET, each as a fraction of its maximum; 0 if none is."""
    scores = [
        value / (1.0 if value <= 1.0 else 100.0)
        for name, value in metrics.items()
        if re.search(r"bleu|chrf|comet", name, re.IGNORECASE)
    ]
    return sum(scores) / len(scores) if scores else 0.0


def installed_models(
    folders: Sequence[Path] = (), environment: Mapping[str, str] = os.environ, described: bool = True
) -> Iterator[InstalledModel]:
    """The bundled model, those of the catalogue and packages, in the hub's cache, Argos's and ``folders``.

    Args:
        folders: where else to look, a few levels deep.
        environment: where the variables that place the caches are looked up.
        described: False leaves out the descriptions of models whose origin says their languages, which takes
            less time.

    Raises:
        ModelError: one of ``folders`` is no folder.
    """
    for folder in folders:
        if not folder.is_dir():
            raise ModelError(f"{folder}: no such folder to look for models in")
    if (BUNDLED / CONFIG).is_file():
        yield _found("bundled", "bundled", BUNDLED)
    yield from downloaded_models(environment, described)
    for one in packaged_models():
        known = bool(one.origin.source_languages) and not described
        found = _sized(one.name, "package", one.place) if known else _found(one.name, "package", one.place)
        problems = (one.problem, *found.problems) if one.problem else found.problems
        yield replace(found, origin=one.origin, problems=problems)
    yield from _in_hub_cache(hub_cache(environment))
    data = environment.get("XDG_DATA_HOME") or "~/.local/share"
    for place in _entries(Path(data).expanduser() / "argos-translate" / "packages"):
        yield _found(str(place), "argos", place)
    for folder in folders:
        yield from _below(folder, DEEPEST)


def model_at(place: Path, installed: Iterable[InstalledModel]) -> InstalledModel:
    """Return the model at a folder or file: the installed one, with its origin, or a description of another.

    Args:
        place: the folder or file, as :func:`uwaga.library.hub.find_model` returns it.
        installed: the installed models.
    """
    model = next((model for model in installed if model.place == str(place)), None)
    return _found(str(place), "folder", place) if model is None else model


def hub_cache(environment: Mapping[str, str]) -> Path:
    """Where ``huggingface_hub`` keeps what it fetched, by the variables that it looks at."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name):
            return Path(environment[name]).expanduser()
    caches = environment.get("XDG_CACHE_HOME") or "~/.cache"
    home = environment.get("HF_HOME") or f"{caches}/huggingface"
    return Path(home).expanduser() / "hub"


def downloaded_models(environment: Mapping[str, str], described: bool = True) -> Iterator[InstalledModel]:
    """The models of the catalogue that were downloaded; arguments are those of :func:`installed_models`."""
    for folder in installed_folders(environment):
        try:
            stated = (folder / ORIGIN).is_file()  # else somebody has put it there by hand
            origin = read_origin(folder) if stated else infer_origin(folder, "unnamed", "folder")
        except ModelError as error:
            found = _sized(folder.name, "catalogue", folder)
            yield replace(found, origin=infer_origin(folder, "unnamed", "folder"), problems=(str(error),))
            continue
        damage = tuple(_damage(folder, origin))
        quick = damage or (origin.source_languages and not described)
        found = (_sized if quick else _found)(folder.name, "catalogue", folder / origin.model)
        yield replace(found, origin=origin, problems=(*damage, *found.problems))


def _damage(folder: Path, origin: Origin) -> Iterator[str]:
    """What is wrong with the files of a model, as far as can be seen without reading them."""
    again = f"`uwaga models download {folder.name}` fetches it again"
    for name, known in origin.files.items():
        path = folder / name
        if not path.is_file():
            yield f"{path}: is missing; {again}"
        elif (size := path.stat().st_size) != known.size:
            yield f"{path}: has {size} bytes, and had {known.size} when it was installed; {again}"


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
    bare = _sized(name, kind, place)
    try:
        description = formats.describe(place)
    except (UwagaError, OSError) as error:
        return replace(bare, problems=(str(error),))
    return replace(bare, description=description, problems=description.problems)


def _sized(name: str, kind: str, place: Path) -> InstalledModel:
    """A model without its description."""
    files = [one for one in place.rglob("*") if one.is_file()] if place.is_dir() else [place]
    return InstalledModel(name, kind, str(place), file_size(one for one in files if one.is_file()), None)


def _entries(folder: Path) -> list[Path]:
    """What is in a folder, by name; nothing where it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []

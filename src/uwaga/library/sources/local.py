"""Models that are on this machine already: in a folder of model folders, or in Python packages."""

from __future__ import annotations

from pathlib import Path

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.card import read_card
from uwaga.errors import CatalogueError, UwagaError
from uwaga.files.http import is_url
from uwaga.library.entry import CatalogueEntry, Listing, Query, RemoteFile, Source, entry_name
from uwaga.library.fields import check_file_name
from uwaga.library.installed import (
    ORIGIN,
    Origin,
    infer_origin,
    is_firefox_folder,
    packaged_models,
    read_origin,
)

FOLDER, PACKAGES = "folder", "packages"
UNSTATED = "not stated"


def read_folder(query: Query) -> Listing:
    """Return the models in a folder, such as a copy of another machine's folder of models."""
    if not query.place or is_url(query.place):
        raise CatalogueError(f"{FOLDER}: name the folder that contains the model folders: --mirror FOLDER")
    root = Path(query.place).expanduser()
    if not root.is_dir():
        raise CatalogueError(f"{root}: no such folder")
    entries, problems = [], []
    for place in [root, *sorted(root.iterdir())]:
        if not place.is_dir() or place.name.startswith(".") or not _is_model(place):
            continue
        try:
            entries.append(_folder_entry(place))
        except (UwagaError, OSError) as error:
            problems.append(str(error))
    return Listing(tuple(entries), tuple(problems))


def read_packages(query: Query) -> Listing:
    """Return the models of installed Python packages, which need no download."""
    entries = []
    for model in packaged_models():
        origin = model.origin
        if origin is not None and origin.source_languages and origin.target_languages:
            entries.append(
                CatalogueEntry(
                    source=PACKAGES,
                    name=model.name,
                    source_language=origin.source_languages[0],
                    target_language=origin.target_languages[0],
                    architecture=origin.architecture,
                    version=origin.version,
                    status="installed",
                    licence=origin.licence or UNSTATED,
                    metrics=origin.metrics,
                    place=Path(model.place),
                )
            )
    return Listing(tuple(entries))


def _is_model(place: Path) -> bool:
    return (place / ORIGIN).is_file() or is_firefox_folder(place) or formats.detect(place) is not None


def _folder_entry(place: Path) -> CatalogueEntry:
    """The entry of a folder, whose files are copied; each is verified if its origin states a hash."""
    origin = read_origin(place) if (place / ORIGIN).is_file() else infer_origin(place, "inferred", FOLDER)
    source, target = _languages(place, origin)
    return CatalogueEntry(
        source=FOLDER,
        name=origin.name
        if origin.name != "inferred"
        else entry_name(FOLDER, source, target, origin.architecture),
        source_language=source,
        target_language=target,
        architecture=origin.architecture,
        version=origin.version,
        status=origin.status,
        licence=origin.licence or read_card(place).licence or UNSTATED,
        files=tuple(_files(place, origin)),
        metrics=origin.metrics,
        parameters=origin.parameters,
        model=origin.model,
    )


def _languages(place: Path, origin: Origin) -> tuple[str, str]:
    sources, targets = origin.source_languages, origin.target_languages
    if not sources or not targets:
        sources, targets = formats.describe(place).languages
    if len(sources) != 1 or len(targets) != 1:
        raise CatalogueError(
            f"{place}: it does not state one pair of languages; use it in place with `--model {place}`"
        )
    return sources[0], targets[0]


def _files(place: Path, origin: Origin) -> list[RemoteFile]:
    found = []
    for path in sorted(place.iterdir()):
        if path.name.startswith(".") or path.name == ORIGIN or not path.is_file():
            continue
        stated = origin.files.get(path.name)
        size = stated.size if stated else path.stat().st_size
        name = check_file_name(path.name, str(place), (ORIGIN,))
        found.append(
            RemoteFile(name, (str(path),), size=size, sha256=stated.sha256 if stated else None, largest=size)
        )
    missing = sorted(origin.files.keys() - {one.name for one in found})
    if missing:
        raise CatalogueError(f"{place}: {missing[0]} is missing; copy the whole folder again")
    return found


FOLDERS = Source(FOLDER, "a folder of model folders", "", "UWAGA_MODELS_FOLDER", read_folder)
PACKAGED = Source(PACKAGES, "installed Python packages", "", "", read_packages)

"""Models that are on this machine already: a folder of model folders, and those that packages ship."""

from __future__ import annotations

from pathlib import Path

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.card import read_card
from uwaga.errors import CatalogueError, UwagaError
from uwaga.files.http import is_url
from uwaga.library.entry import CatalogueEntry, RemoteFile, entry_name
from uwaga.library.fields import check_file_name
from uwaga.library.origin import ORIGIN, Origin, infer_origin, is_firefox_folder, read_origin
from uwaga.library.packages import packaged_models
from uwaga.library.sources.source import Listing, Query, Source

FOLDER, PACKAGES = "folder", "packages"
UNSTATED = "not stated"


def read_folder(query: Query) -> Listing:
    """The models in a folder, such as one that was copied from another machine's folder of models.

    Raises:
        CatalogueError: no such folder is given.
    """
    if not query.place or is_url(query.place):
        raise CatalogueError(f"{FOLDER}: give the folder that holds model folders: --mirror FOLDER")
    root = Path(query.place).expanduser()
    if not root.is_dir():
        raise CatalogueError(f"{root}: no such folder")
    entries, problems = [], []
    for place in [root, *sorted(root.iterdir())]:
        if not place.is_dir() or place.name.startswith(".") or not _is_model(place):
            continue
        try:
            entries.append(_copied(place))
        except (UwagaError, OSError) as error:
            problems.append(str(error))
    return Listing(tuple(entries), tuple(problems))


def read_packages(query: Query) -> Listing:
    """The models of installed Python packages, which need no download."""
    found = [
        CatalogueEntry(
            source=PACKAGES,
            name=one.name,
            source_language=one.origin.source_languages[0],
            target_language=one.origin.target_languages[0],
            architecture=one.origin.architecture,
            version=one.origin.version,
            status="installed",
            licence=one.origin.licence or UNSTATED,
            metrics=one.origin.metrics,
            place=one.place,
        )
        for one in packaged_models()
        if one.origin.source_languages and one.origin.target_languages
    ]
    return Listing(tuple(found))


def _is_model(place: Path) -> bool:
    return (place / ORIGIN).is_file() or is_firefox_folder(place) or formats.detect(place) is not None


def _copied(place: Path) -> CatalogueEntry:
    """A model folder whose files are copied, each verified where its origin states a hash."""
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
            f"{place}: which pair of languages it is for is not stated; it can be named as it is: "
            f"`--model {place}`"
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

"""Sources of models on this machine: a folder of model folders, and installed Python packages."""

from __future__ import annotations

from pathlib import Path

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.card import read_card
from uwaga.errors import CatalogueError, UwagaError
from uwaga.files.http import is_http_url
from uwaga.library.entry import CatalogueEntry, Listing, Query, RemoteFile, Source, entry_name
from uwaga.library.fields import check_file_name
from uwaga.library.installed import (
    ORIGIN_FILE,
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
    if not query.mirror or is_http_url(query.mirror):
        raise CatalogueError(
            f"{FOLDER}: give the folder that contains the model folders with --mirror FOLDER"
        )
    root = Path(query.mirror).expanduser()
    if not root.is_dir():
        raise CatalogueError(f"{root}: no such folder")
    entries, problems = [], []
    for folder in [root, *sorted(root.iterdir())]:
        if not folder.is_dir() or folder.name.startswith(".") or not _is_model(folder):
            continue
        try:
            entries.append(_folder_entry(folder))
        except (UwagaError, OSError) as error:
            problems.append(str(error))
    return Listing(tuple(entries), tuple(problems))


def read_packages(query: Query) -> Listing:
    """Return the models in installed Python packages, which need no download."""
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
                    path=Path(model.path),
                )
            )
    return Listing(tuple(entries))


def _is_model(folder: Path) -> bool:
    return (folder / ORIGIN_FILE).is_file() or is_firefox_folder(folder) or formats.detect(folder) is not None


def _folder_entry(folder: Path) -> CatalogueEntry:
    """Return the entry of a model folder, whose files are verified if ``origin.json`` states hashes."""
    origin = (
        read_origin(folder) if (folder / ORIGIN_FILE).is_file() else infer_origin(folder, "inferred", FOLDER)
    )
    source, target = _languages(folder, origin)
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
        licence=origin.licence or read_card(folder).licence or UNSTATED,
        files=tuple(_files(folder, origin)),
        metrics=origin.metrics,
        parameters=origin.parameters,
        model=origin.model,
    )


def _languages(folder: Path, origin: Origin) -> tuple[str, str]:
    sources, targets = origin.source_languages, origin.target_languages
    if not sources or not targets:
        sources, targets = formats.describe(folder).languages
    if len(sources) != 1 or len(targets) != 1:
        raise CatalogueError(
            f"{folder}: does not state exactly one language pair; use the model without installing it, with "
            f"`--model {folder}`"
        )
    return sources[0], targets[0]


def _files(folder: Path, origin: Origin) -> list[RemoteFile]:
    files = []
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name == ORIGIN_FILE or not path.is_file():
            continue
        recorded_file = origin.files.get(path.name)
        size = recorded_file.size if recorded_file else path.stat().st_size
        name = check_file_name(path.name, str(folder), (ORIGIN_FILE,))
        files.append(
            RemoteFile(
                name,
                (str(path),),
                size=size,
                sha256=recorded_file.sha256 if recorded_file else None,
                default_limit=size,
            )
        )
    missing_names = sorted(origin.files.keys() - {file.name for file in files})
    if missing_names:
        raise CatalogueError(f"{folder}: {missing_names[0]} is missing; copy the whole folder again")
    return files


FOLDERS = Source(FOLDER, "a folder of model folders", "", "UWAGA_MODELS_FOLDER", read_folder)
PACKAGED = Source(PACKAGES, "installed Python packages", "", "", read_packages)

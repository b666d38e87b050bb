"""Atomic writes: files and folders appear complete, in one step, or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from uwaga.errors import DataError, ModelError, UwagaError
from uwaga.files.handles import BINARY, NO_FOLLOW, is_owned_by_user, set_mode, sync, try_lock

_RENAME_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2)
_AT_FDCWD = -100  # AT_FDCWD

MAX_STEM_LENGTH = 40
"""Maximum number of characters of a file's name that are included in the name of its temporary file."""


@contextlib.contextmanager
def replace_file(path: Path, mode: int | None = None) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces ``path`` if the block ends without an error.

    The temporary file has a random hidden name (``file.name``) in the same folder; it is opened exclusively,
    locked, synced and then renamed. Temporary files of killed processes are removed. A replaced file keeps
    its mode, and a link is followed. After an error, ``path`` is unchanged.

    Args:
        path: the file.
        mode: permission bits of the file; by default, those of the old file, or according to the umask.
    """
    temporary: Path | None = None
    target = path
    try:
        target = _resolve_links(path)
        _remove_abandoned(target)
        temporary, handle = _open_temporary(target, mode)
        with open(temporary, "wb", opener=lambda *_: handle) as file:
            yield file
        sync(temporary)  # by name, because libraries such as safetensors replace the file
        os.replace(temporary, target)
    except OSError as error:
        if not isinstance(error, BrokenPipeError) and error.filename in (None, str(target), str(temporary)):
            error.filename = str(path)
        raise
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for writing, like :func:`replace_file`; devices and pipes are written to directly."""
    try:
        is_special = path.exists() and not path.is_file()
        with path.open("wb") if is_special else replace_file(path) as file:
            yield file
    except OSError as error:
        if isinstance(error, BrokenPipeError) or error.filename not in (None, str(path)):
            raise
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None


def write_file(path: Path, content: bytes | str, mode: int | None = None) -> None:
    """Replace the content of a file, like :func:`replace_file`; text is encoded as UTF-8."""
    with replace_file(path, mode) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


def _resolve_links(path: Path) -> Path:
    """Return the path with links resolved; raise OSError if they are circular."""
    try:
        return path.resolve()
    except RuntimeError as error:
        raise OSError(errno.ELOOP, str(error), str(path)) from None


def _open_temporary(target: Path, mode: int | None) -> tuple[Path, int]:
    """Create a locked temporary file beside ``target`` and return its path and descriptor."""
    if mode is None and target.exists():
        mode = stat.S_IMODE(target.stat().st_mode)
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW | BINARY
    while True:
        temporary = target.with_name(f".{target.name[:MAX_STEM_LENGTH]}.{os.urandom(8).hex()}.part")
        try:
            handle = os.open(temporary, flags, 0o666 if mode is None else mode)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(target)) from None
        try_lock(handle)
        if temporary.exists():  # otherwise another process removed it before it was locked
            break
        os.close(handle)
    if mode is not None:
        set_mode(handle, temporary, mode)
    return temporary, handle


def _remove_abandoned(target: Path) -> None:
    """Remove this user's unlocked temporary files of ``target``, which killed writers have left behind."""
    if not target.parent.is_dir():
        return
    name = re.compile(re.escape(f".{target.name[:MAX_STEM_LENGTH]}.") + r"[0-9a-f]{16}\.part")
    for path in [path for path in target.parent.iterdir() if name.fullmatch(path.name)]:
        with contextlib.suppress(OSError):
            if not stat.S_ISREG(path.lstat().st_mode) or not is_owned_by_user(path):
                continue
            handle = os.open(path, os.O_RDONLY | NO_FOLLOW)
            try:
                if try_lock(handle):
                    path.unlink()
            finally:
                os.close(handle)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Create or replace ``folder`` with exactly ``files``, like :func:`new_folder`."""
    with new_folder(folder) as temporary:
        for name, content in files.items():
            (temporary / name).write_bytes(content)
            sync(temporary / name)


@contextlib.contextmanager
def new_folder(folder: Path, error: type[UwagaError] = ModelError) -> Iterator[Path]:
    """Create a hidden temporary folder that replaces ``folder`` if the block ends without an error.

    An existing folder is exchanged with the new one atomically and then removed; the caller decides whether
    it may be replaced. If the system cannot exchange folders, the old one is renamed first, and restored if
    the second rename fails. A ``kill -9`` between the two renames leaves both folders complete under hidden
    names (``.NAME.*.old`` and ``.NAME.*.part``), and the next call first restores the old one.

    Temporary folders of killed writers are removed. The caller must sync the files that it writes.

    Args:
        folder: the folder.
        error: class of the error to raise.
    """
    folder = folder.resolve()
    handle, temporary = -1, folder
    try:
        handle, temporary = _make_temporary_folder(folder)
        remove_leftovers(folder)
        yield temporary
        sync(temporary)
        _swap(temporary, folder, temporary.with_suffix(".old"))
        sync(folder.parent)
    except OSError as failure:
        raise error(f"{folder}: cannot be written: {_reason(failure)}; nothing was changed") from None
    finally:
        if temporary != folder:
            shutil.rmtree(temporary, ignore_errors=True)
            if folder.exists():
                shutil.rmtree(temporary.with_suffix(".old"), ignore_errors=True)
        if handle >= 0:
            os.close(handle)


def remove_folder(folder: Path) -> None:
    """Remove a folder atomically, by renaming and then deleting it; a link is not followed."""
    temporary = folder.with_name(f".{folder.name}.{os.urandom(4).hex()}.part")
    folder.rename(temporary)
    if temporary.is_symlink():
        temporary.unlink()
    else:
        shutil.rmtree(temporary)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary folders of ``folder`` whose writers were killed.

    If ``folder`` was renamed but not yet replaced, it is restored.
    """
    pattern = f".{glob.escape(folder.name)}.????????"
    for path in sorted([*folder.parent.glob(f"{pattern}.old"), *folder.parent.glob(f"{pattern}.part")]):
        part = path.with_suffix(".part")
        try:
            handle = _lock_folder(part) if part.exists() else -1
        except OSError:
            continue  # its writer is running, or the file system has no locks
        if path.suffix == ".old" and not folder.exists():
            path.rename(folder)
        else:
            shutil.rmtree(path, ignore_errors=True)
        if handle >= 0:
            os.close(handle)


def _make_temporary_folder(folder: Path) -> tuple[int, Path]:
    """Create a temporary folder and return the handle of its lock (-1 without locks) and its path."""
    while True:
        temporary = folder.parent / f".{folder.name}.{os.urandom(4).hex()}.part"
        temporary.mkdir(parents=True)
        try:
            handle = _lock_folder(temporary)
        except (BlockingIOError, FileNotFoundError):
            continue  # another writer removed it
        except OSError:
            return -1, temporary
        if temporary.exists():
            return handle, temporary
        os.close(handle)


def _lock_folder(folder: Path) -> int:
    """Lock a folder and return the handle of the lock, which the kernel releases when the process ends."""
    handle = os.open(folder, os.O_RDONLY)
    is_locked = try_lock(handle)
    if not is_locked:
        os.close(handle)
        raise BlockingIOError if is_locked is False else OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    return handle


def _swap(temporary: Path, folder: Path, old_folder: Path) -> None:
    if not folder.exists():
        temporary.rename(folder)
        return
    if _exchange(temporary, folder):
        return  # the old folder now has the temporary name, under which it is removed
    folder.rename(old_folder)
    try:
        temporary.rename(folder)
    except OSError:
        old_folder.rename(folder)
        raise


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two folders atomically; return False if the system cannot (Linux can)."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (OSError, TypeError, AttributeError):
        return False
    return int(rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE)) == 0


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"no space left ({error.strerror}); free some or choose another folder"
    return error.strerror or str(error)

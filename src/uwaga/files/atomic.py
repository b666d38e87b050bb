"""Files and folders that appear completely, in one step, or not at all."""

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
from uwaga.files.handles import BINARY, NO_FOLLOW, is_own, set_mode, sync, try_lock

_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2)
_HERE = -100  # AT_FDCWD

LONGEST_STEM = 40
"""Characters of a file's name in that of its temporary file: the length of names is limited."""


@contextlib.contextmanager
def replacing(path: Path, mode: int | None = None) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces ``path`` when the block ends without an error.

    The temporary file lies beside ``path`` under a random hidden name (``file.name``), is opened exclusively
    and locked; it is synced, then renamed. One that a killed process has left is removed. A file that is
    replaced keeps its mode, and a link is followed. After an error ``path`` is unchanged.

    Args:
        path: the file.
        mode: permission bits of the file; by default those of the old file, or of the umask.
    """
    temporary: Path | None = None
    target = path
    try:
        target = _resolved(path)
        _remove_abandoned(target)
        temporary, handle = _open_beside(target, mode)
        with open(temporary, "wb", opener=lambda *_: handle) as file:
            yield file
        sync(temporary)  # by name: libraries such as safetensors replace the file itself
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
    """Open a file for writing as :func:`replacing` does; a device or a pipe is written to directly."""
    try:
        special = path.exists() and not path.is_file()
        with path.open("wb") if special else replacing(path) as file:
            yield file
    except OSError as error:
        if isinstance(error, BrokenPipeError) or error.filename not in (None, str(path)):
            raise
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None


def write_file(path: Path, content: bytes | str, mode: int | None = None) -> None:
    """Replace a file's whole content, text as UTF-8, as :func:`replacing` does."""
    with replacing(path, mode) as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)


def _resolved(path: Path) -> Path:
    """Return the path without links; raises OSError if they are circular."""
    try:
        return path.resolve()
    except RuntimeError as error:
        raise OSError(errno.ELOOP, str(error), str(path)) from None


def _open_beside(target: Path, mode: int | None) -> tuple[Path, int]:
    """Create a locked temporary file beside ``target`` and return its path and descriptor."""
    if mode is None and target.exists():
        mode = stat.S_IMODE(target.stat().st_mode)
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW | BINARY
    while True:
        temporary = target.with_name(f".{target.name[:LONGEST_STEM]}.{os.urandom(8).hex()}.part")
        try:
            handle = os.open(temporary, flags, 0o666 if mode is None else mode)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(target)) from None
        try_lock(handle)
        if temporary.exists():  # else another process took it for abandoned before it was locked
            break
        os.close(handle)
    if mode is not None:
        set_mode(handle, temporary, mode)
    return temporary, handle


def _remove_abandoned(target: Path) -> None:
    """Remove the temporary files of ``target`` whose writers have been killed: this user's unlocked ones."""
    if not target.parent.is_dir():
        return
    name = re.compile(re.escape(f".{target.name[:LONGEST_STEM]}.") + r"[0-9a-f]{16}\.part")
    for path in [path for path in target.parent.iterdir() if name.fullmatch(path.name)]:
        with contextlib.suppress(OSError):
            if not stat.S_ISREG(path.lstat().st_mode) or not is_own(path):
                continue
            handle = os.open(path, os.O_RDONLY | NO_FOLLOW)
            try:
                if try_lock(handle):
                    path.unlink()
            finally:
                os.close(handle)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make ``folder`` hold exactly ``files``, as :func:`new_folder` does."""
    with new_folder(folder) as fresh:
        for name, content in files.items():
            (fresh / name).write_bytes(content)
            sync(fresh / name)


@contextlib.contextmanager
def new_folder(folder: Path, error: type[UwagaError] = ModelError) -> Iterator[Path]:
    """Fill a hidden sibling of ``folder``, which takes its name when the block ends without an error.

    An existing folder is exchanged with the new one in one step and then removed; the caller decides whether
    it may be replaced. Where the system has no such step the old folder is moved aside first, and put back if
    the second rename fails: a ``kill -9`` between the two leaves the old and the new folder complete under
    hidden names (``.NAME.*.old`` and ``.NAME.*.part``), and the next call puts the old one back before it
    begins.

    Hidden siblings of killed writers are removed. The caller syncs the files that it writes.

    Args:
        folder: the folder.
        error: the class of the error to raise.
    """
    folder = folder.resolve()
    handle, fresh = -1, folder
    try:
        handle, fresh = _make_sibling(folder)
        remove_leftovers(folder)
        yield fresh
        sync(fresh)
        _swap(fresh, folder, fresh.with_suffix(".old"))
        sync(folder.parent)
    except OSError as failure:
        raise error(f"{folder}: cannot be written: {_reason(failure)}; nothing was changed") from None
    finally:
        if fresh != folder:
            shutil.rmtree(fresh, ignore_errors=True)
            if folder.exists():
                shutil.rmtree(fresh.with_suffix(".old"), ignore_errors=True)
        if handle >= 0:
            os.close(handle)


def remove_folder(folder: Path) -> None:
    """Remove a folder in one step for its readers: it is renamed, then deleted. A link is removed itself."""
    hidden = folder.with_name(f".{folder.name}.{os.urandom(4).hex()}.part")
    folder.rename(hidden)
    if hidden.is_symlink():
        hidden.unlink()
    else:
        shutil.rmtree(hidden)


def remove_leftovers(folder: Path) -> None:
    """Remove the hidden siblings of ``folder`` whose writers have been killed.

    A folder that was moved aside and not yet replaced is put back.
    """
    hidden = f".{glob.escape(folder.name)}.????????"
    for path in sorted([*folder.parent.glob(f"{hidden}.old"), *folder.parent.glob(f"{hidden}.part")]):
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


def _make_sibling(folder: Path) -> tuple[int, Path]:
    """Create a hidden sibling; return the handle that locks it, -1 where there are no locks, and its path."""
    while True:
        fresh = folder.parent / f".{folder.name}.{os.urandom(4).hex()}.part"
        fresh.mkdir(parents=True)
        try:
            handle = _lock_folder(fresh)
        except (BlockingIOError, FileNotFoundError):
            continue  # another writer took it for abandoned
        except OSError:
            return -1, fresh
        if fresh.exists():
            return handle, fresh
        os.close(handle)


def _lock_folder(folder: Path) -> int:
    """Return a handle that holds the lock of a folder; the kernel releases it when the process ends."""
    handle = os.open(folder, os.O_RDONLY)
    held = try_lock(handle)
    if not held:
        os.close(handle)
        raise BlockingIOError if held is False else OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
    return handle


def _swap(fresh: Path, folder: Path, aside: Path) -> None:
    if not folder.exists():
        fresh.rename(folder)
        return
    if _exchange(fresh, folder):
        return  # the old folder now lies under the fresh name, and is removed with it
    folder.rename(aside)
    try:
        fresh.rename(folder)
    except OSError:
        aside.rename(folder)
        raise


def _exchange(first: Path, second: Path) -> bool:
    """Exchange the names of two folders in one step; return False where the system cannot (Linux can)."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (OSError, TypeError, AttributeError):
        return False
    return int(rename(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE)) == 0


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"no space left ({error.strerror}); free some or choose another folder"
    return error.strerror or str(error)

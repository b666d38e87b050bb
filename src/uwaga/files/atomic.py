"""Whole files and folders that appear in one step or not at all."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import glob
import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from uwaga.errors import DataError, ModelError

_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2)
_HERE = -100  # AT_FDCWD

LONGEST_STEM = 40
"""Characters of a file's name in that of its temporary one: a name has a longest length."""


@contextlib.contextmanager
def new_file(path: Path, interrupted: Path | None = None) -> Iterator[IO[bytes]]:
    """A file to write, which takes its name when all is written.

    After an error there is no file, or still the old one. A file that is replaced keeps its mode, and a link
    is followed. What is no regular file, a device or a pipe, is written to as it is. On the way the content
    lies beside the file under a random name, opened exclusively and locked; one that a killed process has
    left there is removed.

    Args:
        path: the file.
        interrupted: where what has been written is kept after Ctrl-C; None for nowhere.

    Raises:
        DataError: the file cannot be written.
    """
    ours: list[str | None] = [None, str(path)]
    temporary: Path | None = None
    try:
        place = path.resolve()
        ours.append(str(place))
        if place.exists() and not place.is_file():
            with place.open("wb") as file:
                yield file
            return
        _remove_abandoned(place)
        temporary, handle = _open_beside(place)
        ours.append(str(temporary))
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(handle)
        except KeyboardInterrupt:
            if interrupted is not None:
                os.replace(temporary, interrupted)
            raise
        os.replace(temporary, place)
    except RuntimeError as error:  # links in a circle
        raise DataError(f"{path}: cannot be written: {error}") from None
    except OSError as error:
        if isinstance(error, BrokenPipeError) or error.filename not in ours:
            raise
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _open_beside(place: Path) -> tuple[Path, int]:
    """A new file beside ``place``, of the same mode, and its descriptor; locked for as long as it is open."""
    mode = stat.S_IMODE(place.stat().st_mode) if place.exists() else None
    if mode is not None and not os.access(place, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    while True:
        temporary = place.with_name(f".{place.name[:LONGEST_STEM]}.{os.urandom(8).hex()}.part")
        try:
            handle = os.open(temporary, flags, 0o666)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(place)) from None
        fcntl.flock(handle, fcntl.LOCK_EX)
        if temporary.exists():  # else somebody took it for a leftover before it was locked
            break
        os.close(handle)
    if mode is not None:
        os.fchmod(handle, mode)
    return temporary, handle


def _remove_abandoned(place: Path) -> None:
    """Remove what processes that no longer live have left of ``place``: files of ours that none holds."""
    if not place.parent.is_dir():
        return
    name = re.compile(re.escape(f".{place.name[:LONGEST_STEM]}.") + r"[0-9a-f]{16}\.part")
    for path in [one for one in place.parent.iterdir() if name.fullmatch(one.name)]:
        with contextlib.suppress(OSError):
            if not stat.S_ISREG(path.lstat().st_mode) or path.lstat().st_uid != os.geteuid():
                continue
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(handle)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make ``folder`` hold exactly ``files``, as :func:`new_folder` does.

    Raises:
        ModelError: the disk is full or refuses; nothing has changed then.
    """
    with new_folder(folder) as fresh:
        for name, content in files.items():
            _write(fresh / name, content)


@contextlib.contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A folder to fill, which takes the name of ``folder`` when all is written, whatever happens on the way.

    The files are written in a hidden sibling, which then takes the folder's name. A folder that is
    already there changes places with it in one step and is removed last; the caller decides whether it may be
    replaced. Where the system has no such step it is moved aside first, and put back if the second rename
    fails: a ``kill -9`` between the two leaves the old and the new folder complete under hidden names
    (``.NAME.*.old`` and ``.NAME.*.part``), and the next call puts the old one back before it begins.

    What writers that were killed have left beside the folder is removed. Whoever fills it syncs its files.

    Raises:
        ModelError: the disk is full or refuses; nothing has changed then.
    """
    folder = folder.resolve()
    handle, fresh = -1, folder
    try:
        handle, fresh = _begin(folder)
        remove_leftovers(folder)
        yield fresh
        _sync(fresh)
        _swap(fresh, folder, fresh.with_suffix(".old"))
        _sync(folder.parent)
    except OSError as error:
        raise ModelError(f"{folder}: cannot be written: {_reason(error)}; nothing was changed") from None
    finally:
        if fresh != folder:
            shutil.rmtree(fresh, ignore_errors=True)
            if folder.exists():
                shutil.rmtree(fresh.with_suffix(".old"), ignore_errors=True)
        if handle >= 0:
            os.close(handle)


def remove_leftovers(folder: Path) -> None:
    """Remove the hidden siblings of ``folder`` whose writers have been killed; those at work keep theirs.

    A folder that was moved aside and not yet replaced is put back.
    """
    hidden = f".{glob.escape(folder.name)}.????????"
    for path in sorted([*folder.parent.glob(f"{hidden}.old"), *folder.parent.glob(f"{hidden}.part")]):
        part = path.with_suffix(".part")
        try:
            handle = _claim(part) if part.exists() else -1
        except OSError:
            continue  # its writer is at work, or locks are unknown here
        if path.suffix == ".old" and not folder.exists():
            path.rename(folder)
        else:
            shutil.rmtree(path, ignore_errors=True)
        if handle >= 0:
            os.close(handle)


def _begin(folder: Path) -> tuple[int, Path]:
    """A hidden sibling to write into, and a lock that says somebody does; -1 where there are no locks."""
    while True:
        fresh = folder.parent / f".{folder.name}.{os.urandom(4).hex()}.part"
        fresh.mkdir(parents=True)
        try:
            handle = _claim(fresh)
        except (BlockingIOError, FileNotFoundError):
            continue  # another writer took it for abandoned
        except OSError:
            return -1, fresh
        if fresh.exists():
            return handle, fresh
        os.close(handle)


def _claim(folder: Path) -> int:
    """Lock a folder; the kernel lets go of it with the process, so whoever gets it knows it abandoned."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise
    return handle


def _write(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _swap(fresh: Path, folder: Path, aside: Path) -> None:
    if not folder.exists():
        fresh.rename(folder)
        return
    if _exchange(fresh, folder):
        return  # what was there now lies under the fresh name, and is removed with it
    folder.rename(aside)
    try:
        fresh.rename(folder)
    except OSError:
        aside.rename(folder)
        raise


def _exchange(one: Path, other: Path) -> bool:
    """Whether two folders have changed places in one step, which Linux has."""
    try:
        rename = ctypes.CDLL(None).renameat2
    except (OSError, TypeError, AttributeError):
        return False
    return int(rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)) == 0


def _reason(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"no space left ({error.strerror}); free some or choose another folder"
    return error.strerror or str(error)

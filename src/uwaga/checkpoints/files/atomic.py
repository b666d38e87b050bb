"""Whole folders that appear in one step or not at all."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from uwaga.errors import ModelError

_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2)
_HERE = -100  # AT_FDCWD


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Make ``folder`` hold exactly ``files``, whatever happens on the way.

    The files are written and synced in a hidden sibling, which then takes the folder's name. A folder that is
    already there changes places with it in one step and is removed last; the caller decides whether it may be
    replaced. Where the system has no such step it is moved aside first, and put back if the second rename
    fails: a ``kill -9`` between the two leaves the old and the new folder complete under hidden names
    (``.NAME.*.old`` and ``.NAME.*.part``), and the next call puts the old one back before it begins.

    What writers that were killed have left beside the folder is removed.

    Raises:
        ModelError: the disk is full or refuses; nothing has changed then.
    """
    folder = folder.resolve()
    handle, fresh = -1, folder
    try:
        handle, fresh = _begin(folder)
        remove_leftovers(folder)
        for name, content in files.items():
            _write(fresh / name, content)
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
        fresh = folder.parent / f".{folder.name}.{secrets.token_hex(4)}.part"
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

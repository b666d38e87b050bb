"""Handles of open files and folders: locks, flags and permissions on different systems.

Handles from ``os.open`` are not inherited by child processes, so no flag is needed to prevent that.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
try:
    import msvcrt
except ImportError:  # Linux, macOS
    msvcrt = None  # type: ignore[assignment]

BINARY: int = getattr(os, "O_BINARY", 0)
"""Flag: do not translate line endings (Windows)."""
NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
"""Flag: do not follow a symbolic link."""
NO_WAIT: int = getattr(os, "O_NONBLOCK", 0)
"""Flag: do not wait for the other end of a pipe."""

OTHERS_MODE = stat.S_IRWXG | stat.S_IRWXO
"""Permission bits of the group and of other users."""
FIRST_LOCK_BYTE = 1 << 40
"""First byte to lock on Windows, beyond any content, because Windows prevents reading of locked bytes."""
POLL_SECONDS = 0.001
"""Seconds between two attempts to lock bytes on Windows."""


def try_lock(handle: int) -> bool | None:
    """Try to acquire the exclusive lock of an open file or folder; closing the handle releases it.

    Returns:
        True if this process now has the lock, False if another process has it, None if there are no locks.
    """
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        elif msvcrt is not None:
            return _try_bytes(handle, 0, 1)
        else:
            return None
    except OSError as failure:
        return False if failure.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


@contextlib.contextmanager
def range_lock(handle: int, start: int, length: int) -> Iterator[None]:
    """Wait for the exclusive lock of some bytes of an open file, and hold it within the block.

    The lock belongs to the process: its threads do not exclude each other. On a system without locks, there
    is no protection.

    Args:
        handle: a handle of the file, open for writing.
        start: position of the first byte.
        length: number of bytes.
    """
    if fcntl is not None:
        fcntl.lockf(handle, fcntl.LOCK_EX, length, start)
    elif msvcrt is not None:
        while not _try_bytes(handle, start, length):
            time.sleep(POLL_SECONDS)
    try:
        yield
    finally:
        if fcntl is not None:
            fcntl.lockf(handle, fcntl.LOCK_UN, length, start)
        elif msvcrt is not None:
            _windows_lock(handle, msvcrt.LK_UNLCK, start, length)


def _try_bytes(handle: int, start: int, length: int) -> bool:
    """Lock bytes of a file on Windows; return False if another process has locked them."""
    try:
        _windows_lock(handle, msvcrt.LK_NBLCK, start, length)  # type: ignore[attr-defined]
    except PermissionError:
        return False
    return True


def _windows_lock(handle: int, kind: int, start: int, length: int) -> None:
    position = os.lseek(handle, 0, os.SEEK_CUR)
    os.lseek(handle, FIRST_LOCK_BYTE + start, os.SEEK_SET)
    try:
        msvcrt.locking(handle, kind, length)  # type: ignore[attr-defined]
    finally:
        os.lseek(handle, position, os.SEEK_SET)


def sync(path: Path) -> None:
    """Flush a file or folder to the disk; on Windows, folders cannot be flushed."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def set_mode(handle: int, path: Path, mode: int) -> None:
    """Set the permission bits of an open file, by its path if the system cannot do this by handle."""
    if hasattr(os, "fchmod"):
        os.fchmod(handle, mode)
    else:
        path.chmod(mode)


def make_private(path: Path) -> bool:
    """Remove all permissions of other users on a file or folder; return True if they have none afterwards.

    Missing paths, symbolic links and files of other users are not changed. On Windows, where files have the
    permissions of their folder, nothing is changed.
    """
    try:
        mode = path.lstat().st_mode
        if os.name == "nt" or stat.S_ISLNK(mode) or not mode & OTHERS_MODE:
            return True
        path.chmod(stat.S_IMODE(mode) & ~OTHERS_MODE)
        return not path.lstat().st_mode & OTHERS_MODE  # some file systems have a fixed mode
    except FileNotFoundError:
        return True
    except OSError:
        return False


def is_owned_by_user(path: Path) -> bool:
    """Return whether this user owns a file; True if the system has no user ids."""
    return not hasattr(os, "geteuid") or path.lstat().st_uid == os.geteuid()

"""Handles of open files and folders, on systems that have locks, flags and permissions and on others.

``os.open`` never passes a handle on to another program, so no flag is needed for that.
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
"""Flag: do not translate line ends, which only Windows does."""
NO_FOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
"""Flag: refuse a symbolic link."""
NO_WAIT: int = getattr(os, "O_NONBLOCK", 0)
"""Flag: do not wait for the other end of a pipe."""

OTHERS = stat.S_IRWXG | stat.S_IRWXO
"""Permission bits of the group and of all other users."""
FIRST_LOCKED = 1 << 40
"""First byte that is locked on Windows, where a locked byte cannot be read: behind all content."""
POLL = 0.001
"""Seconds between two attempts to lock bytes on Windows."""


def try_lock(handle: int) -> bool | None:
    """Take the exclusive lock of an open file or folder, which closing the handle releases.

    Returns:
        True if this process holds the lock now, False if another one does, None where there are no such
        locks.
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
    """Hold the exclusive lock of some bytes of an open file within the block, after waiting for it.

    The lock is the process's: its threads do not exclude each other. A system without locks gives no
    protection.

    Args:
        handle: a handle of the file, open for writing.
        start: position of the first byte.
        length: number of bytes.
    """
    if fcntl is not None:
        fcntl.lockf(handle, fcntl.LOCK_EX, length, start)
    elif msvcrt is not None:
        while not _try_bytes(handle, start, length):
            time.sleep(POLL)
    try:
        yield
    finally:
        if fcntl is not None:
            fcntl.lockf(handle, fcntl.LOCK_UN, length, start)
        elif msvcrt is not None:
            _windows_lock(handle, msvcrt.LK_UNLCK, start, length)


def _try_bytes(handle: int, start: int, length: int) -> bool:
    """Lock bytes of a file on Windows; return False if another process holds them."""
    try:
        _windows_lock(handle, msvcrt.LK_NBLCK, start, length)  # type: ignore[attr-defined]
    except PermissionError:
        return False
    return True


def _windows_lock(handle: int, kind: int, start: int, length: int) -> None:
    position = os.lseek(handle, 0, os.SEEK_CUR)
    os.lseek(handle, FIRST_LOCKED + start, os.SEEK_SET)
    try:
        msvcrt.locking(handle, kind, length)  # type: ignore[attr-defined]
    finally:
        os.lseek(handle, position, os.SEEK_SET)


def sync(path: Path) -> None:
    """Write a file or a folder through to the disk; Windows cannot do it for a folder."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def set_mode(handle: int, path: Path, mode: int) -> None:
    """Set the permission bits of an open file; by its path where the system knows no other way."""
    if hasattr(os, "fchmod"):
        os.fchmod(handle, mode)
    else:
        path.chmod(mode)


def make_private(path: Path) -> bool:
    """Take all permissions on a file or folder from other users, and return whether they have none now.

    A path that is missing, a symbolic link or another user's is not changed, and neither is anything on
    Windows, where permissions are those of the folder.
    """
    try:
        mode = path.lstat().st_mode
        if os.name == "nt" or stat.S_ISLNK(mode) or not mode & OTHERS:
            return True
        path.chmod(stat.S_IMODE(mode) & ~OTHERS)
        return not path.lstat().st_mode & OTHERS  # some file systems have one mode for all files
    except FileNotFoundError:
        return True
    except OSError:
        return False


def is_own(path: Path) -> bool:
    """Return whether a file is this user's; True where files have no numbers of users."""
    return not hasattr(os, "geteuid") or path.lstat().st_uid == os.geteuid()

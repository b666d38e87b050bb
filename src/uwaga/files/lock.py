"""Locks on files and folders: only one process trains a run, writes the parts of a job or installs a model.

The kernel releases a lock (``flock``) when the process that owns it ends, so a process killed by ``kill -9``
leaves no lock. :class:`RunLock` also works between machines whose shared file system has no such locks,
because its file names the owner. A process on another machine cannot see whether the owner still runs, so it
asks the user.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from uwaga.errors import RunInUseError
from uwaga.files.handles import BINARY, NO_FOLLOW, try_lock

LOCK_NAME = "lock"
POLL_SECONDS = 0.2
"""Seconds between two attempts to acquire a lock that another process holds."""
_UNNAMED_JOBS = ("", "none")  # the run id of torchrun without --rdzv-id
_STAT_START = 21  # index of the start time, in clock ticks since boot, in /proc/PID/stat (proc(5): 22nd)


@contextlib.contextmanager
def file_lock(path: Path, on_wait: Callable[[], None] | None = None, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a file within the block; the file is created if it is missing.

    On a file system without locks, there is no protection.

    Args:
        path: the path of the lock file; its folder must exist.
        on_wait: called once if another process holds the lock.
        wait: whether to wait for the other process; if False, BlockingIOError is raised instead.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW | BINARY, 0o600)
    try:
        has_waited = False
        while try_lock(handle) is False:
            if not wait:
                raise BlockingIOError(errno.EWOULDBLOCK, "locked by another process", str(path))
            if on_wait is not None and not has_waited:
                on_wait()
            has_waited = True
            time.sleep(POLL_SECONDS)
        yield
    finally:
        os.close(handle)


@dataclass(frozen=True)
class LockOwner:
    """A process that holds a :class:`RunLock`.

    Attributes:
        pid: process id.
        host: name of the machine.
        since: local time at which the process acquired the lock.
        boot: id of the kernel's boot; empty if the system has none.
        born: start time of the process within that boot, which distinguishes it from a later process with the
            same id; empty if the system has none.
        job: run id of ``torchrun``; empty without it.
    """

    pid: int
    host: str
    since: str
    boot: str = ""
    born: str = ""
    job: str = ""


class RunLock:
    """A context manager that holds the lock of a training run or of another job's folder.

    Args:
        run: the folder.
        activity: what the owner is doing in the folder, such as ``training``, for messages.
        folder_option: the option that selects another folder, for messages.
    """

    def __init__(
        self, run: Path, activity: str = "training", folder_option: str = "--set run=FOLDER"
    ) -> None:
        self.run, self.path = run, run / LOCK_NAME
        self._activity, self._folder_option = activity, folder_option
        self._handle = -1

    def __enter__(self) -> RunLock:
        while True:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | BINARY, 0o644)
            try:
                self._acquire(handle)
                if self._is_at_path(handle):
                    self._handle = handle
                    return self
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)  # its owner ended and removed the file after it was opened here

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # the lock ends with the handle; a remaining file is stale
            self.path.unlink()
        os.close(self._handle)

    def _acquire(self, handle: int) -> None:
        is_locked = try_lock(handle)
        owner = _read_owner(handle)
        if is_locked is False or (owner is not None and not is_stale(owner, is_locked is True)):
            raise RunInUseError(f"{self.run}: {self._owner_text(owner)}")
        content = json.dumps(asdict(current_owner())).encode()
        try:
            os.ftruncate(handle, 0)
            os.lseek(handle, 0, os.SEEK_SET)
            os.write(handle, content)
        except OSError as failure:
            failure.filename = str(self.path)
            raise

    def _is_at_path(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), self.path.stat())
        except FileNotFoundError:
            return False

    def _owner_text(self, owner: LockOwner | None) -> str:
        if owner is None:
            return (
                f"another process is {self._activity} here; wait for it, or choose another folder with "
                f"{self._folder_option}"
            )
        text = (
            f"process {owner.pid} on host {owner.host} has been {self._activity} here since {owner.since}; "
            f"wait for it, stop it, or choose another folder with {self._folder_option}"
        )
        if owner.host != socket.gethostname():
            text += f". This machine cannot see that process: if it no longer runs, delete {self.path}"
        return text


def current_owner() -> LockOwner:
    """Return a description of this process as the owner of a lock."""
    pid = os.getpid()
    since = time.strftime("%Y-%m-%d %H:%M:%S %z")
    job = os.environ.get("TORCHELASTIC_RUN_ID", "")
    return LockOwner(
        pid, socket.gethostname(), since, _boot_id(), _start_time(pid), "" if job in _UNNAMED_JOBS else job
    )


def is_stale(owner: LockOwner, is_locked: bool) -> bool:
    """Return whether the process that a lock file names has ended.

    Args:
        owner: the owner in the file.
        is_locked: whether this process has the kernel's lock; False only if the file system has no locks.
    """
    current = current_owner()
    if owner.job and owner.job == current.job:
        return True  # torchrun ended that process, on any machine, before it started this one
    are_boots_known = bool(owner.boot and current.boot)
    is_same_kernel = owner.boot == current.boot if are_boots_known else owner.host == current.host
    if is_locked and is_same_kernel:
        return True  # also if the owner is in another container, with other process ids and host name
    if owner.host != current.host:
        return False
    if not is_same_kernel:
        return True  # this host has been rebooted
    return _start_time(owner.pid) != owner.born if owner.born else not process_exists(owner.pid)


def _read_owner(handle: int) -> LockOwner | None:
    """Return the owner in the file, or None if the file is empty or was only partly written."""
    try:
        os.lseek(handle, 0, os.SEEK_SET)
        values = json.loads(os.read(handle, 1 << 16))
        return LockOwner(
            int(values["pid"]),
            str(values["host"]),
            str(values["since"]),
            str(values["boot"]),
            str(values["born"]),
            str(values.get("job", "")),
        )
    except (ValueError, KeyError, TypeError):
        return None


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _start_time(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[_STAT_START - 2]  # after the name, which may contain spaces


def process_exists(pid: int) -> bool:
    """Return whether a process is running on this machine; True if unknown."""
    if os.name == "nt":  # on Windows, os.kill(pid, 0) ends the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True

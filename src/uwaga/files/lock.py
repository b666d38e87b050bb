"""Locks on files and folders: one process at a time trains a run, writes a job's parts or installs a model.

The kernel holds a lock (``flock``) and releases it however its owner ends, so a process killed by ``kill -9``
leaves no lock. :class:`RunLock` also works between machines whose shared file system has no such locks: its
file names the owner. Another machine cannot see whether that owner still runs, so it asks the user.
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

LOCK = "lock"
POLL = 0.2
"""Seconds between two attempts to take a lock that another process holds."""
_UNNAMED_JOBS = ("", "none")  # the run id of torchrun without --rdzv-id
_STAT_START = 21  # place of the start time, in clock ticks since boot, in /proc/PID/stat (proc(5): 22nd)


@contextlib.contextmanager
def file_lock(path: Path, waiting: Callable[[], None] | None = None, wait: bool = True) -> Iterator[None]:
    """Hold the lock of a file, which is created where it is missing, within the block.

    A file system without locks gives no protection.

    Args:
        path: the path of the lock file; its folder exists.
        waiting: called once if another process holds the lock.
        wait: whether to wait for the other process.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW | BINARY, 0o600)
    try:
        waited = False
        while try_lock(handle) is False:
            if not wait:
                raise BlockingIOError(errno.EWOULDBLOCK, "locked by another process", str(path))
            if waiting is not None and not waited:
                waiting()
            waited = True
            time.sleep(POLL)
        yield
    finally:
        os.close(handle)


@dataclass(frozen=True)
class LockOwner:
    """A process that holds a :class:`RunLock`.

    Attributes:
        pid: process id.
        host: name of the machine.
        since: local time at which it took the lock.
        boot: id of the kernel's boot, empty where the system has none.
        born: start time of the process within that boot, which tells it from a later process with the same
            id; empty where the system has none.
        job: run id of ``torchrun``, empty where there is none.
    """

    pid: int
    host: str
    since: str
    boot: str = ""
    born: str = ""
    job: str = ""


class RunLock:
    """Holds the lock of a training run, or of another job's folder, within its ``with`` block.

    Args:
        run: the folder.
        work: what the process does there, a verb for the message.
        elsewhere: the option that names another folder, for the message.
    """

    def __init__(self, run: Path, work: str = "trains", elsewhere: str = "--set run=FOLDER") -> None:
        self.run, self.path = run, run / LOCK
        self._work, self._elsewhere = work, elsewhere
        self._handle = -1

    def __enter__(self) -> RunLock:
        while True:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | BINARY, 0o644)
            try:
                self._take(handle)
                if self._is_at_path(handle):
                    self._handle = handle
                    return self
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)  # its owner ended, and removed it, between our opening and locking it

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # the lock ends with the handle; a remaining file is stale
            self.path.unlink()
        os.close(self._handle)

    def _take(self, handle: int) -> None:
        held = try_lock(handle)
        owner = _read_owner(handle)
        if held is False or (owner is not None and not is_stale(owner, held is True)):
            raise RunInUseError(f"{self.run}: {self._owner_text(owner)}")
        content = json.dumps(asdict(this_process())).encode()
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
                f"another process {self._work} here; wait for it, or choose another folder with "
                f"{self._elsewhere}"
            )
        text = (
            f"process {owner.pid} on host {owner.host} {self._work} here since {owner.since}; wait for it, "
            f"stop it, or choose another folder with {self._elsewhere}"
        )
        if owner.host != socket.gethostname():
            text += f". This machine cannot see that process: if it no longer runs, delete {self.path}"
        return text


def this_process() -> LockOwner:
    """Return the owner that a lock of this process names."""
    pid = os.getpid()
    since = time.strftime("%Y-%m-%d %H:%M:%S %z")
    job = os.environ.get("TORCHELASTIC_RUN_ID", "")
    return LockOwner(
        pid, socket.gethostname(), since, _boot(), _born(pid), "" if job in _UNNAMED_JOBS else job
    )


def is_stale(owner: LockOwner, held: bool) -> bool:
    """Return whether the owner that a lock file names has ended.

    Args:
        owner: the owner in the file.
        held: whether this process holds the kernel's lock; False only where the file system has no locks.
    """
    here = this_process()
    if owner.job and owner.job == here.job:
        return True  # torchrun ended that process, on whatever machine, before it started this one
    boots_known = bool(owner.boot and here.boot)
    one_kernel = owner.boot == here.boot if boots_known else owner.host == here.host
    if held and one_kernel:
        return True  # also from another container, which has its own process ids and host name
    if owner.host != here.host:
        return False
    if not one_kernel:
        return True  # this host has been rebooted since
    return _born(owner.pid) != owner.born if owner.born else not process_exists(owner.pid)


def _read_owner(handle: int) -> LockOwner | None:
    """Return the owner in the file; None while there is none, or if its writer was killed while writing."""
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


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _born(pid: int) -> str:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[_STAT_START - 2]  # after the name, which may contain spaces


def process_exists(pid: int) -> bool:
    """Return whether a process of this machine runs; True where that is not known."""
    if os.name == "nt":  # where os.kill(pid, 0) ends the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True

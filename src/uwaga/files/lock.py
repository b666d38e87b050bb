"""One process at a time works in a folder: trains a run, or writes the shards of a job.

The file ``lock`` in it names its owner. On one machine the kernel holds the lock itself (``flock``) and lets
go of it however the owner ends, so that ``kill -9`` leaves a file but no lock, and no later process of the
same number can be mistaken for the owner. Between machines the file alone must do: that the owner there has
ended cannot be seen from here, and the user is asked.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from uwaga.errors import RunInUseError

LOCK = "lock"
_UNNAMED_JOBS = ("", "none")  # what torchrun says without --rdzv-id
_STAT_START = 21  # place of the start time, in clock ticks since boot, in /proc/PID/stat (proc(5): 22nd)


@dataclass(frozen=True)
class LockOwner:
    """A process that works in a folder: its number, host and time, and what tells it from a later one.

    ``boot`` names one start of the kernel, ``born`` is the process's own start within it; both are empty
    where the system does not tell them. ``job`` is that of `torchrun`, empty where there is none.
    """

    pid: int
    host: str
    since: str
    boot: str = ""
    born: str = ""
    job: str = ""


class RunLock:
    """Holds the lock of a run, or of another job's folder, within its ``with`` block.

    Args:
        run: the folder.
        work: what the process does in it, for the message.
        elsewhere: how another folder is chosen, likewise.

    Raises:
        RunInUseError: another process works there; names it, its host and since when, and the way out.
    """

    def __init__(self, run: Path, work: str = "trains", elsewhere: str = "--set run=FOLDER") -> None:
        self.run, self.path = run, run / LOCK
        self._work, self._elsewhere = work, elsewhere
        self._handle = -1

    def __enter__(self) -> RunLock:
        while True:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                self._take(handle)
                if self._is_named(handle):
                    self._handle = handle
                    return self
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)  # its owner ended, and removed it, between our opening and locking it

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # the lock ends with the handle; a file that stays is stale
            self.path.unlink()
        os.close(self._handle)

    def _take(self, handle: int) -> None:
        held = _flock(handle)
        owner = _read(handle)
        if held is False or (owner is not None and not is_stale(owner, held is True)):
            raise RunInUseError(f"{self.run}: {self._whose(owner)}")
        content = json.dumps(asdict(this_process())).encode()
        try:
            os.ftruncate(handle, 0)
            os.pwrite(handle, content, 0)
        except OSError as failure:
            failure.filename = str(self.path)
            raise

    def _is_named(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.fstat(handle), self.path.stat())
        except FileNotFoundError:
            return False

    def _whose(self, owner: LockOwner | None) -> str:
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
            text += f". From here it cannot be seen: if it runs no longer, delete {self.path}"
        return text


def this_process() -> LockOwner:
    """What a lock says of this process."""
    pid = os.getpid()
    since = time.strftime("%Y-%m-%d %H:%M:%S %z")
    job = os.environ.get("TORCHELASTIC_RUN_ID", "")
    return LockOwner(
        pid, socket.gethostname(), since, _boot(), _born(pid), "" if job in _UNNAMED_JOBS else job
    )


def is_stale(owner: LockOwner, held: bool) -> bool:
    """Whether the owner that a lock's file names has ended.

    Args:
        owner: as the file names it.
        held: whether the kernel gave us the lock; False only where the file system knows no locks.
    """
    here = this_process()
    if owner.job and owner.job == here.job:
        return True  # which torchrun has ended, on whatever machine, before it started this one
    known = bool(owner.boot and here.boot)
    one_kernel = owner.boot == here.boot if known else owner.host == here.host
    if held and one_kernel:
        return True  # whatever container it ran in, where numbers and host names are others
    if owner.host != here.host:
        return False
    if not one_kernel:
        return True  # this host has been started again since
    return _born(owner.pid) != owner.born if owner.born else not _exists(owner.pid)


def _flock(handle: int) -> bool | None:
    """True if we hold the lock, False if another process does, None where there are no such locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as failure:
        return False if failure.errno in (errno.EWOULDBLOCK, errno.EACCES) else None
    return True


def _read(handle: int) -> LockOwner | None:
    """The owner in the file; None while there is none, or it was cut short when its owner was killed."""
    try:
        values = json.loads(os.pread(handle, 1 << 16, 0))
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
    return stat.rpartition(")")[2].split()[_STAT_START - 2]  # behind the name, which may hold spaces


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True

"""Measure the processes of a server: memory, CPU time and open files."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path


def tree(pid: int) -> list[int]:
    """Return the ids of a process and its descendants."""
    pids = [pid]
    for child_pid in pids:
        for children in Path(f"/proc/{child_pid}/task").glob("*/children"):
            try:
                pids += [int(child) for child in children.read_text().split()]
            except OSError:
                continue
    return pids


def memory(pid: int) -> float:
    """Return the memory in MiB of a process and its descendants; shared pages are counted once (PSS)."""
    total = 0
    for process in tree(pid):
        try:
            text = Path(f"/proc/{process}/smaps_rollup").read_text()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)
    return total / 1024


def cpu(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants."""
    ticks = 0
    for process in tree(pid):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def command_line(pid: int) -> str:
    """Return the command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def handles(pid: int) -> tuple[int, int]:
    """Return the numbers of open files and threads of a process and its descendants."""
    files = threads = 0
    for process in tree(pid):
        try:
            files += len(list(Path(f"/proc/{process}/fd").iterdir()))
            threads += len(list(Path(f"/proc/{process}/task").iterdir()))
        except OSError:
            continue
    return files, threads


class PeakMemory:
    """Watches the memory of a server in a thread: ``with PeakMemory(pid) as peak: ...; peak.mib``."""

    def __init__(self, pid: int, every: float = 0.25) -> None:
        self.mib, self._pid, self._every, self._over = 0.0, pid, every, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while True:
            self.mib = max(self.mib, memory(self._pid))
            if self._over.wait(self._every):
                return

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._over.set()
        self._thread.join()
        self.mib = max(self.mib, memory(self._pid))


def wait_for(url: str, seconds: float = 120.0) -> None:
    """Wait until a server answers ``/health`` with status 200."""
    import urllib.error
    import urllib.request

    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise SystemExit(f"{url} did not become ready")

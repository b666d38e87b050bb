"""The CPU: cores that the process may use, and the instruction set of the engine."""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path

from uwaga.engine import _core
from uwaga.errors import SettingsError

MEMBERSHIP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")
CPU_INFO = Path("/proc/cpuinfo")


def usable_cores() -> int:
    """Return the number of cores that this process may use, at least one.

    It respects the affinity mask (``taskset``, ``numactl``, cpusets of batch systems) and the CPU quotas of
    control groups (``docker --cpus``, Kubernetes limits).
    """
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    return max(1, math.ceil(min(cores, cgroup_quota(MEMBERSHIP, GROUPS))))


def cgroup_quota(membership: Path, groups: Path) -> float:
    """Return the CPU quota of control groups in cores, infinite without a limit.

    It is the smallest quota of the process's group and its parents, in version 2 (``cpu.max``) or version 1
    (``cpu.cfs_quota_us`` / ``cpu.cfs_period_us``).

    Args:
        membership: the process's groups, like ``/proc/self/cgroup``: a ``number:controllers:path`` per line.
        groups: where the hierarchies are mounted.
    """
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except OSError:
        return math.inf
    least = math.inf
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = groups / controllers if controllers else groups
        # In a container the path is often that of the host, while the group is mounted as the root.
        names = [name for name in path.split("/") if name not in ("", "..")]
        for place in [top.joinpath(*names[:depth]) for depth in range(len(names) + 1)]:
            least = min(least, _quota_v1(place) if controllers else _quota_v2(place))
    return least


def _quota_v2(group: Path) -> float:
    try:
        quota, period = (group / "cpu.max").read_text(encoding="ascii").split()
        return math.inf if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf


def _quota_v1(group: Path) -> float:
    try:
        quota = int((group / "cpu.cfs_quota_us").read_text(encoding="ascii"))
        period = int((group / "cpu.cfs_period_us").read_text(encoding="ascii"))
        return math.inf if quota < 0 else quota / period
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf


VARIABLE = "UWAGA_ISA"


def chosen_isa(name: str | None = None) -> int:
    """Return the number of the instruction set ``name``, by default ``UWAGA_ISA`` or else the fastest."""
    requested = (name or os.environ.get(VARIABLE) or "").strip().lower()
    if not requested:
        return _core.best_isa()
    if requested not in _core.ISAS:
        raise SettingsError(f"{VARIABLE}: {requested!r} is not one of {', '.join(_core.ISAS)}")
    isa = _core.ISAS.index(requested)
    if not _core.supported(isa):
        raise SettingsError(
            f"{VARIABLE}: this processor or build lacks {requested}; it has {', '.join(usable())}"
        )
    return isa


def usable() -> list[str]:
    """Return the names of the instruction sets available here."""
    return [name for number, name in enumerate(_core.ISAS) if _core.supported(number)]


def processor_name() -> str:
    """Return the name of the processor, or of its architecture if the system does not say."""
    try:
        lines = CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(filter(None, named), "") or platform.processor() or platform.machine()

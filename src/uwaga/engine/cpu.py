"""The CPU: the number of cores that the process may use, and the instruction set of the engine."""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path

from uwaga.engine import _core
from uwaga.errors import SettingsError

CGROUP_MEMBERSHIP = Path("/proc/self/cgroup")
CGROUP_ROOT = Path("/sys/fs/cgroup")
CPU_INFO = Path("/proc/cpuinfo")


def usable_cores() -> int:
    """Return the number of cores that this process may use, at least one.

    Affinity masks (``taskset``, ``numactl``, cpusets of batch systems) and CPU quotas of control groups
    (``docker --cpus``, Kubernetes limits) are respected.
    """
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    return max(1, math.ceil(min(cores, cgroup_quota(CGROUP_MEMBERSHIP, CGROUP_ROOT))))


def cgroup_quota(membership: Path, cgroup_root: Path) -> float:
    """Return the CPU quota of control groups in cores; it is infinite if there is no limit.

    The quota is the minimum over the process's group and its parents, in version 2 (``cpu.max``) or version 1
    (``cpu.cfs_quota_us`` / ``cpu.cfs_period_us``).

    Args:
        membership: the file of the process's groups, such as ``/proc/self/cgroup``, with a line
            ``number:controllers:path`` for each group.
        cgroup_root: mount point of the hierarchies.
    """
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except OSError:
        return math.inf
    quota = math.inf
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = cgroup_root / controllers if controllers else cgroup_root
        # In a container the path is often that of the host, while the group is mounted as the root.
        names = [name for name in path.split("/") if name not in ("", "..")]
        for group in [root.joinpath(*names[:depth]) for depth in range(len(names) + 1)]:
            quota = min(quota, _quota_v1(group) if controllers else _quota_v2(group))
    return quota


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


ISA_VARIABLE = "UWAGA_ISA"


def resolve_isa(name: str | None = None) -> int:
    """Return the index of an instruction set.

    Args:
        name: the name of the instruction set; None for the set that ``UWAGA_ISA`` names or, if this variable
            is not set, the fastest set that is supported.
    """
    requested_name = (name or os.environ.get(ISA_VARIABLE) or "").strip().lower()
    if not requested_name:
        return _core.best_isa()
    if requested_name not in _core.ISAS:
        raise SettingsError(f"{ISA_VARIABLE}: {requested_name!r} is not one of {', '.join(_core.ISAS)}")
    isa = _core.ISAS.index(requested_name)
    if not _core.supported(isa):
        raise SettingsError(
            f"{ISA_VARIABLE}: this processor or build does not support {requested_name}; choose one of "
            f"{', '.join(available_isas())}"
        )
    return isa


def available_isas() -> list[str]:
    """Return the names of the instruction sets that this processor and build support."""
    return [name for index, name in enumerate(_core.ISAS) if _core.supported(index)]


def processor_name() -> str:
    """Return the name of the processor, or of its architecture if the system does not report it."""
    try:
        lines = CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(filter(None, names), "") or platform.processor() or platform.machine()

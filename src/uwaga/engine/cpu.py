"""How many cores this process may use: fewer than the machine has under taskset, in a container, in a job."""

from __future__ import annotations

import math
import os
from pathlib import Path

from uwaga.engine import _core
from uwaga.errors import SettingsError

MEMBERSHIP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """The cores that the system lets this process run on, at least one.

    Those of its affinity mask (``taskset``, ``numactl``, a batch system's cpuset), and of them no more than
    the control groups around it give it time for (``docker --cpus``, Kubernetes' limits).
    """
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    return max(1, math.ceil(min(cores, cgroup_quota(MEMBERSHIP, GROUPS))))


def cgroup_quota(membership: Path, groups: Path) -> float:
    """Cores' worth of time that control groups allow, infinite where they set no limit or there are none.

    The least of the process's own group and those above it, by version 2 (``cpu.max``) or 1
    (``cpu.cfs_quota_us`` of ``cpu.cfs_period_us``).

    Args:
        membership: the process's groups, as in ``/proc/self/cgroup``: ``number:controllers:path`` a line.
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
        # In a container the path is often that of the host, while the group itself is mounted as the top.
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
    """The number of an instruction set: ``name``, else ``UWAGA_ISA``, else the fastest there is.

    Raises:
        SettingsError: there is no such one, or this build or processor lacks it.
    """
    asked = (name or os.environ.get(VARIABLE) or "").strip().lower()
    if not asked:
        return _core.best_isa()
    if asked not in _core.ISAS:
        raise SettingsError(f"{VARIABLE}: {asked!r} is none of {', '.join(_core.ISAS)}")
    isa = _core.ISAS.index(asked)
    if not _core.supported(isa):
        raise SettingsError(
            f"{VARIABLE}: this processor or build lacks {asked}; it has {', '.join(usable())}"
        )
    return isa


def usable() -> list[str]:
    """The instruction sets that can be used here."""
    return [name for number, name in enumerate(_core.ISAS) if _core.supported(number)]

"""The number of processor cores that affinity and control groups allow a process to use."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from uwaga.engine.cpu import cgroup_quota, usable_cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity masks")
def test_number_of_usable_cores_respects_the_affinity_mask() -> None:
    core = min(os.sched_getaffinity(0))
    program = (
        f"import os; os.sched_setaffinity(0, [{core}]); os.cpu_count = lambda: 64\n"
        "from uwaga.engine.cpu import usable_cores\nprint(usable_cores())"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "1"
    assert 1 <= usable_cores() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("lines", "files", "quota"),
    [
        ("0::/a/b", {"a/b/cpu.max": "150000 100000"}, 1.5),
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "200000 100000"}, 2.0),
        ("0::/a/b", {"a/b/cpu.max": "300000 100000", "a/cpu.max": "200000 100000"}, 2.0),
        ("0::/of/the/host", {"cpu.max": "50000 100000"}, 0.5),
        ("0::/", {"cpu.max": "max 100000"}, math.inf),
        ("0::/", {"cpu.max": "rubbish"}, math.inf),
        ("4:cpu,cpuacct:/job\n1:memory:/job\n0::/",
         {"cpu,cpuacct/job/cpu.cfs_quota_us": "400000", "cpu,cpuacct/job/cpu.cfs_period_us": "100000"}, 4.0),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, math.inf),
        ("no such form", {}, math.inf),
    ],
)  # fmt: skip
def test_cpu_quota_is_read_from_control_groups(tmp_path, lines, files, quota) -> None:
    cgroup_root, membership = tmp_path / "groups", tmp_path / "cgroup"
    membership.write_text(lines)
    for name, text in files.items():
        (cgroup_root / name).parent.mkdir(parents=True, exist_ok=True)
        (cgroup_root / name).write_text(text)
    assert cgroup_quota(membership, cgroup_root) == quota


def test_cpu_quota_is_infinite_without_control_groups(tmp_path: Path) -> None:
    assert cgroup_quota(tmp_path / "nothing", tmp_path) == math.inf

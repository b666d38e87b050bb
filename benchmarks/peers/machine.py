"""Describe the machine on which figures were measured."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

BUSY = 0.5  # load average above which figures are not to be trusted
SHOWN_FLAGS = (
    "avx2",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "amx_tile",
    "amx_bf16",
    "asimd",
    "bf16",
    "sve",
)


def machine() -> dict[str, Any]:
    """Return the CPU model, the usable cores, the relevant instruction sets, the memory, the load and
    versions.
    """
    facts = _cpu()
    flags = set(facts.get("flags", facts.get("Features", "")).split())
    return {
        "cpu": facts.get("model name") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "isa": [flag for flag in SHOWN_FLAGS if flag in flags],
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load": os.getloadavg()[0],
    }


def show_machine(host: dict[str, Any]) -> None:
    """Print the result of :func:`machine`, and warn if the machine is busy."""
    print(f"machine  {host['cpu']}, {host['cores']} cores, {host['memory_gib']} GiB; {' '.join(host['isa'])}")
    print(f"system   {host['system']}, Python {host['python']}, load {host['load']:.2f}")
    if host["load"] > BUSY:
        print("warning: the machine is busy with something else; do not trust the figures", file=sys.stderr)


def _cpu() -> dict[str, str]:
    """Return the first processor's fields in /proc/cpuinfo; an empty dict if there is no such file."""
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}

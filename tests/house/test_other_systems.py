"""uwaga works where there is neither Linux nor POSIX: the core of these tests, with its calls taken away."""

from __future__ import annotations

import ast
import fnmatch
import subprocess
import sys
from pathlib import Path

import pytest
import without_linux

ROOT = Path(__file__).parents[2]
CORE = [
    "tests/checkpoints/test_bundled.py",
    "tests/cli/test_cli_bench.py",
    "tests/cli/test_cli_translate.py",
    "tests/data/test_data_store.py",
    "tests/documents/test_document_job.py",
    "tests/documents/test_html.py",
    "tests/documents/test_po.py",
    "tests/files/test_lock.py",
    "tests/jobs/test_table_job.py",
    "tests/server/test_server_v1.py",
]
NEED_LOCKS = [
    "tests/documents/test_document_job.py::test_one_process_at_a_time",
    "tests/files/test_lock.py::test_I11_1_which_owners_have_ended",
]
"""Tests of the locks and the boot numbers of Linux."""
FALLBACKS = {
    "data/rows.py": {"mmap.MADV_DONTNEED"},
    "engine/cpu.py": {"os.sched_getaffinity"},
    "engine/packing.py": {"mmap.MADV_HUGEPAGE", "mmap.MAP_ANONYMOUS", "mmap.MAP_PRIVATE"},
    "files/atomic.py": {"ctypes.CDLL"},
    "files/handles.py": {"os.fchmod", "os.geteuid"},
    "scheduling/model_batch.py": {"os.PRIO_PROCESS", "os.getpriority", "os.setpriority"},
    "server/models.py": {"os.sysconf"},
    "speed/machine.py": {"os.getloadavg", "os.sysconf"},
    "training/process.py": {"ctypes.CDLL"},
    "training/sweep.py": {"ctypes.CDLL"},
}
"""Each call that other systems lack, by the file that has it and does without it there."""


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, *words],
        env=without_linux.environment(folder / "first"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    return done.stdout


def test_the_calls_are_gone_and_a_sentence_is_translated(tmp_path: Path) -> None:
    code = (
        "import uwaga, uwaga.server.serve, uwaga.cleaning.workers, uwaga.data.rows\n"
        "from uwaga.engine import cpu, packing\n"
        "from uwaga.files import handles\n"
        "assert handles.fcntl is None and handles.NO_FOLLOW == 0 and not hasattr(handles.os, 'pread')\n"
        "assert not hasattr(cpu.os, 'sched_getaffinity') and not hasattr(packing.mmap, 'MAP_PRIVATE')\n"
        "assert cpu.usable_cores() >= 1\n"
        "uwaga.server.serve._raise_open_files()\n"
        "print(uwaga.load().translate('I want to buy a car.').text)\n"
    )
    assert run(tmp_path, "-c", code).startswith("Ich ")


@pytest.mark.slow
def test_the_core_passes_without_them(tmp_path: Path) -> None:
    without = [word for name in NEED_LOCKS for word in ("--deselect", name)]
    options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not slow and not compiled"]
    assert " passed" in run(tmp_path, "-m", "pytest", *options, *without, *CORE)


def calls(path: Path) -> set[str]:
    """The names of :data:`without_linux.NAMES` that a file uses."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module, name = node.value.id, node.attr
            if any(fnmatch.fnmatchcase(name, one) for one in without_linux.NAMES.get(module, ())):
                found.add(f"{module}.{name}")
    return found


def test_every_such_call_stands_where_it_can_be_done_without() -> None:
    source = ROOT / "src/uwaga"
    found = {path.relative_to(source).as_posix(): calls(path) for path in source.rglob("*.py")}
    assert {name: names for name, names in found.items() if names} == FALLBACKS

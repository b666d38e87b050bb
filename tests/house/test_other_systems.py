"""uwaga works on systems without Linux and POSIX: its core tests pass without their functions."""

import ast
import fnmatch
import subprocess
import sys
from pathlib import Path

import pytest
import without_linux

ROOT = Path(__file__).parents[2]
CORE_TESTS = [
    "tests/checkpoints/test_bundled.py", "tests/bench/test_cli_bench.py", "tests/cli/test_cli_translate.py",
    "tests/data/test_data_store.py", "tests/documents/test_document_job.py", "tests/documents/test_html.py",
    "tests/documents/test_po.py", "tests/files/test_lock.py", "tests/corpora/test_table_job.py",
    "tests/server/test_server_v1.py",
]  # fmt: skip
LINUX_LOCK_TESTS = [
    "tests/documents/test_document_job.py::test_concurrent_translation_of_the_same_document_is_rejected",
    "tests/files/test_lock.py::test_lock_of_an_ended_process_is_stale",
]
"""Tests of file locks that need functions of Linux."""
FALLBACKS = {
    "uwaga/data/rows.py": {"mmap.MADV_DONTNEED"},
    "uwaga/engine/cpu.py": {"os.sched_getaffinity"},
    "uwaga/engine/packing.py": {"mmap.MADV_HUGEPAGE", "mmap.MAP_ANONYMOUS", "mmap.MAP_PRIVATE"},
    "uwaga/files/atomic.py": {"ctypes.CDLL"},
    "uwaga/files/handles.py": {"os.fchmod", "os.geteuid"},
    "uwaga/scheduling/model_batch.py": {"os.PRIO_PROCESS", "os.getpriority", "os.setpriority"},
    "uwaga_server/models.py": {"os.sysconf"},
    "uwaga_bench/machine.py": {"os.getloadavg", "os.sysconf"},
    "uwaga/training/process.py": {"ctypes.CDLL"},
    "uwaga/training/sweep.py": {"ctypes.CDLL"},
}
"""Functions missing on other systems, by the file that has a fallback for them."""


def run(folder: Path, *arguments: str) -> str:
    process = subprocess.run(
        [sys.executable, *arguments], env=without_linux.environment(folder / "first"), cwd=ROOT,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, (process.stdout + process.stderr)[-6000:]
    return process.stdout


@pytest.mark.slow
def test_sentence_is_translated_without_linux_calls(tmp_path: Path) -> None:
    code = (
        "import uwaga, uwaga_server.serve, uwaga_corpora.cleaning.workers, uwaga.data.rows\n"
        "from uwaga.engine import cpu, packing\n"
        "from uwaga.files import handles\n"
        "assert handles.fcntl is None and handles.NO_FOLLOW == 0 and not hasattr(handles.os, 'pread')\n"
        "assert not hasattr(cpu.os, 'sched_getaffinity') and not hasattr(packing.mmap, 'MAP_PRIVATE')\n"
        "assert cpu.usable_cores() >= 1\n"
        "uwaga_server.serve._raise_open_file_limit()\n"
        "print(uwaga.load().translate('I want to buy a car.').text)\n"
    )
    assert run(tmp_path, "-c", code).startswith("Ich ")


@pytest.mark.release
def test_tests_of_core_features_pass_without_linux_calls(tmp_path: Path) -> None:
    deselected = [word for name in LINUX_LOCK_TESTS for word in ("--deselect", name)]
    options = ["-q", "-x", "-p", "no:cacheprovider", "-m", "not slow and not release"]
    assert " passed" in run(tmp_path, "-m", "pytest", *options, *deselected, *CORE_TESTS)


def calls(path: Path) -> set[str]:
    """Return those names in :data:`without_linux.NAMES` that a file uses."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module, name = node.value.id, node.attr
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in without_linux.NAMES.get(module, ())):
                names.add(f"{module}.{name}")
    return names


@pytest.mark.slow
def test_linux_calls_have_fallbacks() -> None:
    source = ROOT / "src"
    calls_by_file = {path.relative_to(source).as_posix(): calls(path) for path in source.rglob("*.py")}
    assert {name: names for name, names in calls_by_file.items() if names} == FALLBACKS

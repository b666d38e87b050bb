"""The engine built with sanitizers runs all code paths and reads damaged files without errors."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from hostile_files import make_files

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = ROOT / "tests" / "support"
MODEL = SUPPORT / "models" / "numbers-en-de"
PACKAGE = ROOT / "src" / "uwaga"
MEMORY, THREADS = "address,undefined", "thread"
LIBRARIES = {MEMORY: ("libasan.so", "libubsan.so"), THREADS: ("libtsan.so",)}
PYTHON = (sys.executable, "-S", "-P")
"""Python without `site`, which would import the core of the editable installation."""
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=66",
    "OPENBLAS_NUM_THREADS": "1",
}


@pytest.mark.slow
def test_engine_test_program_passes_without_sanitizers():
    run([sys.executable, SUPPORT / "engine_walk.py", "1", "8"], os.environ)


def sanitised_environment(folder, kind, portable=True):
    """Build the native core with a sanitizer; return the environment in which Python imports it.

    Most of the build's time is for the kernels of instruction sets, which share nothing between threads.
    """
    pytest.importorskip("nanobind")
    bin_folder = Path(sys.executable).parent
    cmake, compiler = shutil.which("cmake") or shutil.which("cmake", path=bin_folder), shutil.which("g++")
    if cmake is None or compiler is None:
        pytest.skip("no cmake or no g++ here")
    processes = [
        subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
        for name in LIBRARIES[kind]
    ]
    paths = [Path(process.stdout.strip()) for process in processes]
    if not all(path.is_absolute() for path in paths):
        pytest.skip("this compiler has no sanitizers")
    environment = {
        **os.environ,
        **OPTIONS,
        "PYTHONPATH": os.pathsep.join(
            [str(folder), str(SUPPORT), *{sysconfig.get_path(kind) for kind in ("purelib", "platlib")}]
        ),
        "LD_PRELOAD": ":".join(map(str, paths)),
    }
    probe = subprocess.run([sys.executable, "-c", ""], capture_output=True, env=environment, check=False)
    if probe.returncode:
        pytest.skip(f"Python does not run with {', '.join(LIBRARIES[kind])} on this kernel")
    build = folder / "build"
    options = [
        f"-DUWAGA_SANITIZE={kind}",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DCMAKE_CXX_COMPILER={compiler}",
        f"-DUWAGA_PORTABLE={'ON' if portable else 'OFF'}",
    ]
    run([cmake, "-S", ROOT, "-B", build, *options], os.environ)
    run([cmake, "--build", build, "--target", "_core", "-j1"], os.environ)
    ignored = shutil.ignore_patterns("_core*.so", "__pycache__", "bundled")
    shutil.copytree(PACKAGE, folder / "uwaga", ignore=ignored)
    [module] = build.glob("_core*.so")
    shutil.copy(module, folder / "uwaga" / "engine")
    check = (
        f"import uwaga.engine._core as core; assert core.__file__.startswith({str(folder)!r}), core.__file__"
    )
    run([*PYTHON, "-c", check], environment)
    return environment


@pytest.mark.parametrize(
    ("portable", "count"),
    [
        pytest.param(True, "2", marks=pytest.mark.slow),  # plain loops take ten times as long
        pytest.param(True, "8", marks=pytest.mark.release),
        pytest.param(False, "60", marks=pytest.mark.release),
    ],
)
def test_memory_sanitizers_report_no_errors(tmp_path, portable, count):
    """Weights and shortlists that contradict their checksums and headers are read, too."""
    environment = sanitised_environment(tmp_path, MEMORY, portable)
    run([*PYTHON, SUPPORT / "engine_walk.py", "2", count], environment)
    int8, shortlist = make_files(MODEL, tmp_path)
    script, scratch = SUPPORT / "hostile_files.py", tmp_path / "scratch"
    run([*PYTHON, script, int8, MODEL, shortlist, scratch, count], environment)


@pytest.mark.release
def test_thread_sanitizer_reports_no_errors(tmp_path):
    environment = sanitised_environment(tmp_path, THREADS)
    run([*PYTHON, SUPPORT / "engine_walk.py", "3", "10"], environment)


def run(command, environment):
    process = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert process.returncode == 0, (process.stdout + process.stderr)[-4000:]

"""The engine built with sanitizers walks every path, and reads lying files, without a complaint."""

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
"""Without `site`, which would find an installed core first, the installation being editable."""
OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:exitcode=66",
    "OPENBLAS_NUM_THREADS": "1",
}


def test_every_path_once():
    run([sys.executable, SUPPORT / "engine_walk.py", "1", "8"], os.environ)


def sanitised(place, kind):
    """The environment in which Python finds the package with a core built that way."""
    pytest.importorskip("nanobind")
    here = Path(sys.executable).parent
    cmake, compiler = shutil.which("cmake") or shutil.which("cmake", path=here), shutil.which("g++")
    if cmake is None or compiler is None:
        pytest.skip("no cmake or no g++ here")
    found = [
        subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
        for name in LIBRARIES[kind]
    ]
    paths = [Path(done.stdout.strip()) for done in found]
    if not all(path.is_absolute() for path in paths):
        pytest.skip("this compiler has no sanitizers")
    environment = {
        **os.environ,
        **OPTIONS,
        "PYTHONPATH": os.pathsep.join(
            [str(place), str(SUPPORT), *{sysconfig.get_path(kind) for kind in ("purelib", "platlib")}]
        ),
        "LD_PRELOAD": ":".join(map(str, paths)),
    }
    probe = subprocess.run([sys.executable, "-c", ""], capture_output=True, env=environment, check=False)
    if probe.returncode:
        pytest.skip(f"Python does not run with {', '.join(LIBRARIES[kind])} on this kernel")
    build = place / "build"
    options = [
        f"-DUWAGA_SANITIZE={kind}",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DCMAKE_CXX_COMPILER={compiler}",
        f"-DUWAGA_PORTABLE={'ON' if kind == THREADS else 'OFF'}",  # kernels share nothing between threads
    ]
    run([cmake, "-S", ROOT, "-B", build, *options], os.environ)
    run([cmake, "--build", build, "--target", "_core", "-j1"], os.environ)
    ignored = shutil.ignore_patterns("_core*.so", "__pycache__", "bundled")
    shutil.copytree(PACKAGE, place / "uwaga", ignore=ignored)
    [module] = build.glob("_core*.so")
    shutil.copy(module, place / "uwaga" / "engine")
    which = (
        f"import uwaga.engine._core as core; assert core.__file__.startswith({str(place)!r}), core.__file__"
    )
    run([*PYTHON, "-c", which], environment)
    return environment


@pytest.mark.compiled
@pytest.mark.slow
def test_sanitizers_find_nothing(tmp_path):
    """Also not where weights and shortlists are not what their file's checksum and header make them seem."""
    environment = sanitised(tmp_path, MEMORY)
    run([*PYTHON, SUPPORT / "engine_walk.py", "2", "60"], environment)
    int8, shortlist = make_files(MODEL, tmp_path)
    script, scratch = SUPPORT / "hostile_files.py", tmp_path / "scratch"
    run([*PYTHON, script, int8, MODEL, shortlist, scratch, "60"], environment)


@pytest.mark.compiled
@pytest.mark.slow
def test_threads_do_not_race(tmp_path):
    environment = sanitised(tmp_path, THREADS)
    run([*PYTHON, SUPPORT / "engine_walk.py", "3", "10"], environment)


def run(command, environment):
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]

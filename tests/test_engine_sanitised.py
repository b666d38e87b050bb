"""The engine built with address and undefined-behaviour sanitizers walks every path without a complaint."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SANITIZERS = "address,undefined"


def test_every_path_once():
    run([sys.executable, ROOT / "tests" / "engine_walk.py", "1", "24"], os.environ)


@pytest.mark.slow
def test_sanitizers_find_nothing(tmp_path):
    pytest.importorskip("nanobind")
    cmake, compiler = shutil.which("cmake"), shutil.which("c++")
    if cmake is None or compiler is None:
        pytest.skip("no cmake or compiler here")
    libraries = [
        subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
        for name in ("libasan.so", "libubsan.so")
    ]
    paths = [Path(done.stdout.strip()) for done in libraries]
    if not all(path.is_absolute() for path in paths):
        pytest.skip("this compiler has no sanitizers")
    build = tmp_path / "build"
    options = [f"-DUWAGA_SANITIZE={SANITIZERS}", f"-DPython_EXECUTABLE={sys.executable}"]
    run([cmake, "-S", ROOT, "-B", build, *options], os.environ)
    run([cmake, "--build", build, "--target", "_core", "-j1"], os.environ)
    package = tmp_path / "uwaga"
    ignored = shutil.ignore_patterns("_core*.so", "__pycache__", "bundled")
    shutil.copytree(ROOT / "src" / "uwaga", package, ignore=ignored)
    [module] = build.glob("_core*.so")
    shutil.copy(module, package / "engine")
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path),
        "LD_PRELOAD": ":".join(map(str, paths)),
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    }
    run([sys.executable, "-P", ROOT / "tests" / "engine_walk.py", "2", "60"], environment)


def run(command, environment):
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]

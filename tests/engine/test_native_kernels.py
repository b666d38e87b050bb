"""``native/tests``: every kernel of every instruction set, emulated ones too, against plain loops in C++.

Built by its own Makefile, without Python, into ``build/kernels``, where make finds it again the next time.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ARM_COMPILER, ARM_EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64-static"
WINDOWS_COMPILER = "x86_64-w64-mingw32-g++-posix"


def needed(*programs):
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} here")


def passed(folder, *settings):
    """The tables that the test program, built with these settings of make, found to be right."""
    command = ["make", "-C", ROOT / "native" / "tests", f"BUILD={ROOT / 'build' / folder}", "OPTIMISE=-O2"]
    done = subprocess.run([*command, *settings, "test"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert "warning:" not in done.stderr
    return {line.removesuffix(": passed") for line in done.stdout.splitlines() if line.endswith(": passed")}


@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_every_kernel_is_right_on_this_processor(compiler):
    needed("make", compiler)
    engine = pytest.importorskip("uwaga.engine.cpu")
    tables = passed(f"kernels-{compiler}", f"CXX={compiler}")
    expected = set(engine.usable())
    if "avx512vnni" in expected:  # the emulations are made of its instructions
        expected |= {"amx (emulated)"} if "avxvnni" in expected else {"amx (emulated)", "avxvnni (emulated)"}
    assert tables == expected


@pytest.mark.compiled
@pytest.mark.slow
def test_every_kernel_is_right_on_arm():
    """Cross-compiled and run under emulation, so that it is tested where there is no Arm processor."""
    needed("make", ARM_COMPILER, ARM_EMULATOR)
    root = Path("/usr/aarch64-linux-gnu")
    if not root.is_dir():
        pytest.skip(f"no libraries for Arm in {root}")
    run = f"RUN={ARM_EMULATOR} -L {root}"
    assert passed("kernels-arm", f"CXX={ARM_COMPILER}", run) == {"portable", "neon"}


@pytest.mark.compiled
@pytest.mark.slow
def test_every_kernel_is_right_in_webassembly_and_has_the_bits_of_the_portable_one():
    needed("make", "em++", "node")
    run = "RUN=node", "CXX=em++"
    assert passed("kernels-wasm", *run) == {"portable", "wasm", "wasm and portable"}


@pytest.mark.compiled
@pytest.mark.slow
def test_every_kernel_is_right_on_windows(monkeypatch):
    """Cross-compiled, and run by Wine, with the instructions of this processor but AMX."""
    needed("make", WINDOWS_COMPILER, "wine")
    engine = pytest.importorskip("uwaga.engine.cpu")
    monkeypatch.setenv("WINEPREFIX", str(Path(tempfile.gettempdir(), "uwaga-wine")))
    monkeypatch.setenv("WINEDEBUG", "-all")
    tables = passed("kernels-windows", f"CXX={WINDOWS_COMPILER}", "RUN=wine")
    emulated = {one for one in tables if one.endswith(" (emulated)")}
    assert tables - emulated == set(engine.usable()) - {"amx"}


@pytest.mark.compiled
@pytest.mark.slow
def test_the_engine_compiles_without_linux():
    needed("make", "em++")
    command = ["make", "-C", ROOT / "native" / "tests", "syntax", "CXX=em++"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def flags_of(commands):
    """What the compiler is told of the processor and of floating point, for each file of kernels."""
    found = {}
    for words in commands:
        [source] = [Path(word).name for word in words if word.endswith(".cpp")]
        found[source] = [word for word in words if word.startswith(("-m", "-ffp", "-std"))]
    return {source: sorted(words) for source, words in found.items()}


def test_what_is_tested_is_what_is_shipped(tmp_path):
    """The extension's build and the tests' own give every kernel's file the same flags."""
    pytest.importorskip("nanobind")
    cmake = shutil.which("cmake") or shutil.which("cmake", path=Path(sys.executable).parent)
    if cmake is None:
        pytest.skip("no cmake here")
    needed("make", "g++")
    options = [
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        "-DCMAKE_CXX_COMPILER=g++",
        f"-DPython_EXECUTABLE={sys.executable}",
    ]
    subprocess.run([cmake, "-S", ROOT, "-B", tmp_path, *options], capture_output=True, check=True)
    commands = json.loads((tmp_path / "compile_commands.json").read_text())
    shipped = [shlex.split(one["command"]) for one in commands if "/native/kernels/" in one["file"]]
    make = ["make", "--dry-run", "-C", ROOT / "native" / "tests", f"BUILD={tmp_path / 'tests'}", "CXX=g++"]
    lines = subprocess.run([*make, "test"], capture_output=True, text=True, check=True).stdout.splitlines()
    compiled = [shlex.split(line) for line in lines if " -c ../kernels/" in line]
    tested = [words for words in compiled if "-DUWAGA_EMULATE" not in words]
    assert flags_of(tested) == flags_of(shipped)
    assert all("-ffp-contract=off" in words for words in flags_of(shipped).values())
    assert {"dispatch.cpp", "packing.cpp", "portable.cpp"} <= set(flags_of(shipped))


LADDER = (
    "binding",
    "rates",
    "c",
    "checkpoints",
    "search",
    "recurrent",
    "transformer",
    "output",
    "runtime",
    "files",
    "kernels",
    "text",
)
MUTUAL = ("recurrent", "transformer", "output")
"""A state holds the columns of its sentences' shortlists, and a step ends in the choice of candidates."""


def test_folders_include_only_what_lies_below_them():
    """As native/README.md says."""
    for folder in LADDER:
        below = {*LADDER[LADDER.index(folder) :], *(MUTUAL if folder in MUTUAL else ())}
        for path in (ROOT / "native" / folder).rglob("*.*"):
            included = set(re.findall(r'^#include "(\w+)/', path.read_text(), re.MULTILINE))
            assert included <= below, path
    assert {path.name for path in (ROOT / "native").iterdir() if path.is_dir()} == {*LADDER, "tests"}

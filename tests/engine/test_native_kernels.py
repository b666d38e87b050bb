"""``native/tests``: kernels of all instruction sets, also emulated ones, against simple loops in C++.

They are built by their own Makefile, without Python, in ``build/kernels``, where make finds them again.
"""

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from c_library import extension_objects

ROOT = Path(__file__).resolve().parents[2]
ARM_COMPILER, ARM_EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64-static"
WINDOWS_COMPILER = "x86_64-w64-mingw32-g++-posix"


def require_programs(*programs):
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)} here")


def passed_tables(folder, *settings):
    """Build and run the test program with the given make settings; return the kernel tables that passed."""
    command = ["make", "-C", ROOT / "native" / "tests", f"BUILD={ROOT / 'build' / folder}", "OPTIMISE=-O2"]
    process = subprocess.run([*command, *settings, "test"], capture_output=True, text=True, check=False)
    assert process.returncode == 0, (process.stdout + process.stderr)[-4000:]
    assert "warning:" not in process.stderr
    return {
        line.removesuffix(": passed") for line in process.stdout.splitlines() if line.endswith(": passed")
    }


@pytest.mark.parametrize(
    "compiler",
    [pytest.param("g++", marks=pytest.mark.slow), pytest.param("clang++", marks=pytest.mark.release)],
)
def test_kernel_tests_pass_on_this_processor(compiler):
    require_programs("make", compiler)
    engine = pytest.importorskip("uwaga.engine.cpu")
    expected = set(engine.available_isas())
    folder, settings = f"kernels-{compiler}", [f"CXX={compiler}"]
    objects = extension_objects(compiler)
    if objects:
        folder, settings = "extension-kernels", [*settings, f"KERNELS={objects / 'native/kernels/isa'}"]
        if "avx512vnni" not in expected:
            settings.append("EMULATED=")
    tables = passed_tables(folder, *settings)
    if "avx512vnni" in expected:  # the emulations are made of its instructions
        expected |= {"amx (emulated)"} if "avxvnni" in expected else {"amx (emulated)", "avxvnni (emulated)"}
    assert tables == expected


@pytest.mark.release
def test_kernel_tests_pass_on_arm():
    """Cross-compile and run under emulation, since there may be no Arm processor."""
    require_programs("make", ARM_COMPILER, ARM_EMULATOR)
    root = Path("/usr/aarch64-linux-gnu")
    if not root.is_dir():
        pytest.skip(f"no libraries for Arm in {root}")
    run = f"RUN={ARM_EMULATOR} -L {root}"
    assert passed_tables("kernels-arm", f"CXX={ARM_COMPILER}", run) == {"portable", "neon"}


@pytest.mark.release
def test_kernel_tests_pass_in_webassembly():
    require_programs("make", "em++", "node")
    run = "RUN=node", "CXX=em++"
    assert passed_tables("kernels-wasm", *run) == {"portable", "wasm", "wasm and portable"}


@pytest.mark.release
def test_kernel_tests_pass_on_windows(monkeypatch):
    """Cross-compile and run in Wine, with the instruction sets of this processor except AMX."""
    require_programs("make", WINDOWS_COMPILER, "wine")
    engine = pytest.importorskip("uwaga.engine.cpu")
    monkeypatch.setenv("WINEPREFIX", str(Path(tempfile.gettempdir(), "uwaga-wine")))
    monkeypatch.setenv("WINEDEBUG", "-all")
    tables = passed_tables("kernels-windows", f"CXX={WINDOWS_COMPILER}", "RUN=wine")
    emulated = {table for table in tables if table.endswith(" (emulated)")}
    assert tables - emulated == set(engine.available_isas()) - {"amx"}


@pytest.mark.release
def test_engine_compiles_without_linux_headers():
    require_programs("make", "em++")
    command = ["make", "-C", ROOT / "native" / "tests", "syntax", "CXX=em++"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, (process.stdout + process.stderr)[-4000:]


def flags_of(commands):
    """Return the compiler flags for the processor and for floating point, for each kernel file."""
    flags = {}
    for words in commands:
        [source] = [Path(word).name for word in words if word.endswith(".cpp")]
        flags[source] = [word for word in words if word.startswith(("-m", "-ffp", "-std"))]
    return {source: sorted(words) for source, words in flags.items()}


@pytest.mark.slow
def test_tests_and_extension_use_the_same_compiler_flags(tmp_path):
    """The builds of the extension and of the tests use the same flags for all kernel files."""
    pytest.importorskip("nanobind")
    cmake = shutil.which("cmake") or shutil.which("cmake", path=Path(sys.executable).parent)
    if cmake is None:
        pytest.skip("no cmake here")
    require_programs("make", "g++")
    options = [
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        "-DCMAKE_CXX_COMPILER=g++",
        f"-DPython_EXECUTABLE={sys.executable}",
    ]
    subprocess.run([cmake, "-S", ROOT, "-B", tmp_path, *options], capture_output=True, check=True)
    commands = json.loads((tmp_path / "compile_commands.json").read_text())
    shipped = [
        shlex.split(command["command"]) for command in commands if "/native/kernels/" in command["file"]
    ]
    make = ["make", "--dry-run", "-C", ROOT / "native" / "tests", f"BUILD={tmp_path / 'tests'}", "CXX=g++"]
    lines = subprocess.run([*make, "test"], capture_output=True, text=True, check=True).stdout.splitlines()
    compiled = [shlex.split(line) for line in lines if " -c ../kernels/" in line]
    tested = [words for words in compiled if "-DUWAGA_EMULATE" not in words]
    assert flags_of(tested) == flags_of(shipped)
    assert all("-ffp-contract=off" in words for words in flags_of(shipped).values())
    assert {"dispatch.cpp", "packing.cpp", "portable.cpp"} <= set(flags_of(shipped))

"""``native/tests``: every kernel of every instruction set, emulated ones too, against plain loops in C++.

Built by its own Makefile, without Python, into ``build/kernels``, where make finds it again the next time.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ARM_COMPILER, ARM_EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64-static"


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


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_every_kernel_is_right_on_this_processor(compiler):
    needed("make", compiler)
    engine = pytest.importorskip("uwaga.engine.isa")
    tables = passed(f"kernels-{compiler}", f"CXX={compiler}")
    expected = set(engine.usable())
    if "avx512vnni" in expected:  # the emulations are made of its instructions
        expected |= {"amx (emulated)"} if "avxvnni" in expected else {"amx (emulated)", "avxvnni (emulated)"}
    assert tables == expected


@pytest.mark.slow
def test_every_kernel_is_right_on_arm():
    """Cross-compiled and run under emulation, so that it is tested where there is no Arm processor."""
    needed("make", ARM_COMPILER, ARM_EMULATOR)
    root = Path("/usr/aarch64-linux-gnu")
    if not root.is_dir():
        pytest.skip(f"no libraries for Arm in {root}")
    run = f"RUN={ARM_EMULATOR} -L {root}"
    assert passed("kernels-arm", f"CXX={ARM_COMPILER}", run) == {"portable", "neon"}

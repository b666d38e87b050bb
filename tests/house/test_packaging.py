"""What strangers get: the sdist holds the source; its wheel holds the package and runs with nothing else.

Everything is built once, without a network, from the build requirements that are installed here.
"""

import fcntl
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
CHECK = ROOT / "tests/support/check_installed.py"
OLD = "Nehalem"
"""A processor of 2008, without AVX: numpy's own wheels ask for as much (x86-64-v2)."""
LIBRARIES = r"(libstdc\+\+|libm|libgcc_s|libc|libpthread|ld-linux-[\w-]+)\.so\.\d+"
"""Of the system's, those that every Linux with glibc has."""


class Made(NamedTuple):
    sdist: Path
    wheel: Path
    objects: Path
    """The folder that the wheel's core was compiled in."""
    environment: Path
    """A virtual environment with that wheel and its runtime dependencies."""
    listed: set[str]
    """The files that git had, or would have added, when they were built."""


def run(*command: str | Path, **settings) -> str:
    """A program's output; its tests may not reach a network, nor find this tree's uwaga."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, env=environment, **settings
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def brought_by(requirements: list[str]) -> set[str]:
    """The distributions, of those installed here, that installing these brings."""
    found: set[str] = set()
    todo = [(line, "") for line in requirements]
    while todo:
        line, extra = todo.pop()
        one = Requirement(line)
        if one.marker is not None and not one.marker.evaluate({"extra": extra}):
            continue
        name = re.sub(r"[-_.]+", "-", one.name).lower()
        if name in found and not one.extras:
            continue
        found.add(name)
        asked = importlib.metadata.requires(name) or []
        todo += [(line, extra) for line in asked for extra in ("", *one.extras)]
    return found


def install(wheel: Path, environment: Path) -> None:
    """The wheel, and beside it its dependencies, which are linked from here: no network, and nothing else."""
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin/python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", wheel)
    [site] = (environment / "lib").glob("python*/site-packages")
    [info] = site.glob("uwaga-*.dist-info")
    for name in brought_by(importlib.metadata.PathDistribution(info).requires or []):
        distribution = importlib.metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}
        for top in tops:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(distribution.locate_file(top))).resolve())


def build(folder: Path) -> None:
    """The sdist, unpacked elsewhere, its wheel, and an environment with that."""
    if (ROOT / ".git").exists():
        listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines()
        (folder / "listed").write_text("\n".join(name for name in listed if (ROOT / name).exists()))
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, ROOT)
    [sdist] = folder.glob("*.tar.gz")
    (folder / "unpacked").mkdir()
    run("tar", "-xzf", sdist, "-C", folder / "unpacked")  # tarfile's safe way is not in every Python 3.11
    [source] = (folder / "unpacked").iterdir()
    (source / "src/uwaga/engine/_core.cpython-39-x86_64-linux-gnu.so").touch()  # as an older build leaves it
    offline = ["--no-index", "--no-build-isolation", "--no-deps"]
    objects = f"--config-settings=build-dir={folder / 'objects'}"
    run(sys.executable, "-m", "pip", "wheel", *offline, objects, "--wheel-dir", folder, source)
    [wheel] = folder.glob("*.whl")
    install(wheel, folder / "environment")


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Made:
    """Built by the first test process that asks for it; the others wait."""
    for module in ("build", "nanobind", "scikit_build_core"):
        pytest.importorskip(module)
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "packaging"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            build(folder)
            (folder / "done").touch()
    [sdist], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    listed = folder / "listed"
    files = set(listed.read_text().splitlines()) if listed.exists() else set()
    return Made(sdist, wheel, folder / "objects", folder / "environment", files)


@pytest.mark.slow
def test_I11_26_sdist_holds_the_whole_tree(made):
    if not made.listed:
        pytest.skip("this source tree is no checkout")
    with tarfile.open(made.sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    kept = {name for name in made.listed if not name.startswith(".ci/")}
    assert held - {"COMMIT"} == kept | {"PKG-INFO"}  # COMMIT: which `make sdist` leaves


@pytest.mark.slow
def test_I11_26_wheel_holds_the_package_its_core_and_nothing_else(made):
    """No tests, no native sources, no core of another Python; the licence, py.typed and the bundled model."""
    if not made.listed:
        pytest.skip("this source tree is no checkout")
    with zipfile.ZipFile(made.wheel) as archive:
        held = {name for name in archive.namelist() if not name.endswith("/")}
    [core] = {name for name in held if re.fullmatch(r"uwaga/engine/_core\.[\w.-]+\.so", name)}
    about = {name for name in held if re.match(r"uwaga-[\w.]+\.dist-info/", name)}
    package = {name.removeprefix("src/") for name in made.listed if name.startswith("src/uwaga/")}
    assert held - about == package | {core}
    assert {"py.typed", "bundled", "engine"} <= {name.split("/")[1] for name in held}
    assert any(name.endswith("/licenses/LICENSE") for name in about)


@pytest.mark.slow
def test_I11_26_from_312_on_one_wheel_serves_every_python(made):
    assert ("-cp312-abi3-" if sys.version_info >= (3, 12) else "-cp311-cp311-") in made.wheel.name


@pytest.mark.slow
def test_I11_26_installed_wheel_translates_without_torch(made, tmp_path):
    """With every instruction set of this processor, from a folder that is no source tree."""
    python = made.environment / "bin/python"
    assert str(made.environment) in run(python, CHECK, cwd=tmp_path)
    program = made.environment / "bin/uwaga"
    assert run(program, "translate", "I want to buy a car.", cwd=tmp_path).strip()


@pytest.mark.slow
def test_I11_26_no_kernel_is_lent_to_other_processors(made):
    """A function that several files define is kept once, from any of them: from one that is compiled for
    newer processors, others would get instructions that they lack."""
    if shutil.which("nm") is None:
        pytest.skip("no nm here")
    objects = list(made.objects.rglob("kernels/isa/*.o"))
    assert len(objects) >= 1
    for file in objects:
        assert [line for line in run("nm", file).splitlines() if re.search(r" [uVW] ", line)] == [], file


@pytest.mark.slow
def test_I11_26_core_needs_only_the_libraries_that_every_linux_has(made):
    if shutil.which("readelf") is None:
        pytest.skip("no readelf here")
    [core] = made.environment.glob("lib/python*/site-packages/uwaga/engine/_core*.so")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", core))
    assert [name for name in needed if not re.fullmatch(LIBRARIES, name)] == []


@pytest.mark.slow
def test_I11_26_installed_wheel_translates_on_an_old_processor(made, tmp_path, monkeypatch):
    emulator = "qemu-x86_64-static"
    if platform.machine() != "x86_64" or shutil.which(emulator) is None:
        pytest.skip(f"no x86-64 processor or no {emulator} here")
    # The OpenBLAS in numpy 2.4.6 takes the emulated processor for one with AVX; ours is what is tested.
    monkeypatch.setenv("OPENBLAS_CORETYPE", OLD)
    old = [emulator, "-cpu", OLD, made.environment / "bin/python", CHECK]
    assert ", portable: " in run(*old, cwd=tmp_path)


def matrix(workflow: str) -> list[str]:
    text = (ROOT / ".github/workflows" / workflow).read_text(encoding="utf-8")
    [versions] = re.findall(r"^ +python: \[(.*)\]$", text, re.MULTILINE)
    return re.findall(r'"([\d.]+)"', versions)


def test_I11_26_every_python_that_is_promised_is_tested_and_gets_a_wheel():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    promised = [
        line.rpartition(" ")[2]
        for line in project["project"]["classifiers"]
        if re.search(r":: Python :: 3\.\d+$", line)
    ]
    assert project["project"]["requires-python"] == f">={promised[0]}"
    assert matrix("test.yml") == promised
    built = project["tool"]["cibuildwheel"]["build"]
    assert built == [f"cp{version.replace('.', '')}-*" for version in promised]


def test_I11_26_the_page_on_installing_has_every_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs/guides/install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `?(\w+)`? \|.*\|[ +]+[\d,]+ \|$", page, re.MULTILINE)
    assert sorted(rows) == sorted(["none", *project["optional-dependencies"]])

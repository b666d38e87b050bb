"""The sdist contains the source; its wheel contains the package and runs with its dependencies alone.

Both are built without a network, with the installed build requirements.
"""

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
OLD_PROCESSOR = "Nehalem"
"""A processor of 2008 without AVX, the oldest that numpy's wheels support (x86-64-v2)."""
SYSTEM_LIBRARIES = r"(libstdc\+\+|libm|libgcc_s|libc|libpthread|ld-linux-[\w-]+)\.so\.\d+"
"""System libraries that every Linux system with glibc has."""


class SourceDistribution(NamedTuple):
    path: Path
    listed: set[str]
    """The files that git had, or would have added, when it was built."""


class Distribution(NamedTuple):
    wheel: Path
    objects: Path
    """The folder that the wheel's core was compiled in."""
    environment: Path
    """A virtual environment with that wheel and its runtime dependencies."""


def run(*command: str | Path, **settings) -> str:
    """Run a program without a network or this tree's uwaga, and return its output."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"https_proxy": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
    process = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, env=environment, **settings
    )
    assert process.returncode == 0, (process.stdout + process.stderr)[-4000:]
    return process.stdout


def dependency_names(requirements: list[str]) -> set[str]:
    """Return the names of the installed distributions that the given requirements need."""
    names: set[str] = set()
    todo = [(line, "") for line in requirements]
    while todo:
        line, extra = todo.pop()
        requirement = Requirement(line)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name in names and not requirement.extras:
            continue
        names.add(name)
        dependencies = importlib.metadata.requires(name) or []
        todo += [(line, extra) for line in dependencies for extra in ("", *requirement.extras)]
    return names


def install(wheel: Path, environment: Path) -> None:
    """Install the wheel without a network, and link its dependencies from this environment."""
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin/python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "--no-deps", wheel)
    [site] = (environment / "lib").glob("python*/site-packages")
    [info] = site.glob("uwaga-*.dist-info")
    for name in dependency_names(importlib.metadata.PathDistribution(info).requires or []):
        distribution = importlib.metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or []} - {"..", "__pycache__"}
        for top in tops:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(distribution.locate_file(top))).resolve())


def build_sdist(folder: Path) -> None:
    if (ROOT / ".git").exists():
        names = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines()
        (folder / "listed").write_text("\n".join(name for name in names if (ROOT / name).exists()))
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, ROOT)


def build_wheel(sdist: Path, folder: Path) -> None:
    """Build a wheel from the unpacked files of the sdist, and an environment with the wheel."""
    (folder / "unpacked").mkdir()
    run("tar", "-xzf", sdist, "-C", folder / "unpacked")  # tarfile's safe way is not in every Python 3.11
    [source] = (folder / "unpacked").iterdir()
    (source / "src/uwaga/engine/_core.cpython-39-x86_64-linux-gnu.so").touch()  # as an older build leaves it
    offline = ["--no-index", "--no-build-isolation", "--no-deps"]
    objects = f"--config-settings=build-dir={folder / 'objects'}"
    run(sys.executable, "-m", "pip", "wheel", *offline, objects, "--wheel-dir", folder, source)
    [wheel] = folder.glob("*.whl")
    install(wheel, folder / "environment")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> SourceDistribution:
    for module in ("build", "nanobind", "scikit_build_core"):
        pytest.importorskip(module)
    folder = tmp_path_factory.mktemp("sdist")
    build_sdist(folder)
    [path], list_path = folder.glob("*.tar.gz"), folder / "listed"
    if not list_path.exists():
        pytest.skip("this source tree is no checkout")
    return SourceDistribution(path, set(list_path.read_text().splitlines()))


@pytest.fixture(scope="module")
def distribution(tmp_path_factory, sdist) -> Distribution:
    folder = tmp_path_factory.mktemp("wheel")
    build_wheel(sdist.path, folder)
    [wheel] = folder.glob("*.whl")
    return Distribution(wheel, folder / "objects", folder / "environment")


@pytest.mark.slow
def test_sdist_contains_exactly_the_tracked_files(sdist):
    with tarfile.open(sdist.path) as archive:
        members = {name.partition("/")[2] for name in archive.getnames()}
    expected = {name for name in sdist.listed if not name.startswith(".ci/")}
    assert members - {"COMMIT"} == expected | {"PKG-INFO"}  # COMMIT: which `make sdist` leaves


@pytest.mark.release
def test_wheel_contains_only_the_package_and_the_native_core(distribution, sdist):
    """The wheel has the licence, py.typed and the bundled model, but no tests and native sources."""
    with zipfile.ZipFile(distribution.wheel) as archive:
        members = {name for name in archive.namelist() if not name.endswith("/")}
    [core] = {name for name in members if re.fullmatch(r"uwaga/engine/_core\.[\w.-]+\.so", name)}
    metadata = {name for name in members if re.match(r"uwaga-[\w.]+\.dist-info/", name)}
    package = {name.removeprefix("src/") for name in sdist.listed if name.startswith("src/uwaga")}
    assert members - metadata == package | {core}
    assert {"py.typed", "bundled", "engine"} <= {name.split("/")[1] for name in members}
    assert any(name.endswith("/licenses/LICENSE") for name in metadata)


@pytest.mark.release
def test_wheel_uses_the_stable_abi(distribution):
    assert ("-cp312-abi3-" if sys.version_info >= (3, 12) else "-cp311-cp311-") in distribution.wheel.name


@pytest.mark.release
def test_installed_wheel_translates_without_torch(distribution, tmp_path):
    """Translation succeeds outside the source tree with each instruction set of this processor."""
    python = distribution.environment / "bin/python"
    assert str(distribution.environment) in run(python, CHECK, cwd=tmp_path)
    program = distribution.environment / "bin/uwaga"
    assert run(program, "translate", "I want to buy a car.", cwd=tmp_path).strip()


@pytest.mark.release
def test_kernels_define_no_weak_symbols(distribution):
    """Linkers keep one definition of a weak function, from any file. If that file is compiled for
    newer processors, older ones would execute instructions that they lack."""
    if shutil.which("nm") is None:
        pytest.skip("no nm here")
    objects = list(distribution.objects.rglob("kernels/isa/*.o"))
    assert len(objects) >= 1
    for file in objects:
        assert [line for line in run("nm", file).splitlines() if re.search(r" [uVW] ", line)] == [], file


@pytest.mark.release
def test_native_core_links_only_system_libraries(distribution):
    if shutil.which("readelf") is None:
        pytest.skip("no readelf here")
    [core] = distribution.environment.glob("lib/python*/site-packages/uwaga/engine/_core*.so")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", core))
    assert [name for name in needed if not re.fullmatch(SYSTEM_LIBRARIES, name)] == []


@pytest.mark.release
def test_installed_wheel_translates_on_an_old_processor(distribution, tmp_path, monkeypatch):
    emulator = "qemu-x86_64-static"
    if platform.machine() != "x86_64" or shutil.which(emulator) is None:
        pytest.skip(f"no x86-64 processor or no {emulator} here")
    # The OpenBLAS in numpy 2.4.6 takes the emulated processor for one with AVX; ours is what is tested.
    monkeypatch.setenv("OPENBLAS_CORETYPE", OLD_PROCESSOR)
    command = [emulator, "-cpu", OLD_PROCESSOR, distribution.environment / "bin/python", CHECK]
    assert ", portable: " in run(*command, cwd=tmp_path)


def matrix(workflow: str) -> list[str]:
    text = (ROOT / ".github/workflows" / workflow).read_text(encoding="utf-8")
    [versions] = re.findall(r"^ +python: \[(.*)\]$", text, re.MULTILINE)
    return re.findall(r'"([\d.]+)"', versions)


def test_supported_pythons_are_tested_and_get_wheels():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    supported = [
        line.rpartition(" ")[2]
        for line in project["project"]["classifiers"]
        if re.search(r":: Python :: 3\.\d+$", line)
    ]
    assert project["project"]["requires-python"] == f">={supported[0]}"
    assert matrix("test.yml") == supported
    wheels = project["tool"]["cibuildwheel"]["build"]
    assert wheels == [f"cp{version.replace('.', '')}-*" for version in supported]


def test_installation_page_lists_all_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs/guides/install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `?(\w+)`? \|.*\|[ +]+[\d,]+ \|$", page, re.MULTILINE)
    assert sorted(rows) == sorted(["none", *project["optional-dependencies"]])

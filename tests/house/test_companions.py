"""Without its companion packages, the toolkit passes its tests and lists none of their commands."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import uwaga.engine._core

ROOT = Path(__file__).parents[2]
COMPANIONS = sorted(path.name.removeprefix("uwaga_") for path in (ROOT / "src").glob("uwaga_*"))
VERBS = (
    *("translate-file", "batch", "serve", "mcp", "clean", "distil", "backtranslate", "bench", "learn"),
    "memory",
)


@pytest.fixture(scope="module")
def toolkit_copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the source tree without the companion packages and their tests."""
    tree = tmp_path_factory.mktemp("toolkit")
    ignored = shutil.ignore_patterns("__pycache__", "_core*.so")
    shutil.copytree(ROOT / "src/uwaga", tree / "src/uwaga", ignore=ignored)
    shutil.copy(uwaga.engine._core.__file__, tree / "src/uwaga/engine")
    shutil.copytree(ROOT / "tests", tree / "tests", ignore=ignored)
    for name in (*COMPANIONS, "house"):
        shutil.rmtree(tree / "tests" / name)
    for path in ROOT.iterdir():
        if path.name not in ("src", "tests", ".git", ".venv", "build", "site", "dist"):
            (tree / path.name).symlink_to(path)
    venv.create(tree / "environment", symlinks=True)
    # Path files in a folder that a path file adds are not read, such as that of the installed uwaga.
    [packages] = (tree / "environment").glob("lib/python*/site-packages")
    installed = sysconfig.get_path("purelib")
    (packages / "toolkit.pth").write_text(f"{tree / 'src'}\n{installed}\n", encoding="utf-8")
    return tree


def python(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(tree / "environment/bin/python"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=tree, check=False)


def test_source_tree_contains_the_expected_companion_packages() -> None:
    assert COMPANIONS == ["bench", "compat", "corpora", "course", "documents", "memory", "server"]


def test_help_does_not_list_commands_of_missing_packages(toolkit_copy: Path) -> None:
    help_page = python(toolkit_copy, "-m", "uwaga", "--help").stdout
    assert "translate " in help_page
    assert not [name for name in VERBS if f" {name} " in help_page]
    assert "No such command 'serve'" in python(toolkit_copy, "-m", "uwaga", "serve").stderr


def test_translation_works_without_companion_packages(toolkit_copy: Path) -> None:
    assert python(toolkit_copy, "-m", "uwaga", "translate", "A dog sleeps.").stdout == "Ein Hund schläft.\n"


@pytest.mark.release
def test_tests_of_core_features_pass_without_companion_packages(toolkit_copy: Path) -> None:
    workers = ("-n", str(os.cpu_count()), "--dist", "loadfile")
    result = python(toolkit_copy, "-m", "pytest", "-q", *workers, "-m", "not slow and not release", "tests")
    print(result.stdout[-5000:], file=sys.stderr)
    assert result.returncode == 0

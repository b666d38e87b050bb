"""``uwaga --version``: the version, the commit, the instruction set and the build."""

import re
import subprocess
import sys

import pytest
from command_line import run_uwaga

import uwaga
from uwaga.cli.version import checkout_commit
from uwaga.engine import _core, cpu


def report() -> list[str]:
    result = run_uwaga("--version")
    return result.stdout.splitlines()


def test_version_is_printed_on_the_first_line():
    assert report()[0] == f"uwaga {uwaga.__version__}"


def test_version_lines_after_the_first_describe_the_build_and_the_processor():
    names = [re.split(r"  +", line)[0] for line in report()[1:]]
    assert names == ["commit", "processor", "instruction set", "build", "python"]


@pytest.mark.parametrize("isa", cpu.available_isas())
def test_selected_instruction_set_is_shown(isa, monkeypatch):
    monkeypatch.setenv(cpu.ISA_VARIABLE, isa)
    assert f"instruction set  {isa} of portable" in report()[3]


def test_available_instruction_sets_are_compiled_in():
    assert set(cpu.available_isas()) <= {"portable", *_core.COMPILED_ISAS.split()}


def test_unknown_instruction_set_is_reported(monkeypatch):
    monkeypatch.setenv(cpu.ISA_VARIABLE, "mmx")
    assert "'mmx' is not one of" in report()[3]


def test_build_commit_is_a_hash_and_flags_contain_no_paths():
    assert re.fullmatch(r"[0-9a-f]{4,40}(-dirty)?|unknown", _core.COMMIT)
    assert "/" not in _core.FLAGS, "paths of the machine that built it"


def test_installed_package_reports_no_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(uwaga, "__file__", str(tmp_path / "lib/site-packages/uwaga/__init__.py"))
    assert checkout_commit() is None


def test_checkout_commit_is_read_from_git(tmp_path, monkeypatch):
    (tmp_path / "src/uwaga").mkdir(parents=True)
    monkeypatch.setattr(uwaga, "__file__", str(tmp_path / "src/uwaga/__init__.py"))
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    assert checkout_commit() == head.strip()
    monkeypatch.setenv("PATH", "")
    assert checkout_commit() is None


def test_broken_engine_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "uwaga.engine.cpu", None)
    assert any(line.startswith("engine           cannot be loaded") for line in report())

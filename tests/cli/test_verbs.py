"""Verbs are imported when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from uwaga.cli.main import NAMES, Verbs, app


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_a_verb_that_explains_itself(name: str):
    assert Verbs()[name].name == name
    shown = CliRunner().invoke(app, [name, "--help"])
    assert shown.exit_code == 0
    assert f"uwaga {name}" in shown.output


def test_all_are_listed():
    shown = CliRunner().invoke(app, ["--help"]).output
    assert all(name in shown for name in NAMES)


def test_what_is_no_verb_is_refused_with_what_is_near():
    assert "invent" not in Verbs()
    done = CliRunner().invoke(app, ["trian"])
    assert done.exit_code == 2
    assert "'train'" in done.output


def test_a_verb_is_imported_without_the_others():
    code = (
        "import sys\nfrom uwaga.cli.main import main\n"
        "try: main(['translate', '--help'])\nexcept SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith('uwaga.cli.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1]
    assert "uwaga.cli.translate'" in loaded
    assert "uwaga.cli.train'" not in loaded
    assert "uwaga.cli.serve'" not in loaded

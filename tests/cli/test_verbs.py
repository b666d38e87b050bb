"""Verbs: lazy imports, help pages and errors of options."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

import pytest
from typer.testing import CliRunner

from uwaga.cli.main import VERBS, Commands, app


@pytest.mark.parametrize("name", VERBS)
def test_verbs_have_help(name: str):
    assert Commands()[name].name == name
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert f"uwaga {name}" in result.output


@pytest.mark.parametrize("name", VERBS)
def test_help_pages_are_short_and_complete(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    page = CliRunner().invoke(app, [name, "--help"]).output
    assert len(page.splitlines()) <= 60
    assert "<bool>" not in page
    everything = CliRunner().invoke(app, [name, "--help", "all"]).output
    options = [option for option in Commands()[name].params if option.param_type_name == "option"]
    counts = Counter(re.findall(r"^  (?:-\w, )?(--[\w-]+)", everything.partition("\nExamples:")[0], re.M))
    assert counts - Counter(["--help"]) == Counter(max(option.opts, key=len) for option in options)
    panels = {option.rich_help_panel.lower() for option in options if option.rich_help_panel}
    for panel in panels:
        panel_page = CliRunner().invoke(app, [name, "--help", panel]).output
        assert f"{panel.capitalize()}:" in panel_page and len(panel_page) < len(everything)
    assert name != "translate" or panels > {"search", "text", "sampling"}


def test_unknown_help_panel_error_lists_panels():
    result = CliRunner().invoke(app, ["translate", "--help", "serch"])
    assert result.exit_code == 2
    assert "search" in result.output


def test_help_shows_square_brackets():
    assert "[MASK]" in CliRunner().invoke(app, ["fill", "--help"]).output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["translate", "--json", "true"], "--json takes no value: leave out 'true'"),
        (["translate", "--sample", "False", "A text."], "leave out --sample False"),
        (["translate", "--beam", "x", "A text."], "'x' should be a valid integer"),
        (["translate", "--split", "always", "A text."], "'sentences'"),
        (["align", "--thread", "2"], "--threads"),
    ],
)
def test_option_errors_suggest_fixes(arguments: list[str], message: str):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_help_lists_all_verbs():
    output = CliRunner().invoke(app, ["--help"]).output
    assert all(name in output for name in VERBS)


def test_unknown_verb_error_suggests_similar_verbs():
    assert "invent" not in Commands()
    result = CliRunner().invoke(app, ["trian"])
    assert result.exit_code == 2
    assert "'train'" in result.output


def test_verbs_are_imported_lazily():
    code = (
        "import sys\nfrom uwaga.cli.main import main\n"
        "try: main(['translate', '--help'])\nexcept SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith('uwaga')])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = result.stdout.splitlines()[-1]
    assert "uwaga.cli.translate'" in loaded
    assert "uwaga.cli.train'" not in loaded
    assert "uwaga_server.cli.serve'" not in loaded

"""Verbs are imported when they are asked for."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter

import pytest
from typer.testing import CliRunner

from uwaga.cli.main import NAMES, Verbs, app


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_a_verb_that_explains_itself(name: str):
    assert Verbs()[name].name == name
    shown = CliRunner().invoke(app, [name, "--help"])
    assert shown.exit_code == 0
    assert f"uwaga {name}" in shown.output


@pytest.mark.parametrize("name", NAMES)
def test_a_help_page_is_short_and_has_each_option_in_one_panel(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    page = CliRunner().invoke(app, [name, "--help"]).output
    assert len(page.splitlines()) <= 60
    assert "<bool>" not in page
    everything = CliRunner().invoke(app, [name, "--help", "all"]).output
    options = [one for one in Verbs()[name].params if one.param_type_name == "option"]
    shown = Counter(re.findall(r"^  (?:-\w, )?(--[\w-]+)", everything.partition("\nExamples:")[0], re.M))
    assert shown - Counter(["--help"]) == Counter(max(one.opts, key=len) for one in options)
    panels = {one.rich_help_panel.lower() for one in options if one.rich_help_panel}
    for panel in panels:
        there = CliRunner().invoke(app, [name, "--help", panel]).output
        assert f"{panel.capitalize()}:" in there and len(there) < len(everything)
    assert name != "translate" or panels > {"search", "text", "sampling"}


def test_a_panel_that_does_not_exist_is_refused_with_those_that_do():
    done = CliRunner().invoke(app, ["translate", "--help", "serch"])
    assert done.exit_code == 2
    assert "search" in done.output


def test_brackets_are_shown_in_help():
    assert "[MASK]" in CliRunner().invoke(app, ["fill", "--help"]).output


@pytest.mark.parametrize(
    ("arguments", "way"),
    [
        (["translate", "--json", "true"], "--json takes no value: leave out 'true'"),
        (["translate", "--sample", "False", "A text."], "leave out --sample False"),
        (["translate", "--beam", "x", "A text."], "'x' should be a valid integer"),
        (["translate", "--split", "always", "A text."], "'sentences'"),
        (["align", "--thread", "2"], "--threads"),
    ],
)
def test_a_wrong_option_is_refused_with_the_way_out(arguments: list[str], way: str):
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert way in done.output


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

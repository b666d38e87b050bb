"""The numbers of mechanisms: listed in one place, linked where a page shows them, and not in a user's way."""

from __future__ import annotations

import inspect
import pydoc
import re
from pathlib import Path

import pytest
import typer.main
from typer.testing import CliRunner

import uwaga
from uwaga.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
LEGEND = ROOT / "docs/mechanisms/numbers.md"
PAGES = [page for page in sorted(ROOT.glob("docs/**/*.md")) if page != LEGEND]
NUMBER = re.compile(r"(?<![\w#])(?:M|E)(?:[1-9]|[123]\d|4[01])\b")
VERBS = sorted(typer.main.get_command(app).commands)


def test_I11_20_the_list_holds_every_number_with_its_tests():
    listed = dict(
        re.findall(r'<a id="\w+"></a>(\w+) \|.*?((?:`tests/\S+?`(?:, )?)+) \|$', LEGEND.read_text(), re.M)
    )
    mechanisms = {f"M{one}" for one in range(1, 44)}
    assert set(listed) == mechanisms | {f"E{one}" for one in range(1, 8)}
    for number, files in listed.items():
        text = "".join((ROOT / name).read_text() for name in re.findall(r"`([^`]+)`", files))
        names = re.findall(r"def (test_[ME]\w+)", text)
        spans = [span for name in names if (span := re.match(r"test_M(\d+)_to_M(\d+)", name))]
        within = any(int(one[1]) <= int(number[1:]) <= int(one[2]) for one in spans if number[0] == "M")
        assert within or any(number in name.split("_") for name in names), number


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_I11_20_a_page_shows_a_number_as_a_link_only(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    text = re.sub(r"\[[ME]\d+\]\([\w./]*numbers\.md#[me]\d+\)", "", text)
    assert NUMBER.findall(text) == []


def test_I11_20_the_readme_and_the_changelog_have_none():
    assert NUMBER.findall((ROOT / "README.md").read_text()) == []
    assert NUMBER.findall((ROOT / "CHANGELOG.md").read_text()) == []


@pytest.mark.parametrize("verb", VERBS)
def test_I11_20_the_command_lines_help_has_none(verb):
    assert NUMBER.findall(CliRunner().invoke(app, [verb, "--help"]).output) == []


@pytest.mark.parametrize("name", [one for one in uwaga.__all__ if not one.startswith("__")])
def test_I11_20_the_help_of_what_users_import_has_none(name):
    thing = getattr(uwaga, name)
    assert NUMBER.findall(pydoc.plain(pydoc.render_doc(thing))) == []
    assert NUMBER.findall(inspect.getsource(inspect.getmodule(thing))) == []

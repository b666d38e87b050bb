"""The numbers of mechanisms are listed on one page, linked from others, and shown nowhere else."""

import inspect
import pydoc
import re
from pathlib import Path

import pytest
import typer.main
from command_line import run_uwaga

import uwaga
from uwaga.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
LEGEND = ROOT / "docs/mechanisms/numbers.md"
PAGES = [page for page in sorted(ROOT.glob("docs/**/*.md")) if page != LEGEND]
NUMBER = re.compile(r"(?<![\w#])(?:M|E)(?:[1-9]|[123]\d|4[0-4])\b")
VERBS = sorted(typer.main.get_command(app).commands)


def test_mechanism_list_is_complete_and_names_existing_tests():
    files_by_number = dict(
        re.findall(r'<a id="\w+"></a>(\w+) \|.*?((?:`tests/\S+?`(?:, )?)+) \|$', LEGEND.read_text(), re.M)
    )
    mechanisms = {f"M{number}" for number in range(1, 45)}
    assert set(files_by_number) == mechanisms | {f"E{number}" for number in range(1, 8)}
    for number, files in files_by_number.items():
        text = "".join((ROOT / name).read_text() for name in re.findall(r"`([^`]+)`", files))
        names = re.findall(r"def (test_[ME]\w+)", text)
        spans = [span for name in names if (span := re.match(r"test_M(\d+)_to_M(\d+)", name))]
        within = any(int(span[1]) <= int(number[1:]) <= int(span[2]) for span in spans if number[0] == "M")
        assert within or any(number in name.split("_") for name in names), number


def test_pages_show_mechanism_numbers_only_as_links():
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
        text = re.sub(r"\[[ME]\d+\]\([\w./]*numbers\.md#[me]\d+\)", "", text)
        assert NUMBER.findall(text) == [], page


def test_readme_and_changelog_contain_no_mechanism_numbers():
    assert NUMBER.findall((ROOT / "README.md").read_text()) == []
    assert NUMBER.findall((ROOT / "CHANGELOG.md").read_text()) == []


@pytest.mark.parametrize("verb", VERBS)
def test_command_help_contains_no_mechanism_numbers(verb):
    assert NUMBER.findall(run_uwaga(verb, "--help").output) == []


@pytest.mark.parametrize("name", [name for name in uwaga.__all__ if not name.startswith("__")])
def test_docstrings_of_exported_names_contain_no_mechanism_numbers(name):
    exported = getattr(uwaga, name)
    assert NUMBER.findall(pydoc.plain(pydoc.render_doc(exported))) == []
    assert NUMBER.findall(inspect.getsource(inspect.getmodule(exported))) == []

"""Chapters: every part of the template; figures by their scripts, of the bundled model, with texts."""

import hashlib
import importlib
import re
from pathlib import Path

import pytest

from uwaga.checkpoints.formats.uwaga.names import BUNDLED

ROOT = Path(__file__).resolve().parents[2]
LEARN = ROOT / "docs" / "learn"
FIGURES = ROOT / "docs" / "figures" / "learn"
CHAPTERS = sorted(LEARN.glob("[0-9]*.md"))
PARTS = (
    '!!! abstract "Before and after"',
    "## Predict first",
    "??? question",
    "```math",
    "## By hand",
    "## In uwaga",
    "```source",
    "```python",
    "## Move it",
    "## Break it",
    "## Exercises",
    "## Recap",
    '??? info "The law\'s test"',
)
WITHOUT_FORMULA = ("```math", "## By hand", "## In uwaga", "```source", '??? info "The law\'s test"')


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_a_chapter_has_every_part(page):
    text = page.read_text(encoding="utf-8")
    missing = [part for part in PARTS if part not in text]
    if page.stem == "00-look-first":  # a tour without a formula
        missing = [part for part in missing if part not in WITHOUT_FORMULA]
    assert not missing
    prose = re.sub(r"```.*?```|<uwaga[^>]*>|^!\[.*?\)$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert 700 <= len(prose.split()) <= 1900
    assert len(re.findall(r"^ *!\[", text, re.MULTILINE)) >= 2
    assert re.search(r"<uwaga-(toy|lab|frames|train) data-", text)
    assert len(re.findall(r"^\d\. ", text.split("## Recap")[1], re.MULTILINE)) == 5
    assert "numbers.md#m" in text or "numbers.md#e" in text


@pytest.mark.parametrize("page", sorted(LEARN.glob("*.md")), ids=lambda page: page.stem)
def test_every_picture_has_a_text(page):
    for text in re.findall(r"!\[(.*?)\]\(", page.read_text(encoding="utf-8"), re.DOTALL):
        assert len(text.split()) >= 8, text


SCRIPTS = sorted(path for path in FIGURES.glob("c*.py"))
SLOW = {"c05_gradient", "c07_shift", "c12_widths"}
"""Figures of so many draws, models or beams that they take seconds."""


@pytest.fixture(autouse=True)
def figures(monkeypatch):
    monkeypatch.syspath_prepend(str(FIGURES))


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else [])
        for path in SCRIPTS
    ],
)
def test_a_figure_is_what_its_script_draws(script):
    """Numbers of the model may differ in their last digit on another processor: the words may not."""
    drawn = importlib.import_module(script.stem).draw().svg()
    kept = script.with_suffix(".svg").read_text(encoding="utf-8")
    if "<metadata>" not in kept:
        assert drawn == kept
        return
    model = hashlib.sha256((BUNDLED / "model.safetensors").read_bytes()).hexdigest()
    assert f"<metadata>model sha256:{model}</metadata>" in kept
    assert re.sub(r"\d[\d.]*", "#", drawn) == re.sub(r"\d[\d.]*", "#", kept)


def test_every_mechanism_and_worked_example_is_taught_in_a_chapter():
    numbers = (ROOT / "docs/mechanisms/numbers.md").read_text(encoding="utf-8")
    listed = set(re.findall(r'<a id="(\w+)">', numbers))
    taught = {one for page in CHAPTERS for one in re.findall(r"numbers\.md#(\w+)", page.read_text("utf-8"))}
    assert len(listed) >= 43
    assert listed - taught == set()


def test_every_figure_has_a_script_and_every_chapter_is_in_the_index():
    assert {path.stem for path in FIGURES.glob("*.svg")} == {path.stem for path in SCRIPTS}
    index = (LEARN / "index.md").read_text(encoding="utf-8")
    for page in CHAPTERS:
        assert f"({page.name})" in index

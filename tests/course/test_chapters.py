"""Chapters have all parts of the template, and figures that their scripts draw."""

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
CHAPTER_PARTS = (
    '!!! abstract "Before and after"', "## Predict first", "```predict", "??? question", "```math",
    "## By hand", "## In code", "```source", "```python", '??? note "The same in uwaga"', "## Move it",
    "## Break it", "## Exercises", "## Recap", '??? info "The test that keeps this true"',
)  # fmt: skip
WITHOUT_FORMULA = (
    "```math", "## By hand", "## In code", "```source", '??? note "The same in uwaga"',
    '??? info "The test that keeps this true"',
)  # fmt: skip


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_chapter_has_all_required_sections(page):
    text = page.read_text(encoding="utf-8")
    missing = [part for part in CHAPTER_PARTS if part not in text]
    if page.stem == "00-look-first":  # a tour without a formula
        missing = [part for part in missing if part not in WITHOUT_FORMULA]
    assert not missing
    prose = re.sub(r"```.*?```|<uwaga[^>]*>|^!\[.*?\)$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert 700 <= len(prose.split()) <= 2000
    assert len(re.findall(r"^ *!\[", text, re.MULTILINE)) >= 2
    assert re.search(r"<uwaga-(toy|lab|frames|train) data-", text)
    assert len(re.findall(r"^\d\. ", text.split("## Recap")[1], re.MULTILINE)) == 5
    assert "numbers.md#m" in text or "numbers.md#e" in text


@pytest.mark.parametrize("page", sorted(LEARN.glob("*.md")), ids=lambda page: page.stem)
def test_pictures_have_alternative_text(page):
    for text in re.findall(r"!\[(.*?)\]\(", page.read_text(encoding="utf-8"), re.DOTALL):
        assert len(text.split()) >= 8, text


SCRIPTS = sorted(path for path in FIGURES.glob("c*.py"))
SLOW = {"c05_gradient", "c08_shift", "c13_widths"}
"""Scripts of figures that take seconds to run."""


@pytest.fixture(autouse=True)
def figures(monkeypatch):
    monkeypatch.syspath_prepend(str(FIGURES.parent))
    monkeypatch.syspath_prepend(str(FIGURES))


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else [])
        for path in [*SCRIPTS, FIGURES.parent / "retrieval.py"]
    ],
)
def test_figure_equals_the_output_of_its_script(script):
    """The last digits of numbers may differ on other processors, but words may not."""
    svg = importlib.import_module(script.stem).draw().svg()
    committed = script.with_suffix(".svg").read_text(encoding="utf-8")
    if "<metadata>" not in committed:
        assert svg == committed
        return
    model = hashlib.sha256((BUNDLED / "model.safetensors").read_bytes()).hexdigest()
    assert f"<metadata>model sha256:{model}</metadata>" in committed
    assert re.sub(r"\d[\d.]*", "#", svg) == re.sub(r"\d[\d.]*", "#", committed)


@pytest.mark.skipif(not BUNDLED.exists(), reason="this source tree holds no bundled model")
def test_model_figures_are_drawn_from_the_bundled_model():
    """Pages quote numbers from these figures, so a new model requires new figures and new text."""
    model = hashlib.sha256((BUNDLED / "model.safetensors").read_bytes()).hexdigest()
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.svg")]
    drawn_from = [match for text in texts for match in re.findall(r"<metadata>(.*?)</metadata>", text)]
    assert len(drawn_from) >= 20 and {*drawn_from} == {f"model sha256:{model}"}


def test_course_covers_all_mechanisms():
    numbers = (ROOT / "docs/mechanisms/numbers.md").read_text(encoding="utf-8")
    anchors = set(re.findall(r'<a id="(\w+)">', numbers))
    taught = {
        anchor for page in CHAPTERS for anchor in re.findall(r"numbers\.md#(\w+)", page.read_text("utf-8"))
    }
    assert len(anchors) >= 43
    assert anchors - taught == set()


def test_figures_have_scripts_and_index_lists_chapters():
    assert {path.stem for path in FIGURES.glob("*.svg")} == {path.stem for path in SCRIPTS}
    index = (LEARN / "index.md").read_text(encoding="utf-8")
    for page in CHAPTERS:
        assert f"({page.name})" in index


def test_published_figures_keep_their_texts_and_opacities(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    hooks = importlib.import_module("hooks")
    for path in sorted(FIGURES.glob("*.svg")):
        svg = path.read_text(encoding="utf-8")
        published = hooks.smaller_figure(svg)
        assert len(published) < len(svg)
        for pattern, number in ((r'opacity="([^"]*)"', float), (r">([^<]+)</text>", str)):
            values = [[number(value) for value in re.findall(pattern, text)] for text in (svg, published)]
            assert values[0] == values[1], path.name

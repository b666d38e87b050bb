"""Four models side by side, the frames of their training, and the toy that is trained: in a browser."""

from __future__ import annotations

import base64
import json
from itertools import product

import numpy as np
import pytest
from test_laboratory_browser import AXE, ROOT, browser, opened, site, started

import uwaga

__all__ = ["browser", "site"]  # fixtures
MODELS = ROOT / "docs/learn/models"
LISTED = json.loads((MODELS / "models.json").read_text(encoding="utf-8"))
FRAMES = json.loads((MODELS / "frames.json").read_text(encoding="utf-8"))
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Training</title>
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,"><link rel="stylesheet" href="lab/lab.css">
<script type="module" src="lab/lab.js"></script><main><h1>Training</h1>
<uwaga-frames data-frames='{"model": "transformer", "sentence": 0}'>still</uwaga-frames>
<uwaga-train data-train='{"task": "TASK", "score": "scaled", "seed": 1}'>still</uwaga-train>
</main></html>"""
LOADED = "!document.querySelector('uwaga-lab .lab-bar[role=group]').closest('[hidden]')"
SHOWN = """async (changes) => {
  const lab = document.querySelector("uwaga-lab");
  await lab.change(changes);
  const cells = (row) => [...row.querySelectorAll("td")].map((cell) => Number(cell.title));
  const tables = [...lab.querySelectorAll(".lab-matrices figure")]
    .map((figure) => [...figure.querySelectorAll("tbody tr")].map(cells));
  const rows = [...lab.querySelectorAll(".lab-effect tbody tr")].map(({ cells: [name, text, own, other] }) =>
    [name.textContent, text.textContent, Number(own.title), Number(other.title)]);
  return { rows, tables };
}"""
TEXTS = ("I want to buy a car.", "She said that she had lost her keys and that it was too late.", "No!")


@pytest.fixture
def compared(browser, site):
    page = started(browser, site[1])
    page.get_by_role("tab", name="Compare").click()
    page.get_by_role("button", name="Load the models").click()
    page.wait_for_function(LOADED)
    yield page
    assert page.complaints == []
    page.close()


def matrix(translator, text, target, heads, entry):
    """The matrix (target, source) that the page shows, or None."""
    if entry["name"] == "cho":
        return None
    cross = translator.attend(text, target).attentions.cross
    if heads == "head" and "head" in entry:
        return cross[entry["head"]["layer"] - 1, entry["head"]["head"] - 1]
    return cross[-1].mean(axis=0)


def test_every_model_computes_what_python_computes(compared, site, monkeypatch):
    monkeypatch.setenv("UWAGA_ISA", "portable")
    own = uwaga.load(site[0] / "lab/model", device="cpu", threads=1)
    translators = [uwaga.load(MODELS / entry["name"], device="cpu", threads=1) for entry in LISTED]
    for text, target, heads in product(TEXTS, (None, "Ich möchte ein Auto kaufen."), ("mean", "head")):
        compared.evaluate("delete document.querySelector('uwaga-lab').state.target")
        changes = {"text": text, "beam": 2, "heads": heads}
        found = compared.evaluate(SHOWN, changes | ({} if target is None else {"target": target}))
        common = target or own.translate(text, beam=2, split="never").text
        assert len(found["rows"]) == len(found["tables"]) == len(LISTED)
        parts = zip(LISTED, translators, found["rows"], found["tables"], strict=True)
        for entry, translator, row, table in parts:
            made = translator.translate(text, beam=2, split="never")
            [forced] = translator.score([(text, common)])
            assert row == [entry["title"], made.text, made.log_prob, forced.log_prob]
            wanted = matrix(translator, text, target or made.text, heads, entry)
            if wanted is None:
                assert table == []
            else:
                np.testing.assert_array_equal(np.array(table, np.float32), wanted)


@pytest.mark.slow
def test_a_sentence_grows_and_shrinks_and_the_python_runs(compared, monkeypatch):
    monkeypatch.setenv("UWAGA_ISA", "portable")
    monkeypatch.chdir(ROOT)
    compared.get_by_role("button", name="Longer sentence").click()
    assert compared.locator("textarea").first.input_value() == "A dog runs in the city."
    compared.get_by_role("button", name="Shorter sentence").click()
    assert compared.locator("textarea").first.input_value() == "A dog runs."
    compared.locator("summary", has_text="Keep").click()
    names = [entry["name"] for entry in LISTED]
    found = compared.evaluate(SHOWN, {"models": names, "heads": "head", "beam": 1})
    compared.get_by_text("Show me the Python").click()
    printed: list[object] = []
    exec(compared.locator(".lab-keep pre").inner_text(), {"print": lambda *values: printed.extend(values)})
    shown = [value for row in found["rows"] for value in row[1:]]
    assert [value for value in printed if isinstance(value, float)] == [
        one for one in shown if isinstance(one, float)
    ]
    arrays = [value for value in printed if isinstance(value, np.ndarray)]
    for table, array in zip([one for one in found["tables"] if one], arrays, strict=True):
        np.testing.assert_array_equal(np.array(table, np.float32), array)
    address = compared.evaluate("location.href")
    assert '"view":"compare"' in compared.evaluate("decodeURIComponent(location.hash)")
    other = opened(compared.context.browser, address)
    other.wait_for_selector("uwaga-lab button:has-text('Load the models')")
    assert other.complaints == []
    other.close()


@pytest.fixture
def training(site):
    """The addresses of pages with the frames and the toy, by its task."""
    for task in ("reverse", "copy", "sort"):
        (site[0] / f"{task}.html").write_text(PAGE.replace("TASK", task), encoding="utf-8")
    return site[1].rpartition("/")[0]


def frame(name, view, update, sentence):
    """The recorded weights (target, source), from 0 to 1."""
    run = FRAMES["runs"][name]
    values = np.frombuffer(base64.b64decode(run["views"][view]["weights"]), np.uint8)
    shapes = [(len(one["target"]), len(one["source"])) for one in FRAMES["sentences"]]
    sizes = [rows * columns for rows, columns in shapes]
    row = values.reshape(len(run["updates"]), -1)[run["updates"].index(update)]
    first = sum(sizes[:sentence])
    return row[first : first + sizes[sentence]].reshape(shapes[sentence]) / 255


def test_frames_are_moved_by_keyboard_and_show_what_was_recorded(browser, training):
    page = opened(browser, f"{training}/copy.html")
    frames = page.locator("uwaga-frames")
    slider = frames.get_by_role("slider")
    slider.press("Home")
    for _ in range(9):
        slider.press("ArrowRight")
    run = FRAMES["runs"]["transformer"]
    update = run["updates"][9]
    assert slider.get_attribute("aria-valuetext") == f"update {update}"
    status = frames.locator("p[role=status]").inner_text()
    assert f"Update {update}: loss {run['loss'][9]:g}" in status
    assert f"{round(100 * run['views']['mean']['linked'][9])} % of the pieces" in status
    frames.locator("summary").first.click()
    cells = (
        frames.locator("details")
        .first.locator("td[title]")
        .evaluate_all("all => all.map((one) => Number(one.title))")
    )
    np.testing.assert_array_equal(cells, frame("transformer", "mean", update, 0).ravel())
    frames.get_by_label("heads").select_option("head")
    frames.get_by_label("sentence").select_option("2")
    cells = (
        frames.locator("details")
        .first.locator("td[title]")
        .evaluate_all("all => all.map((one) => Number(one.title))")
    )
    np.testing.assert_array_equal(cells, frame("transformer", "head", update, 2).ravel())
    slider.press("Home")
    frames.get_by_role("button", name="Play").press("Enter")
    page.wait_for_function("Number(document.querySelector('uwaga-frames input').value) >= 3")
    frames.get_by_role("button", name="Pause").press("Enter")
    stopped = slider.input_value()
    page.wait_for_timeout(800)
    assert slider.input_value() == stopped
    for name in FRAMES["runs"]:
        frames.get_by_label("model").select_option(name)
        assert frames.locator("svg").count() == (3 if FRAMES["runs"][name]["views"] else 1)
    assert page.complaints == []
    page.close()


def test_frames_play_one_by_one_where_motion_is_reduced(browser, training):
    page = opened(browser, f"{training}/copy.html", reduced_motion="reduce")
    frames = page.locator("uwaga-frames")
    frames.get_by_role("button", name="Next frame").click()
    page.wait_for_timeout(800)
    assert frames.get_by_role("slider").input_value() == "1"
    page.close()


@pytest.mark.slow
def test_the_toy_learns_in_the_page(browser, training):
    """One of the tasks: page/tests/training.test.ts has all."""
    page = opened(browser, f"{training}/sort.html")
    toy = page.locator("uwaga-train")
    toy.get_by_role("button", name="Train").press("Enter")
    page.wait_for_function("document.querySelector('uwaga-train').dataset.update === '1500'", timeout=60_000)
    assert float(toy.get_attribute("data-right")) >= 0.95
    seconds = float(toy.get_by_role("status").inner_text().split(", ")[1].split(" s:")[0])
    assert seconds < 60
    assert page.complaints == []
    page.close()


@pytest.mark.slow
def test_the_toy_stops_and_does_not_learn_an_order_without_positions(browser, training):
    page = opened(browser, f"{training}/reverse.html")
    toy = page.locator("uwaga-train")
    toy.get_by_label("positions").uncheck()
    toy.get_by_role("button", name="Train").click()
    page.wait_for_function("Number(document.querySelector('uwaga-train').dataset.update) >= 200")
    toy.get_by_role("button", name="Stop").click()
    before = toy.get_attribute("data-update")
    page.wait_for_timeout(500)
    assert toy.get_attribute("data-update") == before
    assert float(toy.get_attribute("data-right")) < 0.05
    toy.get_by_role("button", name="Start over").click()
    assert toy.get_attribute("data-update") == "0"
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_nothing_is_wider_than_a_telephone(browser, site, training, scheme):
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm --prefix page ci")
    settings = {"color_scheme": scheme, "viewport": {"width": 320, "height": 700}}
    lab = started(browser, site[1], **settings)
    lab.get_by_role("tab", name="Compare").click()
    lab.get_by_role("button", name="Load the models").click()
    lab.wait_for_function(LOADED)
    for page in (lab, opened(browser, f"{training}/copy.html", **settings)):
        page.wait_for_selector("svg")
        for summary in page.locator("summary").all():
            summary.click()
        page.add_script_tag(content=AXE.read_text(encoding="utf-8"))
        found = page.evaluate("axe.run(document)")["violations"]
        assert [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found] == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        page.close()

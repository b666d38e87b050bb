"""The page that compares four models, with frames of their training and a toy model, in a browser."""

import base64
import json
from itertools import product

import numpy as np
import pytest
from browser import accessibility_violations
from test_laboratory_browser import ROOT, browser, open_page, site, start_laboratory

import uwaga

__all__ = ["browser", "site"]  # fixtures
MODELS = ROOT / "docs/learn/models"
MODEL_ENTRIES = json.loads((MODELS / "models.json").read_text(encoding="utf-8"))
FRAMES = json.loads((MODELS / "frames.json").read_text(encoding="utf-8"))
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Training</title>
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,"><link rel="stylesheet" href="lab/lab.css">
<script type="module" src="lab/lab.js"></script><main><h1>Training</h1>
<uwaga-frames data-frames='{"model": "transformer", "sentence": 0}'>still</uwaga-frames>
<uwaga-train data-train='{"task": "TASK", "score": "scaled", "seed": 1}'>still</uwaga-train>
</main></html>"""
HAS_LOADED = "!document.querySelector('uwaga-lab .lab-bar[role=group]').closest('[hidden]')"
SHOWN_NUMBERS = """async (changes) => {
  const lab = document.querySelector("uwaga-lab");
  await lab.change(changes);
  const cells = (row) => [...row.querySelectorAll("td")].map((cell) => Number(cell.title));
  const tables = [...lab.querySelectorAll(".lab-models figure")]
    .map((figure) => [...figure.querySelectorAll("tbody tr")].map(cells));
  const rows = [...lab.querySelectorAll(".lab-effect tbody tr")].map(({ cells: [name, text, own, other] }) =>
    [name.textContent, text.textContent, Number(own.title), Number(other.title)]);
  return { rows, tables };
}"""
TEXTS = ("I want to buy a car.", "She said that she had lost her keys and that it was too late.", "No!")


@pytest.fixture
def comparison_page(browser, site):
    page = start_laboratory(browser, site[1])
    page.get_by_role("tab", name="Compare").click()
    page.get_by_role("button", name="Load the models").click()
    page.wait_for_function(HAS_LOADED)
    yield page
    assert page.errors == []
    page.close()


def matrix(translator, text, target, heads, entry):
    """Return the matrix (target, source) that the page shows, or None."""
    if entry["name"] == "cho":
        return None
    cross = translator.attend(text, target).attentions.cross
    if heads == "head" and "head" in entry:
        return cross[entry["head"]["layer"] - 1, entry["head"]["head"] - 1]
    return cross[-1].mean(axis=0)


def test_browser_models_compute_the_same_results_as_python(comparison_page, site, monkeypatch):
    monkeypatch.setenv("UWAGA_ISA", "portable")
    bundled = uwaga.load(site[0] / "lab/model", device="cpu", threads=1)
    translators = [uwaga.load(MODELS / entry["name"], device="cpu", threads=1) for entry in MODEL_ENTRIES]
    cases = list(product(TEXTS, (None, "Ich möchte ein Auto kaufen."), ("mean", "head")))
    for text, target, heads in cases[::3]:  # each value of each parameter
        comparison_page.evaluate("delete document.querySelector('uwaga-lab').state.target")
        changes = {"text": text, "beam": 2, "heads": heads}
        page_numbers = comparison_page.evaluate(
            SHOWN_NUMBERS, changes | ({} if target is None else {"target": target})
        )
        common = target or bundled.translate(text, beam=2, split="never").text
        assert len(page_numbers["rows"]) == len(page_numbers["tables"]) == len(MODEL_ENTRIES)
        parts = zip(MODEL_ENTRIES, translators, page_numbers["rows"], page_numbers["tables"], strict=True)
        for entry, translator, row, table in parts:
            translation = translator.translate(text, beam=2, split="never")
            [forced] = translator.score([(text, common)])
            assert row == [entry["title"], translation.text, translation.log_prob, forced.log_prob]
            expected = matrix(translator, text, target or translation.text, heads, entry)
            if expected is None:
                assert table == []
            else:
                np.testing.assert_array_equal(np.array(table, np.float32), expected)


@pytest.mark.slow
def test_length_buttons_change_the_text_and_shown_python_code_matches_the_page(comparison_page, monkeypatch):
    monkeypatch.setenv("UWAGA_ISA", "portable")
    monkeypatch.chdir(ROOT)
    comparison_page.get_by_role("button", name="Longer sentence").click()
    assert comparison_page.locator("textarea").first.input_value() == "A dog runs in the city."
    comparison_page.get_by_role("button", name="Shorter sentence").click()
    assert comparison_page.locator("textarea").first.input_value() == "A dog runs."
    comparison_page.locator("summary", has_text="Keep").click()
    names = [entry["name"] for entry in MODEL_ENTRIES]
    page_numbers = comparison_page.evaluate(SHOWN_NUMBERS, {"models": names, "heads": "head", "beam": 1})
    comparison_page.get_by_text("Show me the Python").click()
    printed: list[object] = []
    exec(
        comparison_page.locator(".lab-keep pre").inner_text(),
        {"print": lambda *values: printed.extend(values)},
    )
    numbers = [value for row in page_numbers["rows"] for value in row[1:]]
    assert [value for value in printed if isinstance(value, float)] == [
        value for value in numbers if isinstance(value, float)
    ]
    arrays = [value for value in printed if isinstance(value, np.ndarray)]
    for table, array in zip([table for table in page_numbers["tables"] if table], arrays, strict=True):
        np.testing.assert_array_equal(np.array(table, np.float32), array)
    address = comparison_page.evaluate("location.href")
    assert '"view":"compare"' in comparison_page.evaluate("decodeURIComponent(location.hash)")
    other_page = open_page(comparison_page.context.browser, address)
    other_page.wait_for_selector("uwaga-lab button:has-text('Load the models')")
    assert other_page.errors == []
    other_page.close()


@pytest.fixture
def training(site):
    """Write pages with the training frames and the toy model of each task; yield their base URL."""
    for task in ("reverse", "copy", "sort"):
        (site[0] / f"{task}.html").write_text(PAGE.replace("TASK", task), encoding="utf-8")
    return site[1].rpartition("/")[0]


def frame(name, view, update, sentence):
    """Return the recorded attention weights (target, source), between 0 and 1."""
    run = FRAMES["runs"][name]
    values = np.frombuffer(base64.b64decode(run["views"][view]["weights"]), np.uint8)
    shapes = [(len(sentence["target"]), len(sentence["source"])) for sentence in FRAMES["sentences"]]
    sizes = [rows * columns for rows, columns in shapes]
    row = values.reshape(len(run["updates"]), -1)[run["updates"].index(update)]
    first = sum(sizes[:sentence])
    return row[first : first + sizes[sentence]].reshape(shapes[sentence]) / 255


def test_training_frames_selected_by_keyboard_show_recorded_weights(browser, training):
    page = open_page(browser, f"{training}/copy.html")
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
    assert f"{round(100 * run['views']['mean']['linked'][9])}% of the pieces" in status
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
    assert page.errors == []
    page.close()


@pytest.mark.slow
def test_next_button_advances_one_training_frame_with_reduced_motion(browser, training):
    page = open_page(browser, f"{training}/copy.html", reduced_motion="reduce")
    frames = page.locator("uwaga-frames")
    frames.get_by_role("button", name="Next frame").click()
    page.wait_for_timeout(800)
    assert frames.get_by_role("slider").input_value() == "1"
    page.close()


@pytest.mark.slow
def test_toy_task_is_learned_in_the_browser(browser, training):
    """One task is trained here; page/tests/training.test.ts trains all of them."""
    page = open_page(browser, f"{training}/sort.html")
    toy = page.locator("uwaga-train")
    toy.get_by_role("button", name="Train").press("Enter")
    page.wait_for_function("document.querySelector('uwaga-train').dataset.update === '1500'", timeout=60_000)
    assert float(toy.get_attribute("data-right")) >= 0.95
    seconds = float(toy.get_by_role("status").inner_text().split(", ")[1].split(" s:")[0])
    assert seconds < 60
    assert page.errors == []
    page.close()


@pytest.mark.release
def test_toy_model_without_positions_does_not_learn_order(browser, training):
    page = open_page(browser, f"{training}/reverse.html")
    toy = page.locator("uwaga-train")
    toy.get_by_label("positions").uncheck()
    toy.get_by_role("button", name="Train").click()
    page.wait_for_function("Number(document.querySelector('uwaga-train').dataset.update) >= 200")
    toy.get_by_role("button", name="Stop").click()
    update = toy.get_attribute("data-update")
    page.wait_for_timeout(500)
    assert toy.get_attribute("data-update") == update
    assert float(toy.get_attribute("data-right")) < 0.05
    toy.get_by_role("button", name="Start over").click()
    assert toy.get_attribute("data-update") == "0"
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_comparison_is_accessible_and_fits_on_a_phone_screen(browser, site, training, scheme):
    settings = {"color_scheme": scheme, "viewport": {"width": 320, "height": 700}}
    lab = start_laboratory(browser, site[1], **settings)
    lab.get_by_role("tab", name="Compare").click()
    lab.get_by_role("button", name="Load the models").click()
    lab.wait_for_function(HAS_LOADED)
    for page in (lab, open_page(browser, f"{training}/copy.html", **settings)):
        page.wait_for_selector("svg")
        for summary in page.locator("summary").all():
            summary.click()
        assert accessibility_violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        page.close()

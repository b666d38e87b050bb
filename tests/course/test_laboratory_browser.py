"""The laboratory, calculators and exercises in a browser show exactly the numbers that Python computes."""

import importlib
import random
import re
import shutil
import subprocess
from functools import cache
from itertools import cycle, product
from pathlib import Path

import numpy as np
import pytest
from browser import accessibility_violations, chromium, serve_folder
from c_library import random_edits

import uwaga
from uwaga.engine.interventions import Heads, Positions
from uwaga.inspection import look_inside
from uwaga.inspection.interventions import intervene
from uwaga_course import find_exercise

ROOT = Path(__file__).resolve().parents[2]
TEXTS = [
    line
    for line in (ROOT / "src/uwaga/conversion/sentences.txt").read_text(encoding="utf-8").splitlines()
    if line.isascii()
]
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>The laboratory</title>
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,"><link rel="stylesheet" href="lab/lab.css">
<script type="module" src="lab/lab.js"></script><main><h1>The laboratory</h1>
<uwaga-lab data-address data-lab='{"text": "A dog runs."}'>still</uwaga-lab>
<uwaga-toy data-toy='{"score": "additive", "queries": [[1, 0]], "keys": [[1, 0], [0, 1], [1, 1]],
 "w": [[1, 0], [0, 1]], "u": [[1, 0], [0, 1]], "v": [1, 1]}'>still</uwaga-toy>
<h2>Exercises</h2>EXERCISES</main></html>"""

LANGUAGES = ("es", "pl", "zh")
WIDE_VIEWPORT = {"width": 1280, "height": 900}


def messages(language):
    """Return the messages of the laboratory by key."""
    text = (ROOT / f"page/src/lab/messages/{language}.ts").read_text(encoding="utf-8")
    return dict(re.findall(r'^  (\w+): "(.*)",$', text, re.MULTILINE))


def write_laboratory(folder):
    """Write the files of the laboratory to a folder; return the documentation's module of hooks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        build = importlib.import_module("hooks")
    build.on_post_build({"site_dir": str(folder)})
    shutil.copytree(ROOT / "docs/lab", folder / "lab", dirs_exist_ok=True)
    return build


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Serve a page with the laboratory in each language."""
    folder = tmp_path_factory.mktemp("site")
    build = write_laboratory(folder)
    exercises = "".join(build._exercise(number) for number in ("0.1", "3.1", "3.3", "3.4"))
    page = PAGE.replace("EXERCISES", exercises)
    (folder / "index.html").write_text(page, encoding="utf-8")
    for language in LANGUAGES:
        translated = page.replace('lang="en"', f'lang="{language}"')
        (folder / f"{language}.html").write_text(translated, encoding="utf-8")
    with serve_folder(folder) as url:
        yield folder, f"{url}/index.html"


@pytest.fixture(scope="module")
def browser():
    with chromium() as chrome:
        yield chrome


def open_page(browser, url, **settings):
    page = browser.new_page(**settings)
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on("console", lambda message: page.errors.append(message.text) if message.type == "error" else None)
    allowed = (url.rpartition("/")[0], "data:", "blob:")
    page.on(
        "request",
        lambda request: None if request.url.startswith(allowed) else page.errors.append(request.url),
    )
    page.goto(url)
    return page


def start_laboratory(browser, url, **settings):
    page = open_page(browser, url, **{"reduced_motion": "reduce"} | settings)
    page.click(".lab-start")
    page.wait_for_function("document.querySelector('uwaga-lab').dataset.milliseconds")
    return page


SHOWN_NUMBERS = """async ([changes, view]) => {
  const lab = document.querySelector("uwaga-lab");
  lab.open(view);
  await lab.change(changes);
  const rows = [...lab.querySelectorAll(".lab-numbers tbody tr")];
  const cells = rows.map((row) => [...row.querySelectorAll("td")].map((cell) => Number(cell.title)));
  return { cells, text: lab.last.text, status: lab.querySelector(".lab-status").textContent };
}"""
CELLS = """[...document.querySelectorAll("uwaga-lab .lab-numbers td")]
  .map((cell) => Number(cell.title)).filter((one, at, all) => all[at] === one && !Number.isNaN(one))"""
ARRAYS = ("cross.2.weights", "encoder.1.scores", "decoder.2.value", "cross.1.query", "encoder.4.feed_forward")


def check_numbers(page, translator, text, target, edits, interventions, rng):
    """Check that a table of the laboratory shows the numbers that Python computes."""
    edited = intervene(translator, *interventions) if interventions else translator
    array = rng.choice(ARRAYS)
    head = rng.randrange(4)
    changes = {"text": text, "edits": edits, "array": array, "head": head, "beam": 1}
    page_numbers = page.evaluate(
        SHOWN_NUMBERS, [changes | ({} if target is None else {"target": target}), "numbers"]
    )
    translation = target or edited.translate(text, beam=1, split="never").text
    assert page_numbers["text"] == translation
    expected = look_inside(edited, text, translation, names=[array]).arrays[array]
    expected = expected[head] if expected.ndim == 3 else expected
    np.testing.assert_array_equal(
        np.array(page_numbers["cells"], np.float32), np.nan_to_num(expected, neginf=-np.inf)
    )


@pytest.fixture
def translator(monkeypatch, site):
    monkeypatch.setenv("UWAGA_ISA", "portable")
    return uwaga.load(site[0] / "lab/model", device="cpu", threads=1)


@pytest.mark.parametrize("count", [4, pytest.param(200, marks=pytest.mark.release)])
def test_laboratory_numbers_match_python(browser, site, translator, count):
    page, rng = start_laboratory(browser, site[1]), random.Random(3)
    settings = translator.decoder.settings
    for seed in range(count):
        edits, interventions = random_edits(settings, seed) if seed % 3 else ([], [])
        text = TEXTS[seed % len(TEXTS)][: rng.randint(8, 60)].strip()
        target = rng.choice(["Ein Hund läuft.", "Das ist gut."])
        check_numbers(page, translator, text, target, edits, interventions, rng)
    assert page.errors == []
    page.close()


@pytest.mark.slow
def test_views_show_steps_hypotheses_and_samples(browser, site, translator):
    page = start_laboratory(browser, site[1])
    expected = translator.translate("A dog runs.", beam=3, nbest=3)
    page.get_by_label("Beam", exact=True).select_option("3")
    page.get_by_role("tab", name="Step by step").click()
    page.wait_for_selector(".lab-steps li")
    assert page.locator(".lab-steps li").count() == len(expected.tokens) + 1
    assert page.locator(".lab-candidate.chosen").count() == len(expected.tokens) + 1
    page.get_by_role("tab", name="Choose words").click()
    page.wait_for_selector(".lab-best li")
    texts = [item.split(" score")[0] for item in page.locator(".lab-best li").all_inner_texts()]
    assert texts == [expected.text, *(alternative.text for alternative in expected.alternatives)]
    assert page.locator("svg .lab-tree-best").count() >= len(expected.tokens) + 1
    page.get_by_role("button", name="Draw a translation").click()
    page.wait_for_function("/seed 1: ./.test(document.querySelector('uwaga-lab').textContent)")
    page.get_by_role("tab", name="Change").click()
    page.get_by_role("button", name="silence", exact=True).click()
    page.wait_for_selector(".lab-effect")
    assert "cross-attention, all layers, all heads: silence" in page.locator(".lab-edits").inner_text()
    assert page.get_by_role("button", name="silence the other heads").is_disabled()
    assert page.locator(".lab-outcome mark").count() > 0
    page.get_by_role("button", name="silence", exact=True).click()
    page.wait_for_function("document.querySelector('uwaga-lab').state.edits.length === 0")
    page.get_by_role("tab", name="Attention").click()
    page.wait_for_selector("uwaga-lab .uwaga-attention")
    assert page.errors == []
    page.close()


OPEN_BOX = """async (index) => {
  const lab = document.querySelector("uwaga-lab");
  const button = lab.querySelectorAll(".lab-box")[index];
  if (button.ariaExpanded !== "true") button.click();
  await new Promise((resolve) => setTimeout(resolve, 30));
  await lab.running;
  const cells = (row) => [...row.querySelectorAll("td")].map((cell) => Number(cell.title));
  const tables = {};
  const rows = () => [...lab.querySelectorAll(".lab-numbers tbody tr")];
  const read = () => (tables[lab.state.array] = rows().map(cells));
  read();
  const names = [...lab.querySelectorAll(".lab-path button")].map((button) => button.dataset.key);
  for (const name of names) {
    // The stream before belongs to another box.
    if (!lab.querySelector(`.lab-path [data-key="${name}"]`)) continue;
    lab.querySelector(`[data-key="${name}"]`).click();
    await lab.running;
    read();
  }
  return { label: lab.querySelector(".lab-panel").ariaLabel, tables };
}"""


def check_box(page, index, arrays):
    """Check that a box of the drawing shows its arrays when opened; return their names."""
    box = page.evaluate(OPEN_BOX, index)
    assert box["label"]
    for name, rows in box["tables"].items():
        expected = arrays[name]
        if name == "logits":
            best = list(dict.fromkeys(expected.argmax(1).tolist()))
            expected = expected[:, best]
        expected = expected[0] if expected.ndim == 3 else expected
        np.testing.assert_array_equal(
            np.array(rows, np.float32), np.nan_to_num(expected, neginf=-np.inf), err_msg=name
        )
    return set(box["tables"])


@pytest.mark.slow
def test_each_box_of_the_model_drawing_shows_its_arrays(browser, site, translator):
    page = start_laboratory(browser, site[1], viewport=WIDE_VIEWPORT)
    page.add_style_tag(content=".lab-panel { display: none }")  # laying out the tables takes most of the time
    arrays = look_inside(translator, "A dog runs.", translator.translate("A dog runs.", beam=1).text).arrays
    boxes = page.locator(".lab-box")
    opened = set().union(*(check_box(page, index, arrays) for index in range(boxes.count())))
    assert opened == set(arrays)
    names = boxes.evaluate_all("(boxes) => boxes.map((box) => box.ariaLabel)")
    assert len(set(names)) == len([name for name in names if ": add" not in name]) + 4 + 2
    for name in ("Encoder, block 4: self-attention", "Decoder, block 2: cross-attention", "Decoder: softmax"):
        assert name in names
    assert page.errors == []
    page.close()


def test_selected_step_highlights_its_path_in_the_drawing(browser, site, translator):
    page = start_laboratory(browser, site[1], viewport=WIDE_VIEWPORT)
    translation = translator.translate("A dog runs.", beam=1)
    count = len(translation.tokens) + 1
    states = """() => ({
      description: document.querySelector(".lab-step").textContent,
      rows: [...document.querySelectorAll(".lab-row")].map((row) => row.dataset.state),
      tokens: [...document.querySelectorAll(".decoder .writes")].map((token) => token.dataset.state),
      marked: document.querySelectorAll(".lab-row.decoder .lab-cells rect.now").length,
    })"""
    forward, back = (page.get_by_role("button", name=name) for name in ("One step forward", "One step back"))
    assert page.evaluate(states)["rows"] == ["", ""]
    assert back.is_disabled()
    for step in range(1, count + 1):
        forward.click()
        state = page.evaluate(states)
        assert state["description"].startswith(f"Step {step} of {count}: reads ")
        assert state["rows"] == ["computes" if step == 1 else "cached", "computes"]
        assert state["tokens"] == ["cached"] * (step - 1) + ["now"] + ["later"] * (count - step)
        assert state["marked"] == 4
    assert forward.is_disabled()
    assert f'"step":{count}' in page.evaluate("JSON.stringify(document.querySelector('uwaga-lab').state)")
    page.locator(".lab-row.decoder .lab-token").nth(1).click()
    assert page.evaluate(states)["description"].startswith(f"Step 2 of {count}: ")
    page.get_by_role("tab", name="Step by step").click()
    page.wait_for_selector(".lab-steps li:nth-child(2).now .lab-numbers")
    page.get_by_role("button", name="Play").click()
    page.wait_for_selector(".lab-steps li:nth-child(3).now .lab-numbers")
    page.get_by_role("button", name="Pause").click()
    assert page.errors == []
    page.close()


def test_edited_box_of_the_drawing_is_marked(browser, site):
    page = start_laboratory(browser, site[1], viewport=WIDE_VIEWPORT)
    page.get_by_role("button", name="Encoder, block 2: self-attention").click()
    page.get_by_role("button", name="silence").click()
    page.wait_for_selector(".lab-box.edited")
    marked = page.locator(".lab-box.edited").evaluate_all("(boxes) => boxes.map((box) => box.ariaLabel)")
    assert marked == ["Encoder, block 2: self-attention (changed)"]
    assert set(
        page.locator("uwaga-lab .lab-numbers td[title]").evaluate_all("(all) => all.map((one) => one.title)")
    ) == {"0"}
    assert "without the changes" in page.locator(".lab-before").inner_text()
    page.get_by_role("button", name="undo").click()
    page.wait_for_function("!document.querySelector('.lab-box.edited')")
    edits = [{"kind": "cross", "head": 1, "scale": 1}, {"side": "target", "places": [1, 0]}]
    page.evaluate("(edits) => document.querySelector('uwaga-lab').change({ edits })", edits)
    marked = page.locator(".lab-box.edited").evaluate_all("(boxes) => boxes.map((box) => box.ariaLabel)")
    assert marked == [
        f"{name} (changed)"
        for name in (
            "Decoder: positions",
            "Decoder, block 1: cross-attention",
            "Decoder, block 2: cross-attention",
        )
    ]
    page.close()


COUNT_CUT = """() => [...document.querySelectorAll(".lab-row, .lab-box, .lab-panel")]
  .map((one) => one.getBoundingClientRect())
  .filter((box) => box.left < 0 || box.right > innerWidth).length"""


def test_opened_box_of_the_drawing_fits_on_the_screen(browser, site):
    page = start_laboratory(browser, site[1])
    names = ("Encoder, block 1: self-attention", "Decoder, block 2: feed-forward", "Encoder: norm")
    for width, name in product((390, 690, 1280), names):
        page.set_viewport_size({"width": width, "height": 900})
        page.get_by_role("button", name=name).click()
        page.wait_for_function("(name) => document.querySelector('.lab-panel').ariaLabel === name", arg=name)
        page.wait_for_timeout(100)
        box = page.get_by_role("button", name=name).bounding_box()
        panel = page.locator(".lab-panel").bounding_box()
        assert box["y"] + box["height"] > 60 and box["y"] < 840, name
        assert panel["y"] < 750 and panel["y"] + panel["height"] > 60, name
        assert box["x"] >= 0 and box["x"] + box["width"] <= width
        assert page.evaluate(COUNT_CUT) == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


def test_starting_one_laboratory_starts_all_on_the_page(browser, site):
    (site[0] / "three.html").write_text(
        PAGE.replace("EXERCISES", "").replace(
            "<h2>",
            '<uwaga-lab data-lab=\'{"view": "steps"}\'>Without JavaScript, read on.</uwaga-lab>' * 2 + "<h2>",
        ),
        encoding="utf-8",
    )
    page = open_page(browser, site[1].replace("index", "three"))
    models = []
    page.on("request", lambda request: models.append(request.url) if "safetensors" in request.url else None)
    assert page.locator(".lab-start").count() == 3
    assert "JavaScript" not in page.locator("main").inner_text()
    page.locator(".lab-start").nth(1).click()
    page.wait_for_function(
        "[...document.querySelectorAll('uwaga-lab')].every((lab) => lab.dataset.milliseconds)"
    )
    assert page.locator(".lab-start").count() == 0
    assert len(models) <= 1
    assert page.evaluate(
        "document.activeElement.closest('uwaga-lab') === document.querySelectorAll('uwaga-lab')[1]"
    )
    page.close()


@pytest.mark.slow
def test_url_restores_the_state_and_the_python_program_reproduces_the_numbers(browser, site, translator):
    page = start_laboratory(browser, site[1])
    heads = {"kind": "cross", "layer": 2, "head": 1, "weights": "uniform"}
    changes = {"text": 'Say "no"!', "array": "cross.2.weights", "head": 1}
    changes["edits"] = [heads, {"side": "source", "places": [1, 0]}]
    page.evaluate(SHOWN_NUMBERS, [changes, "numbers"])
    address = page.evaluate("location.href")
    other_page = open_page(browser, address)
    other_page.wait_for_function("document.querySelector('uwaga-lab').dataset.milliseconds")
    state = "JSON.stringify(document.querySelector('uwaga-lab').state)"
    assert other_page.evaluate(state) == page.evaluate(state)
    page.locator("summary", has_text="Keep").click()
    page.get_by_text("Show me the Python").click()
    program = page.locator(".lab-keep pre").inner_text()
    printed: list[object] = []
    exec(program, {"print": lambda *values: printed.extend(values)})
    cells = page.evaluate(CELLS)
    np.testing.assert_array_equal(np.array(cells[-printed[-1].size :], np.float32), printed[-1].ravel())
    for damaged in ("#lab=%7B", "#lab=null", "#lab=%7B%22edits%22%3A5%7D", "#lab=" + "%5B" * 3000):
        open_page(browser, site[1] + damaged).close()
    page.close()


IS_SETTLED = "!document.querySelector('uwaga-lab').running"
SHOWN_EDITS = """() => {
  const lab = document.querySelector("uwaga-lab");
  const numbers = (selector) => [...lab.querySelectorAll(selector)].map((cell) => Number(cell.title));
  const rows = (grid) => [...grid.querySelectorAll("tbody tr")]
    .map((row) => [...row.querySelectorAll("td")].map((cell) => Number(cell.title)));
  const [before, after] = [...lab.querySelectorAll(".lab-grid")].map(rows);
  return {
    edits: lab.state.edits, text: lab.last.text, before, after, effect: numbers(".lab-effect td[title]"),
    logProb: [...lab.last.logProbs].reduce((sum, value) => sum + value, 0),
    marked: [...lab.querySelectorAll(".lab-outcome mark")].map((word) => word.textContent),
    milliseconds: Number(lab.dataset.milliseconds),
  };
}"""


class Editor:
    """Edits the attention matrix and the positions by pointer and keyboard, as a reader would."""

    def __init__(self, page, rng):
        self.page, self.rng = page, rng
        self.kind, self.layer, self.head = "cross", None, None

    def open(self, text):
        self.page.evaluate(
            "(changes) => { const lab = document.querySelector('uwaga-lab'); lab.open('change');"
            " return lab.change(changes); }",
            {"text": text, "edits": [], "beam": 1},
        )
        self.page.wait_for_function(IS_SETTLED)

    def choose_heads(self, settings):
        self.kind = self.rng.choice(["cross", "cross", "encoder", "decoder"])
        layers = settings.encoder_layers if self.kind == "encoder" else settings.decoder_layers
        self.layer = self.rng.choice([None, self.rng.randint(1, layers)])
        self.head = self.rng.choice([None, self.rng.randint(1, settings.heads)])
        for name, value in (("kind", self.kind), ("layer", self.layer), ("head", self.head)):
            self.page.get_by_label(name, exact=True).select_option(str(value or ""))

    def cell(self, row, column):
        return self.page.locator(f".lab-editable [data-cell='{row},{column}']")

    def middle(self, row, column):
        self.cell(row, column).scroll_into_view_if_needed()
        box = self.cell(row, column).bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def drag(self, start, end):
        self.page.mouse.move(*start)
        self.page.mouse.down()
        self.page.mouse.move(*end, steps=4)
        self.page.mouse.up()

    def random_cell(self):
        shape = self.page.evaluate(SHOWN_EDITS)["after"]
        row = self.rng.randrange(len(shape))
        return row, self.rng.randrange(row + 1 if self.kind == "decoder" else len(shape[0]))

    def focus(self, row, column):
        """Move the focus to a cell by keyboard, from wherever it is in the grid."""
        self.page.locator(".lab-editable [data-cell][tabindex='0']").focus()
        keys = self.page.keyboard
        keys.press("Control+Home")
        for key, count in (("ArrowDown", row), ("ArrowRight", column)):
            for _ in range(count):
                keys.press(key)
        assert self.page.evaluate("document.activeElement.dataset.cell") == f"{row},{column}"

    def edit(self, name):
        getattr(self, name)(*self.random_cell())
        self.page.wait_for_function(IS_SETTLED)

    def click(self, row, column):
        self.page.get_by_role("button", name="Mask", exact=True).click()
        self.cell(row, column).scroll_into_view_if_needed()
        self.cell(row, column).click()

    def paint(self, row, column):
        self.page.get_by_role("button", name="Mask", exact=True).click()
        end = self.middle(row, 0)
        self.drag(self.middle(row, column), end)

    def pull(self, row, column):
        self.page.get_by_role("button", name="Set weights").click()
        x, y = self.middle(row, column)
        self.drag((x, y), (x, y + self.rng.choice([-90, -40, 40])))

    def press_space(self, row, column):
        self.focus(row, column)
        self.page.keyboard.press("Space")

    def press_plus(self, row, column):
        self.focus(row, column)
        for _ in range(self.rng.randint(1, 4)):
            self.page.keyboard.press(self.rng.choice("+-"))
            self.page.wait_for_function(IS_SETTLED)

    def swap_positions(self, row, column):
        chips = self.page.locator(".lab-chip")
        first, second = self.rng.sample(range(chips.count()), 2)
        boxes = []
        for index in (first, second):
            chips.nth(index).scroll_into_view_if_needed()
        for index in (first, second):
            box = chips.nth(index).bounding_box()
            boxes.append((box["x"] + 5, box["y"] + 5))
        self.drag(*boxes)

    def move_position(self, row, column):
        self.page.locator(".lab-chip[tabindex='0']").focus()
        for key in self.rng.choices(["ArrowRight", "ArrowUp", "ArrowDown"], k=5):
            self.page.keyboard.press(key)
        if self.rng.random() < 0.5:
            for key in ("Space", self.rng.choice(["Home", "End"]), "Enter"):
                self.page.keyboard.press(key)


SENTENCES = TEXTS[1 : TEXTS.index("[de]")] + [
    f"{subject} {verb} {thing} {location}."
    for subject, verb, thing, location in product(
        ("A man", "The old teacher", "My friends", "We"),
        ("bought", "found"),
        ("a red car", "the book", "three apples", "it", "some water"),
        ("in the city", "yesterday"),
    )
]
EDITS = ("click", "paint", "pull", "press_space", "press_plus", "swap_positions", "move_position")


def to_interventions(edits):
    """Return the interventions in Python that correspond to edits in JSON."""

    def table(value, dtype):
        return value if value is None or isinstance(value, str) else np.array(value, dtype)

    return [
        Positions(edit["side"], tuple(edit["places"]))
        if "side" in edit
        else Heads(
            edit["kind"], edit.get("layer"), edit.get("head"), weights=table(edit.get("weights"), np.float32),
            mask=table(edit.get("mask"), bool),
        )
        for edit in edits
    ]  # fmt: skip


@cache
def plain_results(translator, text):
    """Return the translation of a text without edits, its score and its attentions."""
    plain = translator.translate(text, beam=1, split="never", attention="all")
    return plain, translator.score([(text, plain.text)])[0].log_prob, plain.attentions


def check_edits(translator, text, display, editor):
    """Check that translation, log-probability, matrix and effect of edits are bit-identical to Python's."""
    plain, plain_score, plain_attentions = plain_results(translator, text)
    expected, attentions = plain, plain_attentions
    if display["edits"]:
        edited = intervene(translator, *to_interventions(display["edits"]))
        expected = edited.translate(text, beam=1, split="never", attention="all")
        attentions = expected.attentions
    assert display["text"] == expected.text
    assert display["logProb"] == expected.log_prob
    if display["edits"]:
        assert display["effect"] == [plain_score, edited.score([(text, plain.text)])[0].log_prob]
        assert bool(display["marked"]) == (plain.text != expected.text) or len(expected.text) < len(
            plain.text
        )
    for table, recorded in (("before", plain_attentions), ("after", attentions)):
        weights = getattr(recorded, editor.kind)
        weights = weights[editor.layer - 1 :][:1] if editor.layer else weights
        weights = weights[:, editor.head - 1 :][:, :1] if editor.head else weights
        sums, count = np.zeros(weights.shape[2:], np.float32), weights.shape[0] * weights.shape[1]
        for layer, head in np.ndindex(weights.shape[:2]):
            sums += weights[layer, head]  # in float32, as in the page
        cells = np.array(display[table], np.float32)
        if editor.kind == "decoder":  # cells above the diagonal are empty
            cells = np.tril(cells)
        np.testing.assert_array_equal(cells, sums / np.float32(count))


@pytest.mark.slow
@pytest.mark.parametrize(("sentences", "edits"), [(2, 7), pytest.param(100, 2, marks=pytest.mark.release)])
def test_edits_by_pointer_and_keyboard_match_python_interventions(
    browser, site, translator, sentences, edits
):
    page, rng = start_laboratory(browser, site[1], viewport=WIDE_VIEWPORT), random.Random(7)
    editor, changed, milliseconds = Editor(page, rng), 0, []
    names = [name for _ in range(sentences * edits // len(EDITS) + 1) for name in EDITS]
    for number, text in enumerate(SENTENCES[:sentences]):
        editor.open(text)
        editor.choose_heads(translator.decoder.settings)
        for name in names[number * edits :][:edits]:
            before = page.evaluate(SHOWN_EDITS)["edits"]
            editor.edit(name)
            display = page.evaluate(SHOWN_EDITS)
            changed += display["edits"] != before
            milliseconds.append(display["milliseconds"])
            check_edits(translator, text, display, editor)
    assert changed >= 0.8 * sentences * edits
    assert min(milliseconds) <= 100
    assert page.errors == []
    page.close()


@pytest.mark.slow
def test_tabs_use_the_same_row_names_and_minus_signs(browser, site):
    page = start_laboratory(browser, site[1], viewport=WIDE_VIEWPORT)
    tabs = {}
    for tab, names in (
        ("Attention", page.get_by_role("listbox", name="cross attention, queries").get_by_role("option")),
        ("Change", page.locator(".lab-editable tbody th")),
    ):
        page.get_by_role("tab", name=tab).click()
        names.first.wait_for()
        tabs[tab] = names.all_inner_texts()
        assert re.search(r"−\d", page.locator("uwaga-lab").inner_text())
        assert not re.search(r"(?<!\w)-\d", page.locator("uwaga-lab").inner_text())
    assert tabs["Attention"] == tabs["Change"]
    assert tabs["Change"][0].startswith("<s> → ")
    page.close()


@pytest.mark.slow
def test_edited_matrix_shows_masks_weights_and_changed_words(browser, site):
    page = start_laboratory(browser, site[1], viewport=WIDE_VIEWPORT)
    editor = Editor(page, random.Random(1))
    editor.open("I want to buy a car.")
    editor.click(3, 5)
    page.wait_for_function(IS_SETTLED)
    assert editor.cell(3, 5).inner_text() == "×"
    assert editor.cell(3, 5).get_attribute("aria-label") == "ein → kauf, car: 0.00, masked"
    assert "changed" in editor.cell(3, 4).get_attribute("class")
    assert (
        page.locator(".lab-edits")
        .inner_text()
        .endswith("cross-attention, all layers, all heads: mask (1 cell)")
    )
    editor.click(3, 5)
    page.wait_for_function(IS_SETTLED)
    assert page.evaluate("document.querySelector('uwaga-lab').state.edits") == []
    page.locator(".lab-editable [data-column='5']").click()
    page.wait_for_function(IS_SETTLED)
    assert page.locator(".lab-editable .masked").count() == page.locator(".lab-editable tbody tr").count()
    page.get_by_role("button", name="silence", exact=True).click()
    page.wait_for_function(IS_SETTLED)
    assert page.locator(".lab-outcome mark").all_inner_texts() != []
    page.get_by_role("button", name="silence", exact=True).click()
    page.wait_for_function(IS_SETTLED)
    editor.focus(1, 5)
    page.keyboard.press("Shift+Space")
    page.wait_for_function(IS_SETTLED)
    page.get_by_label("layer", exact=True).select_option("2")
    page.get_by_label("head", exact=True).select_option("1")
    editor.focus(1, 3)
    start = float(editor.cell(1, 3).get_attribute("title"))
    page.keyboard.press("+")
    page.wait_for_function(IS_SETTLED)
    weight = float(editor.cell(1, 3).get_attribute("title"))
    assert weight == pytest.approx(round((start + 0.05) / 0.05) * 0.05)
    display = page.evaluate(SHOWN_EDITS)
    assert sum(display["after"][1]) == pytest.approx(1, abs=1e-5)
    assert display["after"][0] == pytest.approx(display["before"][0], abs=1e-6)
    page.get_by_role("button", name="all positions 0").click()
    page.wait_for_function(IS_SETTLED)
    assert page.locator(".lab-chip small").all_inner_texts() == ["0"] * 8
    page.get_by_role("button", name="Remove all").click()
    page.wait_for_function("document.querySelector('uwaga-lab').state.edits.length === 0")
    page.wait_for_function(IS_SETTLED)
    assert page.locator(".lab-chip small").all_inner_texts() == [str(place) for place in range(8)]
    page.locator(".lab-chip").nth(2).click()
    page.get_by_role("button", name="stop counting").click()
    page.wait_for_function(IS_SETTLED)
    assert page.locator(".lab-chip small").all_inner_texts() == [*"01222222"]
    assert page.errors == []
    page.close()


class DrawingEditor(Editor):
    """Edits the matrix of a box of the drawing, as a reader would."""

    def open(self, text):
        self.page.evaluate(
            "(changes) => { const lab = document.querySelector('uwaga-lab'); lab.open('numbers');"
            " return lab.change(changes); }",
            {"text": text, "edits": [], "beam": 1},
        )
        self.page.wait_for_function(IS_SETTLED)

    def choose_heads(self, settings):
        self.kind = self.rng.choice(["cross", "encoder", "decoder"])
        layers = settings.encoder_layers if self.kind == "encoder" else settings.decoder_layers
        self.layer, self.head = self.rng.randint(1, layers), self.rng.randint(1, settings.heads)
        box = self.page.locator(f"[data-array='{self.kind}.{self.layer}.weights']")
        if box.get_attribute("aria-expanded") == "false":
            box.click()
        self.page.locator(f"[data-key='head.{self.head - 1}']").click()
        self.page.wait_for_selector(f"caption:text('{self.kind}.{self.layer}.weights, head {self.head}:')")

    def random_cell(self):
        rows = self.page.locator(".lab-grid tbody tr")
        row = self.rng.randrange(rows.count())
        columns = rows.first.locator("td").count()
        return row, self.rng.randrange(row + 1 if self.kind == "decoder" else columns)


@pytest.mark.slow
@pytest.mark.parametrize(("sentences", "edits"), [(1, 5), pytest.param(100, 200, marks=pytest.mark.release)])
def test_edits_in_the_drawing_match_python_interventions(browser, site, translator, sentences, edits):
    page, rng = start_laboratory(browser, site[1], viewport=WIDE_VIEWPORT), random.Random(8)
    editor, names = DrawingEditor(page, rng), cycle(EDITS[:5])
    for index in range(sentences):
        editor.open(SENTENCES[index % len(SENTENCES)])
        for _ in range(edits // sentences):
            editor.choose_heads(translator.decoder.settings)
            editor.edit(next(names))
            state = page.evaluate("document.querySelector('uwaga-lab').state")
            display = page.evaluate(SHOWN_NUMBERS, [{}, "numbers"])
            edited = (
                intervene(translator, *to_interventions(state["edits"])) if state["edits"] else translator
            )
            translation = edited.translate(state["text"], beam=1, split="never", attention="all")
            assert display["text"] == translation.text
            array = f"{editor.kind}.{editor.layer}.weights"
            expected = getattr(translation.attentions, editor.kind)[editor.layer - 1, editor.head - 1]
            np.testing.assert_array_equal(np.array(display["cells"], np.float32), expected)
            marked = page.locator(f".lab-box.edited[data-array='{array}']").count()
            assert marked == any(
                edit["kind"] == editor.kind and edit["layer"] == editor.layer for edit in state["edits"]
            )
    assert page.errors == []
    page.close()


def test_calculator_reproduces_worked_example(browser, site):
    page = open_page(browser, site[1])
    numbers = page.locator("uwaga-toy .lab-numbers").all_inner_texts()
    assert "0.964" in numbers[0] and "1.523" in numbers[0] and "1.726" in numbers[0]
    assert "0.204" in numbers[1] and "0.438" in numbers[1]
    assert "0.642" in numbers[2] and "0.796" in numbers[2]
    page.get_by_label("v, v, column 2").fill("-2")
    assert "0.964" in page.locator("uwaga-toy .lab-numbers").nth(0).inner_text()
    assert "-0.762".replace("-", "−") in page.locator("uwaga-toy .lab-numbers").nth(0).inner_text()
    page.get_by_role("button", name="Start over").click()
    assert "0.438" in page.locator("uwaga-toy .lab-numbers").nth(1).inner_text()
    page.close()


def test_dragging_arrows_updates_the_numbers(browser, site):
    page = open_page(browser, site[1], viewport=WIDE_VIEWPORT)
    tip = page.get_by_role("slider", name="k2")
    tip.scroll_into_view_if_needed()
    box, plane = tip.bounding_box(), page.locator(".lab-plane").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    unit = plane["width"] / 3  # from -1.5 to 1.5
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + unit / 2, y + 2 * unit, steps=5)
    page.mouse.up()
    assert tip.get_attribute("aria-valuetext") == "(0.5, −1)"
    for column, value in ((1, "0.5"), (2, "-1")):
        assert page.get_by_label(f"keys = values, k2, column {column}").input_value() == value
    # tanh(1 + 0.5) + tanh(0 - 1)
    assert f"{np.tanh(1.5) + np.tanh(-1):.3f}" in page.locator("uwaga-toy .lab-numbers").nth(0).inner_text()
    tip.press("ArrowLeft")
    assert tip.get_attribute("aria-valuetext") == "(0.4, −1)"
    page.get_by_label("keys = values, k2, column 1").fill("1.2")
    assert tip.get_attribute("aria-valuetext") == "(1.2, −1)"
    assert page.errors == []
    page.close()


@pytest.mark.parametrize(
    "language", ["pl", *(pytest.param(language, marks=pytest.mark.slow) for language in ("es", "zh"))]
)
def test_laboratory_uses_the_language_of_the_page(browser, site, language):
    translated, english = messages(language), messages("en")
    page = start_laboratory(browser, site[1].replace("index", language))
    text_shown = ""
    for key in ("labNumbers", "labChoose", "labSteps", "labChange", "labAttention"):
        page.get_by_role("tab", name=translated[key], exact=True).click()
        page.wait_for_timeout(200)
        if key == "labChange":
            page.get_by_role("button", name=translated["changeSilent"], exact=True).click()
            page.wait_for_selector(".lab-effect")
        text_shown += page.locator("uwaga-lab").inner_text()
    heads = {"es": "cabezas", "pl": "głowy", "zh": "注意力头"}[language]
    page.locator(".uwaga-attention").get_by_text(heads).first.wait_for()
    text_shown += page.locator("uwaga-lab").inner_text() + page.locator("uwaga-toy").inner_text()
    first = page.locator("#exercise-3\\.1")
    first.locator("input").fill("0.5")
    first.get_by_role("button", name=translated["exerciseCheck"]).click()
    assert first.locator(".lab-remark strong").inner_text() == translated["exerciseRight"]
    for key, text in english.items():
        if " " in text and "{" not in text and text != translated[key]:
            assert text not in text_shown, key
    assert page.errors == []
    page.close()


def test_exercises_are_checked_and_saved(browser, site):
    page = open_page(browser, site[1])
    first = page.locator("#exercise-3\\.1")
    first.locator("input").fill("0.693")
    first.locator("input").press("Enter")
    assert "That is the score itself." in first.locator(".lab-remark").inner_text()
    first.locator("input").fill("0,5")
    first.locator("input").press("Enter")
    assert first.locator(".lab-remark").inner_text() == f"Right. {find_exercise('3.1').because}"
    order = page.locator("#exercise-3\\.4")
    for item in reversed(find_exercise("3.4").items):
        for _ in range(3):
            order.get_by_role("button", name=f"up: {item}").press("Enter")
    order.get_by_role("button", name="Check").press("Enter")
    assert order.locator(".lab-remark").inner_text() == f"Right. {find_exercise('3.4').because}"
    page.reload()
    assert "done" in page.locator("#exercise-3\\.1").get_attribute("class")
    assert "done" not in page.locator("#exercise-3\\.3").get_attribute("class")
    page.close()


@pytest.mark.slow
def test_exercise_remark_shows_emphasis(browser, site):
    page = open_page(browser, site[1])
    exercise = page.locator("#exercise-0\\.1")
    wrong = next(option for option in find_exercise("0.1").options if "*" in (option.remark or ""))
    exercise.get_by_role("radio").nth(find_exercise("0.1").options.index(wrong)).check()
    exercise.get_by_role("button", name="Check").click()
    assert exercise.locator(".lab-remark").inner_text() == wrong.remark.replace("*", "")
    assert exercise.locator(".lab-remark em").count() == wrong.remark.count("*") / 2
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_laboratory_is_accessible_and_fits_on_a_phone_screen(browser, site, scheme):
    page = start_laboratory(browser, site[1], color_scheme=scheme, viewport={"width": 320, "height": 700})
    for tab in ("Attention", "Step by step", "The Transformer", "Change", "Choose words"):
        page.get_by_role("tab", name=tab).click()
        page.wait_for_timeout(200)
        if tab == "Change":  # with a mask, changed cells and changed words
            page.get_by_role("button", name="silence", exact=True).click()
            page.locator(".lab-editable [data-cell='1,1']").click()
            page.wait_for_selector(".lab-outcome mark")
        assert accessibility_violations(page) == [], tab
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, tab
    page.close()


def test_committed_laboratory_scripts_match_their_sources(tmp_path):
    if not (ROOT / "page/node_modules/esbuild").exists():
        pytest.skip("esbuild is not installed: npm --prefix page ci")
    subprocess.run(["node", ROOT / "page/build.mjs", tmp_path], check=True, cwd=ROOT / "page")
    names = [path.relative_to(tmp_path) for path in sorted((tmp_path / "lab").rglob("*.*"))]
    assert len(names) == 6 + len(LANGUAGES)
    assert {path.name for path in (ROOT / "docs/lab").glob("*.*")} == {
        name.name for name in names if name.parent.name == "lab"
    }
    for name in names:
        built, committed = (tmp_path / name).read_bytes(), (ROOT / "docs" / name).read_bytes()
        assert built == committed, (
            f"docs/{name} is not what page/src/lab makes: run `make page` and commit it"
        )
    assert (
        sum(
            (ROOT / "docs/lab" / name).stat().st_size for name in ("lab.js", "chunk.js", "more.js", "lab.css")
        )
        <= 155_000
    )

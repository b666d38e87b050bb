"""The laboratory, the calculator and the exercises in a browser: the numbers of Python, to the bit."""

from __future__ import annotations

import importlib
import random
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from browser import chromium, served
from c_library import random_edits

import uwaga
from uwaga.inspection import look_inside
from uwaga.inspection.interventions import intervene
from uwaga.learn import find_exercise

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "page/node_modules/axe-core/axe.min.js"
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


def messages(language):
    """The messages of the laboratory by their keys."""
    text = (ROOT / f"page/src/lab/messages/{language}.ts").read_text(encoding="utf-8")
    return dict(re.findall(r'^  (\w+): "(.*)",$', text, re.MULTILINE))


def laboratory_in(folder):
    """Put the files that the documentation puts beside the laboratory into a folder; its hooks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        build = importlib.import_module("hooks")
    build.on_post_build({"site_dir": str(folder)})
    shutil.copytree(ROOT / "docs/lab", folder / "lab", dirs_exist_ok=True)
    return build


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A page of the laboratory alone, in every language."""
    folder = tmp_path_factory.mktemp("site")
    build = laboratory_in(folder)
    exercises = "".join(build._exercise(number) for number in ("0.1", "3.1", "3.3", "3.4"))
    page = PAGE.replace("EXERCISES", exercises)
    (folder / "index.html").write_text(page, encoding="utf-8")
    for language in LANGUAGES:
        spoken = page.replace('lang="en"', f'lang="{language}"')
        (folder / f"{language}.html").write_text(spoken, encoding="utf-8")
    with served(folder) as url:
        yield folder, f"{url}/index.html"


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


def opened(browser, url, **settings):
    page = browser.new_page(**settings)
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda one: page.complaints.append(one.text) if one.type == "error" else None)
    own = (url.rpartition("/")[0], "data:", "blob:")
    page.on("request", lambda one: None if one.url.startswith(own) else page.complaints.append(one.url))
    page.goto(url)
    return page


def started(browser, url, **settings):
    page = opened(browser, url, **settings)
    page.click(".lab-start")
    page.wait_for_function("document.querySelector('uwaga-lab').dataset.milliseconds")
    return page


SHOWN = """async ([changes, view]) => {
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


def check_numbers(page, translator, text, target, edits, interventions, drawn):
    """A table of the laboratory holds the numbers of Python."""
    edited = intervene(translator, *interventions) if interventions else translator
    array = drawn.choice(ARRAYS)
    head = drawn.randrange(4)
    changes = {"text": text, "edits": edits, "array": array, "head": head, "beam": 1}
    found = page.evaluate(SHOWN, [changes | ({} if target is None else {"target": target}), "numbers"])
    made = target or edited.translate(text, beam=1, split="never").text
    assert found["text"] == made
    wanted = look_inside(edited, text, made, names=[array]).arrays[array]
    wanted = wanted[head] if wanted.ndim == 3 else wanted
    np.testing.assert_array_equal(np.array(found["cells"], np.float32), np.nan_to_num(wanted, neginf=-np.inf))


@pytest.fixture
def translator(monkeypatch, site):
    monkeypatch.setenv("UWAGA_ISA", "portable")
    return uwaga.load(site[0] / "lab/model", device="cpu", threads=1)


@pytest.mark.parametrize("count", [6, pytest.param(200, marks=pytest.mark.slow)])
def test_what_is_shown_is_what_python_computes(browser, site, translator, count):
    page, drawn = started(browser, site[1]), random.Random(3)
    settings = translator.decoder.settings
    for seed in range(count):
        edits, interventions = random_edits(settings, seed) if seed % 3 else ([], [])
        text = TEXTS[seed % len(TEXTS)][: drawn.randint(8, 60)].strip()
        target = drawn.choice(["Ein Hund läuft.", "Das ist gut."])
        check_numbers(page, translator, text, target, edits, interventions, drawn)
    assert page.complaints == []
    page.close()


@pytest.mark.slow
def test_every_view_shows_its_part(browser, site, translator):
    page = started(browser, site[1])
    wanted = translator.translate("A dog runs.", beam=3, nbest=3)
    page.get_by_label("Beam", exact=True).select_option("3")
    page.get_by_role("tab", name="Step by step").click()
    page.wait_for_selector(".lab-steps li")
    assert page.locator(".lab-steps li").count() == len(wanted.tokens) + 1
    assert page.locator(".lab-candidate.chosen").count() == len(wanted.tokens) + 1
    page.get_by_role("tab", name="Choose words").click()
    page.wait_for_selector(".lab-best li")
    texts = [item.split(" score")[0] for item in page.locator(".lab-best li").all_inner_texts()]
    assert texts == [wanted.text, *(one.text for one in wanted.alternatives)]
    assert page.locator("svg .lab-tree-best").count() >= len(wanted.tokens) + 1
    page.get_by_role("button", name="Draw a translation").click()
    page.wait_for_function("/seed 1: ./.test(document.querySelector('uwaga-lab').textContent)")
    page.get_by_role("tab", name="Change").click()
    page.get_by_role("button", name="Add").first.click()
    page.wait_for_selector(".lab-effect")
    assert "cross attention, all layers, all heads: silence" in page.locator(".lab-edits").inner_text()
    page.get_by_label("change", exact=True).select_option("mask")
    page.get_by_role("button", name="Add").first.click()
    page.wait_for_selector(".lab-mask input")
    page.locator(".lab-mask input").first.uncheck()
    state = "JSON.stringify(document.querySelector('uwaga-lab').state)"
    page.wait_for_function(f"{state}.includes('false')")
    page.get_by_role("tab", name="Attention").click()
    page.wait_for_selector("uwaga-lab .uwaga-attention")
    assert page.complaints == []
    page.close()


@pytest.mark.slow
def test_an_address_holds_the_state_and_python_that_runs(browser, site, translator):
    page = started(browser, site[1])
    heads = {"kind": "cross", "layer": 2, "head": 1, "weights": "uniform"}
    changes = {"text": 'Say "no"!', "array": "cross.2.weights", "head": 1}
    changes["edits"] = [heads, {"side": "source", "places": [1, 0]}]
    page.evaluate(SHOWN, [changes, "numbers"])
    address = page.evaluate("location.href")
    other = opened(browser, address)
    other.wait_for_function("document.querySelector('uwaga-lab').dataset.milliseconds")
    state = "JSON.stringify(document.querySelector('uwaga-lab').state)"
    assert other.evaluate(state) == page.evaluate(state)
    page.locator("summary", has_text="Keep").click()
    page.get_by_text("Show me the Python").click()
    program = page.locator(".lab-keep pre").inner_text()
    printed: list[object] = []
    exec(program, {"print": lambda *values: printed.extend(values)})
    cells = page.evaluate(CELLS)
    np.testing.assert_array_equal(np.array(cells[-printed[-1].size :], np.float32), printed[-1].ravel())
    for damaged in ("#lab=%7B", "#lab=null", "#lab=%7B%22edits%22%3A5%7D", "#lab=" + "%5B" * 3000):
        opened(browser, site[1] + damaged).close()
    page.close()


def test_the_calculator_computes_the_example_by_hand(browser, site):
    page = opened(browser, site[1])
    shown = page.locator("uwaga-toy .lab-numbers").all_inner_texts()
    assert "0.964" in shown[0] and "1.523" in shown[0] and "1.726" in shown[0]
    assert "0.204" in shown[1] and "0.438" in shown[1]
    assert "0.642" in shown[2] and "0.796" in shown[2]
    page.get_by_label("v, v, column 2").fill("-2")
    assert "0.964" in page.locator("uwaga-toy .lab-numbers").nth(0).inner_text()
    assert "-0.762".replace("-", "−") in page.locator("uwaga-toy .lab-numbers").nth(0).inner_text()
    page.get_by_role("button", name="Start over").click()
    assert "0.438" in page.locator("uwaga-toy .lab-numbers").nth(1).inner_text()
    page.close()


@pytest.mark.parametrize(
    "language", ["pl", *(pytest.param(one, marks=pytest.mark.slow) for one in ("es", "zh"))]
)
def test_the_laboratory_speaks_the_language_of_its_page(browser, site, language):
    said, english = messages(language), messages("en")
    page = started(browser, site[1].replace("index", language))
    shown = ""
    for key in ("labNumbers", "labChoose", "labSteps", "labChange", "labAttention"):
        page.get_by_role("tab", name=said[key], exact=True).click()
        page.wait_for_timeout(200)
        if key == "labChange":
            page.get_by_role("button", name=said["changeAdd"]).first.click()
            page.wait_for_selector(".lab-effect")
        shown += page.locator("uwaga-lab").inner_text()
    heads = {"es": "cabezas", "pl": "głowy", "zh": "注意力头"}[language]
    page.locator(".uwaga-attention").get_by_text(heads).first.wait_for()
    shown += page.locator("uwaga-lab").inner_text() + page.locator("uwaga-toy").inner_text()
    first = page.locator("#exercise-3\\.1")
    first.locator("input").fill("0.5")
    first.get_by_role("button", name=said["exerciseCheck"]).click()
    assert first.locator(".lab-remark").inner_text() == said["exerciseRight"]
    for key, text in english.items():
        if " " in text and "{" not in text and text != said[key]:
            assert text not in shown, key
    assert page.complaints == []
    page.close()


def test_exercises_are_checked_by_keyboard_and_kept(browser, site):
    page = opened(browser, site[1])
    first = page.locator("#exercise-3\\.1")
    first.locator("input").fill("0.693")
    first.locator("input").press("Enter")
    assert "That is the score itself." in first.locator(".lab-remark").inner_text()
    first.locator("input").fill("0,5")
    first.locator("input").press("Enter")
    assert first.locator(".lab-remark").inner_text() == "Right."
    order = page.locator("#exercise-3\\.4")
    for item in reversed(find_exercise("3.4").items):
        for _ in range(3):
            order.get_by_role("button", name=f"up: {item}").press("Enter")
    order.get_by_role("button", name="Check").press("Enter")
    assert order.locator(".lab-remark").inner_text() == "Right."
    page.reload()
    assert "done" in page.locator("#exercise-3\\.1").get_attribute("class")
    assert "done" not in page.locator("#exercise-3\\.3").get_attribute("class")
    page.close()


def test_a_remark_shows_its_emphasis(browser, site):
    page = opened(browser, site[1])
    chosen = page.locator("#exercise-0\\.1")
    wrong = next(option for option in find_exercise("0.1").options if "*" in (option.remark or ""))
    chosen.get_by_role("radio").nth(find_exercise("0.1").options.index(wrong)).check()
    chosen.get_by_role("button", name="Check").click()
    assert chosen.locator(".lab-remark").inner_text() == wrong.remark.replace("*", "")
    assert chosen.locator(".lab-remark em").count() == wrong.remark.count("*") / 2
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_nothing_is_wider_than_a_telephone(browser, site, scheme):
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm --prefix page ci")
    page = started(browser, site[1], color_scheme=scheme, viewport={"width": 320, "height": 700})
    for tab in ("Attention", "Step by step", "Every number", "Change", "Choose words"):
        page.get_by_role("tab", name=tab).click()
        page.wait_for_timeout(200)
        page.add_script_tag(content=AXE.read_text(encoding="utf-8"))
        found = page.evaluate("axe.run(document)")["violations"]
        assert [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found] == [], tab
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, tab
    page.close()


def test_the_committed_script_is_what_its_source_makes(tmp_path):
    if not (ROOT / "page/node_modules/esbuild").exists():
        pytest.skip("esbuild is not installed: npm --prefix page ci")
    subprocess.run(["node", ROOT / "page/build.mjs", tmp_path], check=True, cwd=ROOT / "page")
    names = [path.relative_to(tmp_path) for path in sorted((tmp_path / "lab").rglob("*.*"))]
    assert len(names) == 4 + len(LANGUAGES)
    assert {path.name for path in (ROOT / "docs/lab").glob("*.*")} == {
        name.name for name in names if name.parent.name == "lab"
    }
    for name in names:
        made, kept = (tmp_path / name).read_bytes(), (ROOT / "docs" / name).read_bytes()
        assert made == kept, f"docs/{name} is not what page/src/lab makes: run `make page` and commit it"
    assert (
        sum(
            (ROOT / "docs/lab" / name).stat().st_size for name in ("lab.js", "chunk.js", "more.js", "lab.css")
        )
        <= 90_000
    )

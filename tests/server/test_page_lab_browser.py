"""The laboratory in the tab Inside of the page: the numbers of Python, and models that it cannot open."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest
import tiny_models as tiny
from c_library import random_edits
from page_visit import START, expect, other_way, translated, visit
from recurrent_variants import VARIANTS
from running_server import running_server

from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.inspection import look_inside
from uwaga.inspection.interventions import intervene
from uwaga.models.build import build_model

pytest_plugins = "server_fixtures"

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "I want to buy a car."
TEXTS = [SENTENCE, "A dog chases a cat.", "She gave him the book.", "Two women are playing."]
SHOWN = """async ([changes, view]) => {
  const lab = document.querySelector("uwaga-lab");
  lab.open(view);
  await lab.change({ target: undefined, ...changes });
  const rows = [...lab.querySelectorAll(".lab-numbers tbody tr")];
  const cells = rows.map((row) => [...row.querySelectorAll("td")].map((cell) => Number(cell.title)));
  return { cells, text: lab.last.text, status: lab.querySelector(".lab-status").textContent };
}"""
ARRAYS = ("cross.2.weights", "encoder.1.scores", "decoder.2.value", "encoder.4.feed_forward")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The bundled model; one more after it, to Polish; and a recurrent model, to Spanish."""
    folder, words = tmp_path_factory.mktemp("server"), tiny.tokeniser()
    shape = VARIANTS["bahdanau-conditional"].model_copy(update={"max_length": 60})
    model = build_model(shape, words.symbols, words.size, words.size).eval()
    save_model(folder / "r", model, shape, tiny.DECODING, words, words, ("en", "es"), "# card\n")
    models = ["bundled", str(other_way(folder, "de", "pl")), str(folder / "r")]
    with running_server(folder, models=models) as running:
        yield running.url


def inside(page):
    """The laboratory of the text's first sentence, opened."""
    page.locator("#tabInside").click()
    page.wait_for_selector("uwaga-lab[data-milliseconds]")
    return page.locator("uwaga-lab")


def test_what_is_shown_is_what_python_computes(page, translator):
    made, drawn = translated(page, SENTENCE), random.Random(5)
    lab = inside(page)
    expect(lab.get_by_label("German")).to_have_value(made)
    for seed, text in enumerate(TEXTS):
        edits, interventions = random_edits(translator.decoder.settings, seed) if seed else ([], [])
        edited = intervene(translator, *interventions) if seed else translator
        forced = drawn.choice([None, "Ein Hund läuft."])
        array, head = ARRAYS[seed], drawn.randrange(4)
        changes = {"text": text, "edits": edits, "array": array, "head": head, "beam": 1, "target": forced}
        if forced is None:
            del changes["target"]
        found = page.evaluate(SHOWN, [changes, "numbers"])
        wanted = forced or edited.translate(text, beam=1, split="never").text
        assert found["text"] == wanted
        numbers = look_inside(edited, text, wanted, names=[array]).arrays[array]
        numbers = numbers[head] if numbers.ndim == 3 else numbers
        np.testing.assert_array_equal(np.array(found["cells"], np.float32), numbers)


def test_every_view_shows_its_part(page, translator):
    translated(page, SENTENCE)
    lab = inside(page)
    wanted = translator.translate(SENTENCE, beam=3, nbest=3)
    lab.get_by_label("Beam", exact=True).select_option("3")
    lab.get_by_role("tab", name="Step by step").click()
    expect(lab.locator(".lab-steps li")).to_have_count(len(wanted.tokens) + 1)
    expect(lab.locator(".lab-candidate.chosen")).to_have_count(len(wanted.tokens) + 1)
    lab.get_by_role("tab", name="Choose words").click()
    expect(lab.locator(".lab-best li")).to_have_count(3)
    texts = [item.split(" score")[0] for item in lab.locator(".lab-best li").all_inner_texts()]
    assert texts == [wanted.text, *(one.text for one in wanted.alternatives)]
    assert lab.locator("svg text.lab-tree-best").count() == len(wanted.tokens) + 1
    lab.get_by_role("button", name="Draw a translation").click()
    expect(lab).to_contain_text(re.compile("seed 1: ."))
    lab.get_by_role("tab", name="Change").click()
    lab.get_by_role("button", name="Add").first.click()
    expect(lab.locator(".lab-effect")).to_contain_text("with them")
    lab.get_by_role("tab", name="Attention").click()
    expect(lab.locator(".uwaga-attention output")).to_contain_text("layer 2")


def test_what_the_server_refuses_is_said(browser, server):
    with visit(browser, server, START, expected=("Failed to load",)) as page:
        page.wait_for_selector("#source")
        translated(page, SENTENCE)
        lab = inside(page)
        page.evaluate(SHOWN, [{"edits": [{"kind": "cross", "layer": 9, "weights": "silent"}]}, "attention"])
        expect(lab.locator(".lab-status")).to_contain_text("layer 9")


def test_pictures_have_a_text_alternative_and_break_no_policy(page):
    translated(page, SENTENCE)
    lab = inside(page)
    lab.locator("summary", has_text="Keep").click()
    for kind, magic in (("SVG", b"<svg "), ("PNG", b"\x89PNG")):
        with page.expect_download() as download:
            lab.get_by_role("button", name=kind).click()
        content = Path(download.value.path()).read_bytes()
        assert content.startswith(magic)
        expect(lab.locator(".lab-keep pre")).to_contain_text("Auto looks most at car (")
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    assert (width, height) == (2 * (120 + 28 * 8), 2 * (110 + 28 * 7))


@pytest.mark.parametrize("target", ["pl", "es"])
def test_models_that_it_cannot_open_show_their_attention(browser, server, target):
    with visit(browser, server, f"#source=en&target={target}", expected=("Failed to load",)) as page:
        page.wait_for_selector("#source")
        translated(page, "A dog.")
        page.locator("#tabInside").click()
        if target == "es":
            expect(page.locator(".inside output")).to_contain_text("layer 1")
            expect(page.locator("#tabInside-panel")).to_contain_text("cannot open this model")
        else:
            expect(page.locator("#tabInside-panel")).to_contain_text("cannot show its attention")
        assert page.locator("uwaga-lab").count() == 0


@pytest.mark.parametrize(("locale", "name"), [("de-DE", "Jede Zahl"), ("zh-CN", "所有数值")])
def test_it_speaks_the_pages_language(browser, server, locale, name):
    with visit(browser, server, START, locale=locale) as page:
        page.wait_for_selector("#source")
        translated(page, SENTENCE)
        lab = inside(page)
        expect(lab.get_by_role("tab").nth(2)).to_have_text(re.compile(name))
        page.locator(".settings summary").click()
        page.locator("#page-language").select_option("pl")
        expect(lab.get_by_role("tab").nth(2)).to_have_text("Wszystkie liczby")

"""The laboratory in the tab Inside of the page: agreement with Python, and unsupported models."""

import math
import random
import re
from pathlib import Path

import numpy as np
import pytest
import tiny_models as tiny
from c_library import random_edits
from recurrent_variants import VARIANTS
from running_server import running_server
from server_page import START, copy_bundled_model, expect, open_server_page, translate_text

from uwaga.inspection import look_inside
from uwaga.inspection.interventions import intervene
from uwaga.models.build import build_model
from uwaga.results.confidence import END

pytest_plugins = "server_fixtures"

ROOT = Path(__file__).resolve().parents[2]
SENTENCE = "I want to buy a car."
TEXTS = [SENTENCE, "A dog chases a cat.", "She gave him the book.", "Two women are playing."]
READ_NUMBERS = """async ([changes, view]) => {
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
    """Start a server with the bundled model, a German–Polish model, and a recurrent model to Spanish."""
    folder, words = tmp_path_factory.mktemp("server"), tiny.tokeniser()
    shape = VARIANTS["bahdanau-conditional"].model_copy(update={"max_length": 60})
    model = build_model(shape, words.symbols, words.size, words.size).eval()
    tiny.save(folder / "r", model, words, languages=("en", "es"))
    models = ["bundled", str(copy_bundled_model(folder, "de", "pl")), str(folder / "r")]
    with running_server(folder, models=models) as running:
        yield running.url


def open_lab(page):
    """Open the laboratory for the first sentence of the text."""
    page.locator("#tabInside").click()
    page.wait_for_selector("uwaga-lab[data-milliseconds]")
    return page.locator("uwaga-lab")


def test_edges_of_the_search_tree_show_that_it_continues_beyond_them(page):
    translate_text(page, "I want to buy a small red car tomorrow, and she wants to buy a big house.")
    open_lab(page).get_by_role("tab", name="Choose words").click()
    tree = page.locator(".lab-whole")
    tree.locator("svg").evaluate("(drawing) => (drawing.style.visibility = 'hidden')")

    def edges() -> list[bytes]:
        box = tree.bounding_box()
        clip = {"y": box["y"] + 20, "width": 8, "height": 40}
        return [page.screenshot(clip=clip | {"x": x}) for x in (box["x"], box["x"] + box["width"] - 8)]

    tree.scroll_into_view_if_needed()
    plain, cut = edges()
    assert plain != cut
    tree.evaluate("(box) => box.scrollTo(box.scrollWidth, 0)")
    assert edges()[1] == plain != edges()[0]


def test_laboratory_numbers_match_python(page, translator):
    translation, rng = translate_text(page, SENTENCE), random.Random(5)
    lab = open_lab(page)
    expect(lab.get_by_label("German")).to_have_value(translation)
    for seed, text in enumerate(TEXTS):
        edits, interventions = random_edits(translator.decoder.settings, seed) if seed else ([], [])
        edited = intervene(translator, *interventions) if seed else translator
        forced = rng.choice([None, "Ein Hund läuft."])
        array, head = ARRAYS[seed], rng.randrange(4)
        changes = {"text": text, "edits": edits, "array": array, "head": head, "beam": 1, "target": forced}
        if forced is None:
            del changes["target"]
        displayed = page.evaluate(READ_NUMBERS, [changes, "numbers"])
        expected = forced or edited.translate(text, beam=1, split="never").text
        assert displayed["text"] == expected
        numbers = look_inside(edited, text, expected, names=[array]).arrays[array]
        numbers = numbers[head] if numbers.ndim == 3 else numbers
        np.testing.assert_array_equal(np.array(displayed["cells"], np.float32), numbers)


READ_TREE = """() => [...document.querySelectorAll('.lab-tree g')].map((node) => {
  const box = node.querySelector('rect').getBBox();
  const spaces = [...node.querySelectorAll('text')].flatMap((text) => {
    const {x, y, width, height} = text.getBBox();
    return [x - box.x, y - box.y, box.x + box.width - x - width, box.y + box.height - y - height];
  });
  const [, piece, logProb] = node.querySelector('title').textContent.match(/^(.*): log p ([^,]*),/);
  return {
    piece, space: Math.min(...spaces), logProb: Number(logProb.replace('−', '-')), x: box.x,
    isBest: node.matches('.lab-tree-best'),
  };
})"""


def test_search_tree_has_the_probabilities_of_the_words_and_space_around_its_texts(page):
    translate_text(page, "He photographs Wassermelonen and mountains of Massachusetts, mmmmmm!")
    titles = page.locator(".word").evaluate_all("words => words.map(({title}) => title)")
    percentages = [
        int(percent) for title in titles for percent in re.findall(r"[Mm]ean probability (\d+)%", title)
    ]
    open_lab(page).get_by_role("tab", name="Choose words").click()
    page.locator(".lab-tree g").first.wait_for()
    nodes = page.evaluate(READ_TREE)
    assert min(node["space"] for node in nodes) >= 3
    words: list[list[float]] = []
    for node in sorted((node for node in nodes if node["isBest"]), key=lambda node: node["x"]):
        if node["piece"].startswith("▁") or node["piece"] == END:
            words.append([])
        words[-1].append(node["logProb"])
    means = [round(100 * math.exp(sum(word) / len(word))) for word in words[:-1]]
    assert len(percentages) > 5
    assert percentages == pytest.approx(means, abs=1)  # the page rounds both
    expect(page.locator(".lab-faint", has_text="geometric mean over its pieces")).to_be_visible()


def test_laboratory_views_show_steps_hypotheses_and_samples(page, translator):
    translate_text(page, SENTENCE)
    lab = open_lab(page)
    expected = translator.translate(SENTENCE, beam=3, nbest=3)
    lab.get_by_label("Beam", exact=True).select_option("3")
    lab.get_by_role("tab", name="Step by step").click()
    expect(lab.locator(".lab-steps li")).to_have_count(len(expected.tokens) + 1)
    expect(lab.locator(".lab-candidate.chosen")).to_have_count(len(expected.tokens) + 1)
    lab.get_by_role("tab", name="Choose words").click()
    expect(lab.locator(".lab-best li")).to_have_count(3)
    texts = [item.split(" score")[0] for item in lab.locator(".lab-best li").all_inner_texts()]
    assert texts == [expected.text, *(alternative.text for alternative in expected.alternatives)]
    assert lab.locator("svg text.lab-tree-best").count() == len(expected.tokens) + 1
    lab.get_by_role("button", name="Draw a translation").click()
    expect(lab).to_contain_text(re.compile("seed 1: ."))
    lab.get_by_role("tab", name="Change").click()
    lab.get_by_role("button", name="silence", exact=True).click()
    expect(lab.locator(".lab-effect")).to_contain_text("with them")
    lab.get_by_role("tab", name="Attention").click()
    expect(lab.locator(".uwaga-attention output")).to_contain_text("layer 2")


def test_laboratory_shows_server_errors(browser, server):
    with open_server_page(browser, server, START, expected=("Failed to load",)) as page:
        translate_text(page, SENTENCE)
        lab = open_lab(page)
        page.evaluate(
            READ_NUMBERS, [{"edits": [{"kind": "cross", "layer": 9, "weights": "silent"}]}, "attention"]
        )
        expect(lab.locator(".lab-status")).to_contain_text("layer 9")


def test_laboratory_pictures_are_saved_as_svg_and_png(page):
    translate_text(page, SENTENCE)
    lab = open_lab(page)
    lab.locator("summary", has_text="Keep").click()
    for kind, magic in (("SVG", b"<svg "), ("PNG", b"\x89PNG")):
        with page.expect_download() as download:
            lab.get_by_role("button", name=kind).click()
        content = Path(download.value.path()).read_bytes()
        assert content.startswith(magic)
        expect(lab.locator(".lab-keep pre")).to_contain_text("Auto looks most at car (")
    width, height = (int.from_bytes(content[offset : offset + 4], "big") for offset in (16, 20))
    assert (width, height) == (2 * (180 + 28 * 8), 2 * (110 + 28 * 7))


@pytest.mark.parametrize("target", [pytest.param("pl", marks=pytest.mark.slow), "es"])
def test_page_explains_what_it_cannot_show_of_unsupported_models(browser, server, target):
    with open_server_page(
        browser, server, f"#source=en&target={target}", expected=("Failed to load",)
    ) as page:
        translate_text(page, "A dog.")
        page.locator("#tabInside").click()
        if target == "es":
            expect(page.locator(".inside output")).to_contain_text("layer 1")
            expect(page.locator("#tabInside-panel")).to_contain_text("cannot open this model")
        else:
            expect(page.locator("#tabInside-panel")).to_contain_text("cannot show its attention")
        assert page.locator("uwaga-lab").count() == 0


@pytest.mark.parametrize(
    ("locale", "name"),
    [pytest.param("de-DE", "Schritt für Schritt", marks=pytest.mark.slow), ("zh-CN", "逐步")],
)
def test_laboratory_uses_the_language_of_the_page(browser, server, locale, name):
    with open_server_page(browser, server, START, locale=locale) as page:
        translate_text(page, SENTENCE)
        lab = open_lab(page)
        expect(lab.get_by_role("tab").nth(2)).to_have_text(re.compile(name))
        page.get_by_role("button", name=re.compile("Einstellungen|^设置$")).click()
        page.locator("#page-language").select_option("pl")
        expect(lab.get_by_role("tab").nth(2)).to_have_text("Krok po kroku")

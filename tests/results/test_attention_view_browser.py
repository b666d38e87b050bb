"""The attention view in Chromium: everything in it is used, and nothing complains."""

from __future__ import annotations

import json
import re

import attention_samples as samples
import pytest
from browser import INK, chromium, open_page

from uwaga.results.attention import Attentions
from uwaga.results.views import attention_view, attention_view_data, view_script

SOURCE = (*samples.pieces(4, "s"), samples.HOSTILE[0], samples.HOSTILE[1])
TARGET = (*samples.pieces(3, "t"), samples.HOSTILE[2], samples.HOSTILE[3])
MADE = samples.attentions(3, 4, 7, 6)
DRAWN = "[data-milliseconds]"


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture
def show(browser, tmp_path):
    """Show HTML as a page, which may not complain; the last is closed with the test."""
    opened = []

    def shown(body, head="", wait=True, **settings):
        path = tmp_path / f"page{len(opened)}.html"
        path.write_text(f'<!DOCTYPE html><meta charset="utf-8">{head}<body>{body}', encoding="utf-8")
        page, complaints = open_page(browser, path, **settings)
        opened.append((page, complaints))
        if wait:
            page.wait_for_selector(DRAWN)
        return page

    yield shown
    for page, complaints in opened:
        assert complaints == []
        page.close()


@pytest.fixture
def page(show):
    return show(attention_view(MADE, SOURCE, TARGET))


def said(page) -> str:
    return page.locator("output").inner_text()


def ink(page) -> int:
    return page.locator("canvas").evaluate(INK)


def test_hostile_tokens_are_shown_and_do_nothing(page):
    assert page.evaluate("window.hacked") is None
    items = page.locator("li").all_inner_texts()
    assert samples.HOSTILE[0] in items and samples.HOSTILE[2] in items
    assert page.locator("img").count() == 0


@pytest.mark.parametrize(
    ("document", "language", "wanted"),
    [
        ("pl-PL", None, "warstwa 3"),
        ("pl", "de", "Schicht 3"),
        ("de", "en", "layer 3"),
        ("fr", None, "layer 3"),
        ("", "zh", "第 3 层"),
    ],
)
def test_it_speaks_the_language_of_the_document_or_the_call(show, document, language, wanted):
    head = f'<script>document.documentElement.lang = "{document}"</script>'
    page = show(attention_view(MADE, SOURCE, TARGET, language=language), head)
    assert wanted in said(page)


def test_every_kind_view_and_layer_is_drawn(page):
    for kind in ("cross", "encoder", "decoder"):
        page.locator(f"input[value={kind}]").check()
        for view in ("heads", "matrix"):
            page.locator(f"input[value={view}]").check()
            for layer in ("1", "2", "3"):
                page.locator("select").select_option(label=layer)
                assert ink(page) > 100
                assert f"{kind} attention, layer {layer}, mean of all heads" in said(page)
        page.locator("input[value=model]").check()
        assert ink(page) > 1000
        assert not page.locator("select").is_visible()


def test_the_view_of_heads_uses_the_width_and_speaks_another_language(page, browser):
    right = page.locator(".lines ul").nth(1).bounding_box()
    assert right["x"] + right["width"] > 950  # of 1000
    page.evaluate(
        f"""() => {{
          {view_script()}
          const root = document.createElement('div');
          root.innerHTML = '<div data-still></div>';
          document.body.replaceChildren(root);
          const data = {json.dumps(attention_view_data(MADE, SOURCE, TARGET))};
          attentionView(root, data, {{layer: 'Schicht', 'layer {{layer}}, mean of all heads': 'S{{layer}}'}});
        }}"""
    )
    page.wait_for_selector(DRAWN)
    assert page.get_by_label("Schicht").is_visible() and "cross attention, S3." in said(page)


def test_heads_are_shown_and_hidden(page):
    everything = ink(page)
    page.get_by_role("button", name="none of the heads").click()
    assert ink(page) == 0 and "no head chosen" in said(page)
    page.get_by_role("button", name="head 2", exact=True).click()
    assert 0 < ink(page) < everything and "layer 3, head 2." in said(page)
    page.get_by_role("button", name="head 4", exact=True).click()
    assert "mean of heads 2, 4" in said(page)
    page.get_by_role("button", name="head 3", exact=True).dblclick()
    assert "layer 3, head 3." in said(page)
    page.get_by_role("button", name="all heads").click()
    assert ink(page) == everything
    head = page.get_by_role("button", name="head 1", exact=True)
    head.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+Enter")
    assert "layer 3, head 2." in said(page)
    assert page.get_by_role("button", name="head 2", exact=True).get_attribute("aria-pressed") == "true"
    page.keyboard.press("Space")
    assert "no head chosen" in said(page)


def test_a_token_tells_what_it_looks_at(page):
    page.get_by_role("button", name="head 1", exact=True).dblclick()
    page.locator("select").select_option(label="2")
    weights = MADE.cross[1, 0]
    everything = ink(page)
    page.get_by_role("option", name="t1").hover()
    best = weights[1].argmax()
    names = [*(f"s{at}" for at in range(4)), *samples.HOSTILE[:2], "</s>"]
    assert said(page).startswith(f"“t1” looks most at: {names[best]} {weights[1, best]:.2f}")
    assert ink(page) < everything
    page.get_by_role("option", name="s2").hover()
    assert "“s2” is looked at most by" in said(page)
    assert f"{weights[:, 2].max():.2f}" in said(page)
    page.get_by_role("option", name="s2").click()
    page.mouse.move(900, 800)
    assert page.locator("[aria-selected=true]").inner_text() == "s2"
    page.keyboard.press("ArrowDown")
    assert "“s3” is looked at most by" in said(page)
    page.keyboard.press("End")
    assert "“</s>” is looked at most by" in said(page)
    page.keyboard.press("Enter")
    assert page.locator("[aria-selected=true]").inner_text() == "</s>"
    page.keyboard.press("Escape")
    assert page.locator("[aria-selected=true]").count() == 0


def test_a_cell_tells_its_weight(page):
    page.locator("input[value=matrix]").check()
    canvas = page.locator("canvas")
    assert "Heat map of cross attention, layer 3, mean of all heads" in canvas.get_attribute("aria-label")
    canvas.focus()
    mean = MADE.cross[2].mean(axis=0)
    for key, row, column in (
        ("ArrowDown", 0, 0),
        ("ArrowDown", 1, 0),
        ("ArrowRight", 1, 1),
        ("ArrowUp", 0, 1),
        ("ArrowUp", 0, 1),
        ("ArrowLeft", 0, 0),
    ):
        page.keyboard.press(key)
        found = re.fullmatch(r"“t(\d)” looks at “s(\d)”: (.*) \(layer 3, mean of all heads\)", said(page))
        assert found and (int(found[1]), int(found[2])) == (row, column)
        assert float(found[3]) == pytest.approx(mean[row, column], abs=0.01)
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 10, box["y"] + box["height"] - 10)
    assert said(page).startswith("“</s>” looks at “</s>”")


def test_the_model_view_opens_a_head(page):
    page.locator("input[value=model]").check()
    assert "layer 3, head 1" in said(page)
    canvas = page.locator("canvas")
    canvas.focus()
    for key in ("ArrowUp", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert "layer 2, head 4" in said(page)
    page.keyboard.press("Enter")
    assert page.locator("input[value=matrix]").is_checked()
    assert "layer 2, head 4" in said(page)
    page.locator("input[value=model]").check()
    box = page.locator("canvas").bounding_box()
    page.mouse.click(box["x"] + 50, box["y"] + 50)
    assert page.locator("input[value=matrix]").is_checked()
    assert "layer 1, head 1" in said(page)


def test_one_matrix_needs_no_choice_of_heads(show):
    page = show(attention_view(Attentions(cross=MADE.cross[:1, :1]), SOURCE, TARGET))
    assert page.locator("input[value=model]").count() == 0
    assert not page.locator("select").is_visible()
    assert not page.locator("input[value=cross]").is_visible()
    page.locator("input[value=matrix]").check()
    assert ink(page) > 100


def test_outputs_do_not_disturb_each_other_even_where_one_was_copied(show):
    once = attention_view(MADE, SOURCE, TARGET)
    page = show(once + once + attention_view(MADE, SOURCE, TARGET))
    page.wait_for_function(f"document.querySelectorAll('{DRAWN}').length === 3")
    page.locator("input[value=matrix]").nth(1).check()
    assert [page.locator("input[value=heads]").nth(at).is_checked() for at in range(3)] == [True, False, True]


def test_a_notebook_that_puts_it_in_later_runs_it(show):
    page = show("<main></main>", wait=False)
    page.evaluate(
        """(html) => {
          const place = document.querySelector('main');
          place.innerHTML = html;
          for (const dead of place.querySelectorAll('script')) {
            const script = document.createElement('script');
            script.textContent = dead.textContent;
            dead.replaceWith(script);
          }
        }""",
        attention_view(MADE, SOURCE, TARGET),
    )
    page.wait_for_selector(DRAWN)
    assert ink(page) > 100


@pytest.mark.parametrize("way", ["switched off", "taken out"])
def test_without_script_a_still_picture_and_the_labels_are_left(show, way):
    body = attention_view(MADE, SOURCE, TARGET)
    if way == "taken out":  # as a notebook that is not trusted does
        body = re.sub(r"<script>.*?</script>", "", body, flags=re.DOTALL)
    page = show(body, wait=False, java_script_enabled=way == "taken out")
    assert page.locator("svg").is_visible()
    assert page.locator("svg path").count() > 0
    assert {"t0", "s3", "</s>"} <= set(page.locator("svg text").all_text_contents())


def test_a_policy_against_scripts_leaves_the_still_picture(browser, tmp_path):
    path = tmp_path / "page.html"
    policy = '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">'
    path.write_text(policy + attention_view(MADE, SOURCE, TARGET), encoding="utf-8")
    page, complaints = open_page(browser, path)
    assert page.locator("svg").is_visible() and page.locator(DRAWN).count() == 0
    assert all("Content Security Policy" in one for one in complaints)
    page.close()


def test_it_follows_light_and_dark(show):
    page = show(attention_view(MADE, SOURCE, TARGET), '<meta name="color-scheme" content="light dark">')
    accent = "getComputedStyle(document.querySelector('[data-milliseconds]')).getPropertyValue('--accent')"
    light = page.evaluate(accent)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"{accent} !== '{light}'")
    page.evaluate("document.body.style.color = 'black'")
    page.wait_for_function(f"{accent} === '{light}'")


@pytest.mark.slow
def test_100_tokens_and_96_heads_are_drawn(show):
    made = samples.attentions(6, 16, 100, 100, kinds=("cross",))
    page = show(attention_view(made, samples.pieces(99), samples.pieces(99)))
    for view in ("model", "matrix", "heads"):
        page.locator(f"input[value={view}]").check()
        assert ink(page) > 10_000

"""The attention view in Chromium: every control is used, without errors in the console."""

import json
import re

import attention_samples as samples
import pytest
from browser import COUNT_PIXELS, chromium, open_page

from uwaga.results.attention import Attentions
from uwaga.results.views import attention_view, attention_view_data, view_script

SOURCE = (*samples.pieces(4, "s"), samples.HOSTILE_TOKENS[0], samples.HOSTILE_TOKENS[1])
TARGET = (*samples.pieces(3, "t"), samples.HOSTILE_TOKENS[2], samples.HOSTILE_TOKENS[3])
ATTENTIONS = samples.attentions(3, 4, 7, 6)
DRAWN_VIEW = "[data-milliseconds]"


@pytest.fixture(scope="module")
def browser():
    with chromium() as instance:
        yield instance


@pytest.fixture
def show(browser, tmp_path):
    """Return a function that shows HTML as a page; the console must stay empty."""
    opened = []

    def show_page(body, head="", wait=True, **settings):
        path = tmp_path / f"page{len(opened)}.html"
        path.write_text(f'<!DOCTYPE html><meta charset="utf-8">{head}<body>{body}', encoding="utf-8")
        page, errors = open_page(browser, path, **settings)
        opened.append((page, errors))
        if wait:
            page.wait_for_selector(DRAWN_VIEW)
        return page

    yield show_page
    for page, errors in opened:
        assert errors == []
        page.close()


@pytest.fixture
def page(show):
    return show(attention_view(ATTENTIONS, SOURCE, TARGET))


def status(page) -> str:
    return page.locator("output").inner_text()


def ink(page) -> int:
    return page.locator("canvas").evaluate(COUNT_PIXELS)


def test_hostile_tokens_are_shown_as_text(page):
    assert page.evaluate("window.hacked") is None
    items = page.locator("li").all_inner_texts()
    assert samples.HOSTILE_TOKENS[0] in items and samples.HOSTILE_TOKENS[2] in items
    assert page.locator("img").count() == 0


@pytest.mark.parametrize(
    ("document", "language", "expected"),
    [
        ("pl-PL", None, "warstwa 3"),
        ("pl", "de", "Schicht 3"),
        pytest.param("de", "en", "layer 3", marks=pytest.mark.slow),
        pytest.param("fr", None, "layer 3", marks=pytest.mark.slow),
        pytest.param("", "zh", "第 3 层", marks=pytest.mark.slow),
    ],
)
def test_view_uses_the_language_of_the_option_or_the_document(show, document, language, expected):
    head = f'<script>document.documentElement.lang = "{document}"</script>'
    page = show(attention_view(ATTENTIONS, SOURCE, TARGET, language=language), head)
    assert expected in status(page)


def test_every_attention_kind_view_and_layer_is_drawn(page):
    for kind in ("cross", "encoder", "decoder"):
        page.locator(f"input[value={kind}]").check()
        for view, shown in (("heads", "each head in its own colour"), ("matrix", "mean of all heads")):
            page.locator(f"input[value={view}]").check()
            for layer in ("1", "2", "3"):
                page.locator("select").select_option(label=layer)
                assert ink(page) > 100
                assert f"{kind} attention, layer {layer}, {shown}" in status(page)
        page.locator("input[value=model]").check()
        assert ink(page) > 1000
        assert not page.locator("select").is_visible()


def test_head_view_fills_the_width_and_uses_given_labels(page, browser):
    right = page.locator(".lines ul").nth(1).bounding_box()
    assert right["x"] + right["width"] > 950  # of 1000
    page.evaluate(
        f"""() => {{
          {view_script()}
          const root = document.createElement('div');
          root.innerHTML = '<div data-still></div>';
          document.body.replaceChildren(root);
          const data = {json.dumps(attention_view_data(ATTENTIONS, SOURCE, TARGET))};
          const phrases = {{layer: 'Schicht', 'layer {{layer}}, each head in its own colour': 'S{{layer}}'}};
          attentionView(root, data, phrases);
        }}"""
    )
    page.wait_for_selector(DRAWN_VIEW)
    assert page.get_by_label("Schicht").is_visible() and "cross attention, S3." in status(page)


def test_heads_are_selected_by_buttons(page):
    full_ink = ink(page)
    page.get_by_role("button", name="none of the heads").click()
    assert ink(page) == 0 and "no head chosen" in status(page)
    page.get_by_role("button", name="head 2", exact=True).click()
    assert 0 < ink(page) < full_ink and "layer 3, head 2." in status(page)
    page.get_by_role("button", name="head 4", exact=True).click()
    assert "each head in its own colour" in status(page)
    page.get_by_role("button", name="head 3", exact=True).dblclick()
    assert "layer 3, head 3." in status(page)
    page.get_by_role("button", name="all heads").click()
    assert ink(page) == full_ink
    head = page.get_by_role("button", name="head 1", exact=True)
    head.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+Enter")
    assert "layer 3, head 2." in status(page)
    assert page.get_by_role("button", name="head 2", exact=True).get_attribute("aria-pressed") == "true"
    page.keyboard.press("Space")
    assert "no head chosen" in status(page)


def test_pointing_at_a_token_shows_its_largest_weights(page):
    page.get_by_role("button", name="head 1", exact=True).dblclick()
    page.locator("select").select_option(label="2")
    weights = ATTENTIONS.cross[1, 0]
    full_ink = ink(page)
    page.get_by_role("option", name="t1").hover()
    best = weights[1].argmax()
    names = [*(f"s{i}" for i in range(4)), *samples.HOSTILE_TOKENS[:2], "</s>"]
    assert status(page).startswith(f"“t1” looks most at: {names[best]} {weights[1, best]:.2f}")
    assert ink(page) < full_ink
    page.get_by_role("option", name="s2").hover()
    assert "“s2” is looked at most by" in status(page)
    assert f"{weights[:, 2].max():.2f}" in status(page)
    page.get_by_role("option", name="s2").click()
    page.mouse.move(900, 800)
    assert page.locator("[aria-selected=true]").inner_text() == "s2"
    page.keyboard.press("ArrowDown")
    assert "“s3” is looked at most by" in status(page)
    page.keyboard.press("End")
    assert "“</s>” is looked at most by" in status(page)
    page.keyboard.press("Enter")
    assert page.locator("[aria-selected=true]").inner_text() == "</s>"
    page.keyboard.press("Escape")
    assert page.locator("[aria-selected=true]").count() == 0


def test_matrix_cells_show_their_weights(page):
    page.locator("input[value=matrix]").check()
    canvas = page.locator("canvas")
    assert "Heat map of cross attention, layer 3, mean of all heads" in canvas.get_attribute("aria-label")
    canvas.focus()
    mean = ATTENTIONS.cross[2].mean(axis=0)
    for key, row, column in (
        ("ArrowDown", 0, 0),
        ("ArrowDown", 1, 0),
        ("ArrowRight", 1, 1),
        ("ArrowUp", 0, 1),
        ("ArrowUp", 0, 1),
        ("ArrowLeft", 0, 0),
    ):
        page.keyboard.press(key)
        match = re.fullmatch(r"“t(\d)” looks at “s(\d)”: (.*) \(layer 3, mean of all heads\)", status(page))
        assert match and (int(match[1]), int(match[2])) == (row, column)
        assert float(match[3]) == pytest.approx(mean[row, column], abs=0.01)
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + box["width"] - 10, box["y"] + box["height"] - 10)
    assert status(page).startswith("“</s>” looks at “</s>”")


def test_selecting_a_head_in_the_model_view_opens_it(page):
    page.locator("input[value=model]").check()
    assert "layer 3, head 1" in status(page)
    canvas = page.locator("canvas")
    canvas.focus()
    for key in ("ArrowUp", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert "layer 2, head 4" in status(page)
    page.keyboard.press("Enter")
    assert page.locator("input[value=matrix]").is_checked()
    assert "layer 2, head 4" in status(page)
    page.locator("input[value=model]").check()
    box = page.locator("canvas").bounding_box()
    page.mouse.click(box["x"] + 50, box["y"] + 50)
    assert page.locator("input[value=matrix]").is_checked()
    assert "layer 1, head 1" in status(page)


def test_view_of_a_single_matrix_hides_unneeded_controls(show):
    page = show(attention_view(Attentions(cross=ATTENTIONS.cross[:1, :1]), SOURCE, TARGET))
    assert page.locator("input[value=model]").count() == 0
    assert not page.locator("select").is_visible()
    assert not page.locator("input[value=cross]").is_visible()
    page.locator("input[value=matrix]").check()
    assert ink(page) > 100


def test_views_on_one_page_are_independent(show):
    view = attention_view(ATTENTIONS, SOURCE, TARGET)
    page = show(view + view + attention_view(ATTENTIONS, SOURCE, TARGET))
    page.wait_for_function(f"document.querySelectorAll('{DRAWN_VIEW}').length === 3")
    page.locator("input[value=matrix]").nth(1).check()
    assert [page.locator("input[value=heads]").nth(i).is_checked() for i in range(3)] == [True, False, True]


def test_view_inserted_later_is_drawn(show):
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
        attention_view(ATTENTIONS, SOURCE, TARGET),
    )
    page.wait_for_selector(DRAWN_VIEW)
    assert ink(page) > 100


@pytest.mark.parametrize("removal", ["switched off", "taken out"])
def test_static_heat_map_is_shown_without_scripts(show, removal):
    body = attention_view(ATTENTIONS, SOURCE, TARGET)
    if removal == "taken out":  # as in a notebook that is not trusted
        body = re.sub(r"<script>.*?</script>", "", body, flags=re.DOTALL)
    page = show(body, wait=False, java_script_enabled=removal == "taken out")
    assert page.locator("svg").is_visible()
    assert page.locator("svg path").count() > 0
    assert {"t0", "s3", "</s>"} <= set(page.locator("svg text").all_text_contents())


def test_static_heat_map_is_shown_under_a_content_security_policy(browser, tmp_path):
    path = tmp_path / "page.html"
    policy = '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">'
    path.write_text(policy + attention_view(ATTENTIONS, SOURCE, TARGET), encoding="utf-8")
    page, errors = open_page(browser, path)
    assert page.locator("svg").is_visible() and page.locator(DRAWN_VIEW).count() == 0
    assert all("Content Security Policy" in message for message in errors)
    page.close()


def test_view_colours_follow_the_colour_scheme(show):
    page = show(attention_view(ATTENTIONS, SOURCE, TARGET), '<meta name="color-scheme" content="light dark">')
    accent = "getComputedStyle(document.querySelector('[data-milliseconds]')).getPropertyValue('--accent')"
    light = page.evaluate(accent)
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"{accent} !== '{light}'")
    page.evaluate("document.body.style.color = 'black'")
    page.wait_for_function(f"{accent} === '{light}'")


@pytest.mark.slow
def test_100_tokens_and_96_heads_are_drawn(show):
    attentions = samples.attentions(6, 16, 100, 100, kinds=("cross",))
    page = show(attention_view(attentions, samples.pieces(99), samples.pieces(99)))
    for view in ("model", "matrix", "heads"):
        page.locator(f"input[value={view}]").check()
        assert ink(page) > 10_000

"""The figure of memory lookups of a translation, in Chromium, with a real server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import accessibility_violations
from running_server import running_server
from server_page import START, expect, open_server_page, translate_text, word

from uwaga_memory import Memory, Pair

pytest_plugins = "server_fixtures"

SLEEPING = Pair("A man in a red shirt is sleeping.", "Ein Herr im roten Hemd schlummert.")
TEXT = "A man in a blue shirt is sleeping on a bench."
QUESTION = "Which words were looked up?"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "memories").mkdir()
    with Memory.create(tmp_path / "memories/letters.uwm", "en", "de", "Letters") as memory:
        memory.add([SLEEPING])
    with running_server(tmp_path, memories=str(tmp_path / "memories")) as running:
        yield running.url


def open_figure(page):
    """Translate the text with the memory, and open its figure by keyboard."""
    page.get_by_label("Memory", exact=True).select_option("Letters (1)")
    translate_text(page, TEXT)
    page.locator(".word").last.focus()
    page.get_by_role("button", name=QUESTION).focus()
    page.keyboard.press("Enter")
    figure = page.get_by_role("group", name=QUESTION)
    expect(figure).to_be_visible()
    return figure


def test_lookup_figure_shows_the_nearest_remembered_piece_for_each_piece(page):
    figure = open_figure(page)
    rows = figure.locator(".pieces")
    pieces = rows.nth(0).locator(".piece")
    assert rows.nth(0).inner_text().replace("\n", " ").startswith("Ein Herr im blauen Hemd sch")
    expect(rows).to_have_count(2)
    expect(figure.locator(".scroll p")).to_have_text(f"66%: {SLEEPING.source}")
    weights = [float(path.get_attribute("stroke-opacity")) for path in figure.locator("path").all()]
    assert 0 < len(weights) < pieces.count() and all(0 < weight <= 0.99 for weight in weights)
    lengths = figure.locator("path").evaluate_all("(paths) => paths.map((path) => path.getTotalLength())")
    assert min(lengths) > 30
    pieces.filter(has_text="Herr").hover()
    expect(figure.locator(".details")).to_contain_text("Herr: the nearest remembered piece is Herr,")
    expect(figure.locator(".marked")).to_have_count(3)
    pieces.filter(has_text="blauen").hover()
    expect(figure.locator(".details")).to_contain_text("weight λ 0.00")
    expect(figure.locator(".marked")).to_have_count(1)
    word(page, "Herr").hover()
    expect(figure).to_be_visible()
    page.get_by_role("button", name=QUESTION).click()
    expect(figure).not_to_be_visible()


def test_pieces_of_the_lookup_figure_are_navigated_by_keyboard(page):
    figure = open_figure(page)
    page.keyboard.press("Tab")
    expect(figure.locator(".details")).to_contain_text("Ein: the nearest remembered piece is Ein,")
    page.keyboard.press("ArrowRight")
    herr = figure.get_by_role("img").nth(1)
    expect(herr).to_be_focused()
    expect(figure.locator(".details")).to_have_text(herr.get_attribute("aria-label"))
    page.keyboard.press("End")
    expect(figure.locator(".details")).to_contain_text("</s>: the nearest remembered piece is </s>")
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("button", name=QUESTION)).to_be_focused()


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.slow), "dark"])
def test_lookup_figure_scrolls_horizontally_on_a_phone(browser, server, scheme):
    size = {"width": 390, "height": 800}
    with open_server_page(browser, server, START, viewport=size, color_scheme=scheme) as page:
        figure = open_figure(page)
        scroll = figure.locator(".scroll")
        assert scroll.evaluate("(element) => element.scrollWidth > element.clientWidth")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.keyboard.press("Tab")
        page.keyboard.press("End")
        assert scroll.evaluate("(element) => element.scrollLeft > 0")
        assert accessibility_violations(page, "'.origin'") == []


def test_page_explains_differing_translations_and_empty_lookups(page):
    def answer(route, **changes) -> None:
        route.fulfill(json=route.fetch().json() | changes)

    page.route("**/look-up", lambda route: answer(route, text="Ein Herr schlummert."))
    open_figure(page)
    expect(page.locator(".origin [role=status]")).to_contain_text("glossary and beam size: Ein Herr schl")
    page.unroute("**/look-up")
    page.route("**/look-up", lambda route: answer(route, pairs=[], pieces=[]))
    button = page.get_by_role("button", name=QUESTION)
    button.click()
    button.click()
    expect(page.locator(".origin [role=status]")).to_have_text("No remembered sentence was looked up.")
    expect(page.locator(".look-up")).to_have_count(0)


def test_lookup_errors_are_shown_next_to_the_button(browser, server):
    with open_server_page(browser, server, START, expected=("Failed to load",)) as page:
        page.route("**/look-up", lambda route: route.abort("connectionrefused"))
        page.get_by_label("Memory", exact=True).select_option("Letters (1)")
        translate_text(page, TEXT)
        page.locator(".word").last.focus()
        page.get_by_role("button", name=QUESTION).click()
        expect(page.locator(".origin [role=status]")).to_contain_text("cannot be reached")
        translate_text(page, "The weather is nice today.")
        expect(page.get_by_role("button", name=QUESTION)).to_have_count(0)

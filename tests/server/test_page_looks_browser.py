"""What the page is to different readers: languages, colours, sizes, paper, assistive technology."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from page_visit import START, expect, shows, translated, visit, word
from running_server import running_server

pytest_plugins = "server_fixtures"

AXE = Path(__file__).parents[2] / "page/node_modules/axe-core/axe.min.js"
SENTENCE = "I want to buy a small red car tomorrow."
FIRST_LOAD = 150_000
"""Bytes of all answers of the first load together, not compressed."""
TABS = ("tabText", "tabInside", "tabDocument", "tabGlossary", "tabHistory")
PHONE = {"viewport": {"width": 360, "height": 700}, "has_touch": True, "is_mobile": True}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running_server(tmp_path_factory.mktemp("server")) as running:
        yield running.url


@pytest.mark.parametrize(
    ("locale", "code", "hint"),
    [
        ("en-US", "en", "Type or paste text"),
        ("pl-PL", "pl", "Wpisz lub wklej tekst"),
        ("zh-TW", "zh", "输入或粘贴文本"),
        ("de-AT", "de", "Text eingeben oder einfügen"),
        ("es-MX", "es", "Escriba o pegue un texto"),
        ("fr-FR", "en", "Type or paste text"),
    ],
)
def test_it_speaks_the_browsers_language(browser, server, locale, code, hint):
    with visit(browser, server, START, locale=locale) as page:
        page.wait_for_selector("#source")
        expect(page.locator("#source")).to_have_attribute("placeholder", hint)
        expect(page.locator("html")).to_have_attribute("lang", code)


@pytest.mark.slow
def test_another_language_is_chosen_and_kept_and_the_text_stays(browser, server):
    with visit(browser, server, START) as page:
        page.wait_for_selector("#source")
        made = translated(page, SENTENCE)
        page.locator(".settings summary").click()
        page.locator("#page-language").select_option("de")
        expect(page.get_by_role("tab", name="Verlauf")).to_be_visible()
        expect(page.locator("#from option:checked")).to_have_text("Englisch")
        expect(page).to_have_title("uwaga: Übersetzung")
        shows(page, made)
        expect(page.locator(".word").first).to_have_attribute("title", re.compile("^Wahrscheinlichkeit"))
        page.locator("#tabInside").click()
        expect(page.locator(".inside output")).to_have_text(re.compile("Schicht 2, Mittel aller Köpfe"))
        page.locator("#page-language").select_option("zh")
        page.reload()
        page.wait_for_selector("#source")
        expect(page.get_by_role("tab", name="历史")).to_be_visible()


def test_colours_follow_the_system_or_the_reader(browser, server):
    with visit(browser, server, START, color_scheme="dark") as page:
        page.wait_for_selector("#source")
        back = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(back)
        page.emulate_media(color_scheme="light")
        light = page.evaluate(back)
        assert light != dark
        page.locator(".settings summary").click()
        page.locator("#theme").select_option("dark")
        assert page.evaluate(back) == dark
        page.reload()
        page.wait_for_selector("#source")
        assert page.evaluate(back) == dark


@pytest.mark.parametrize(
    "locale",
    ["de-DE", *(pytest.param(one, marks=pytest.mark.slow) for one in ("en-GB", "pl-PL", "zh-CN", "es-ES"))],
)
def test_tabs_settings_and_menus_fit_a_phone(browser, server, locale):
    phone = {"viewport": {"width": 390, "height": 700}, "has_touch": True, "is_mobile": True}
    with visit(browser, server, START, locale=locale, **phone) as page:
        page.wait_for_selector("#source")
        box = {name: page.locator(f"#{name}").bounding_box() for name in TABS}
        assert all(one["x"] >= 0 and one["x"] + one["width"] <= 390 for one in box.values())
        assert len({one["y"] for one in box.values()}) == 1
        translated(page, f"{SENTENCE}\n" * 4 + SENTENCE)
        unlike = "(word) => getComputedStyle(word).backgroundColor !== 'rgba(0, 0, 0, 0)'"
        assert word(page, "Auto").evaluate(unlike)  # a word can be chosen, and looks so
        expect(page.locator(".word-hint")).to_be_visible()
        word(page, "Auto", 4).click()
        page.wait_for_selector(".menu .choice")
        menu = page.locator(".menu").bounding_box()
        assert menu["x"] >= 0 and menu["x"] + menu["width"] <= 390 and menu["y"] + menu["height"] <= 701
        page.keyboard.press("Escape")
        page.locator(".settings summary").click()
        fields = page.locator(".fields").bounding_box()
        assert fields["y"] + fields["height"] <= page.locator("#tabText").bounding_box()["y"]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(PHONE, id="phone", marks=pytest.mark.slow),
        pytest.param({"viewport": {"width": 320, "height": 600}}, id="320"),
    ],
)
def test_nothing_is_wider_than_a_phone(browser, server, settings):
    with visit(browser, server, START, **settings) as page:
        page.wait_for_selector("#source")
        translated(page, f"{SENTENCE}\n{'Donaudampfschifffahrt' * 9}")
        word(page, "Auto").click()
        page.wait_for_selector(".menu .choice")
        wide = "document.documentElement.scrollWidth > innerWidth"
        assert not page.evaluate(wide)
        page.keyboard.press("Escape")
        page.locator(".settings summary").click()
        for name in TABS:
            page.locator(f"#{name}").click()
            assert not page.evaluate(wide), name
        top, below = (page.locator(".pane").nth(at).evaluate("(pane) => pane.offsetTop") for at in (0, 1))
        assert below >= top


def test_paper_holds_the_texts_and_nothing_else(browser, server):
    with visit(browser, server, START, color_scheme="dark") as page:
        page.wait_for_selector("#source")
        translated(page, SENTENCE)
        page.emulate_media(media="print")
        for away in ("header", "[role=tablist]", ".bar", ".tools", ".others", ".below"):
            expect(page.locator(away).first).not_to_be_visible()
        for kept in ("#source", ".output"):
            expect(page.locator(kept)).to_be_visible()
        assert page.evaluate("getComputedStyle(document.body).colorScheme") == "light"


def test_nothing_moves_for_who_does_not_want_it(browser, server):
    moves = "getComputedStyle(document.querySelector('.panes'), '::after').animationName"
    for wish, name in (("no-preference", "go"), ("reduce", "none")):
        with visit(browser, server, START, reduced_motion=wish) as page:
            page.wait_for_selector("#source")
            page.evaluate("document.querySelector('.panes').parentElement.classList.add('working')")
            assert page.evaluate(moves) == name


def test_without_script_it_says_so(browser, server):
    with visit(browser, server, java_script_enabled=False) as page:
        assert "needs JavaScript" in page.locator("noscript").inner_text()


@pytest.mark.slow
@pytest.mark.parametrize("look", ["light", "dark", "phone"])
def test_axe_finds_nothing_serious(browser, server, look):
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm --prefix page ci")
    settings = PHONE if look == "phone" else {"color_scheme": look}
    with visit(browser, server, START, bypass_csp=True, **settings) as page:
        page.wait_for_selector("#source")
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = []

        def check(where: str) -> None:
            for one in page.evaluate("axe.run(document)")["violations"]:
                found.append((where, one["impact"], one["id"], [node["html"][:120] for node in one["nodes"]]))

        check("empty")
        translated(page, f"{SENTENCE}\nThe zeitgeist of jazz smells of velvet thunder.")
        page.wait_for_function("() => localStorage.getItem('uwaga history')")
        check("translated")
        word(page, "Auto").click()
        page.wait_for_selector(".menu .choice")
        check("menu")
        page.keyboard.press("Escape")
        page.locator(".settings summary").click()
        for name in TABS:
            page.locator(f"#{name}").click()
            if name == "tabInside":
                page.wait_for_selector("[data-milliseconds]")
            check(name)
        assert [one for one in found if one[1] in ("serious", "critical")] == []
        assert len(found) < 3, found


def test_the_first_load_is_small(browser, server):
    loaded = []
    with visit(browser, server, START) as page:
        page.on("requestfinished", lambda request: loaded.append(request.url))
        page.reload()
        page.wait_for_selector("#source")
        page.wait_for_load_state("networkidle")
    sizes = [len(httpx.get(url, headers={"accept-encoding": "identity"}).content) for url in loaded]
    assert len(sizes) >= 4 and sum(sizes) <= FIRST_LOAD


def test_first_words_come_soon(browser, server):
    """A sanity bound, since other things run beside tests; ``page/measure.py`` measures."""
    with visit(browser, server, START) as page:
        page.wait_for_selector("#source")
        translated(page, "Warm up.")
        page.evaluate(
            """() => {
              const box = document.querySelector('.output');
              new MutationObserver(() => {
                const line = box.querySelector('.line');
                if (line && line.matches('.rough, .done') && !window.seen) window.seen = performance.now();
              }).observe(box, {childList: true, subtree: true});
              document.querySelector('#source').addEventListener('input', () => {
                window.typed = performance.now();
                window.seen = 0;
              });
            }"""
        )
        page.locator("#source").fill(SENTENCE)
        page.wait_for_function("() => window.seen > 0")
        assert 0 < page.evaluate("window.seen - window.typed") < 3000

"""Presentation of the page: languages, colours, screen sizes, print, assistive technology."""

import re

import httpx
import pytest
from server_page import START, expect, open_server_page, translate_text, wait_for_translation

pytest_plugins = "server_fixtures"

SENTENCE = "I want to buy a small red car tomorrow."
MAX_FIRST_LOAD_BYTES = 150_000
"""Maximum total size in bytes of the responses of the first load, uncompressed."""


@pytest.fixture(scope="module")
def server(shared_server):
    return shared_server.url


@pytest.mark.parametrize(
    ("locale", "code", "hint"),
    [
        pytest.param("en-US", "en", "Type or paste text", marks=pytest.mark.slow),
        pytest.param("pl-PL", "pl", "Wpisz lub wklej tekst", marks=pytest.mark.slow),
        ("zh-TW", "zh", "输入或粘贴文本"),
        pytest.param("de-AT", "de", "Text eingeben oder einfügen", marks=pytest.mark.slow),
        pytest.param("es-MX", "es", "Escribe o pega un texto", marks=pytest.mark.slow),
        ("fr-FR", "en", "Type or paste text"),
    ],
)
def test_page_uses_the_language_of_the_browser(browser, server, locale, code, hint):
    with open_server_page(browser, server, START, locale=locale) as page:
        expect(page.locator("#source")).to_have_attribute("placeholder", hint)
        expect(page.locator("html")).to_have_attribute("lang", code)


@pytest.mark.slow
def test_language_setting_persists_and_changing_it_preserves_the_text(page):
    translation = translate_text(page, SENTENCE)
    page.locator("header button").click()
    page.locator("#page-language").select_option("de")
    expect(page.get_by_role("tab", name="Verlauf")).to_be_visible()
    expect(page.locator("#from option:checked")).to_have_text("Englisch")
    expect(page).to_have_title("uwaga: Übersetzung")
    wait_for_translation(page, translation)
    title = re.compile("^Mittlere Wahrscheinlichkeit")
    expect(page.locator(".word").first).to_have_attribute("title", title)
    page.locator("#tabInside").click()
    expect(page.locator(".inside output")).to_have_text(re.compile("Schicht 2, jeder Kopf"))
    page.locator("header button").click()
    page.locator("#page-language").select_option("zh")
    page.reload()
    page.wait_for_selector("#source")
    expect(page.get_by_role("tab", name="历史")).to_be_visible()


def test_page_is_in_english_and_has_its_theme_until_the_messages_are_loaded(browser, server):
    held = []
    with open_server_page(browser, server, START, locale="pl-PL") as page:
        page.locator("header button").click()
        page.locator("#theme").select_option("dark")
        page.route("**/messages/page/pl.js", lambda route: held.append(route))
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        expect(page.locator("#source")).to_have_count(0)
        expect(page.locator("#source")).to_have_attribute("placeholder", "Type or paste text")
        page.locator("#source").fill(SENTENCE)
        held[0].continue_()
        expect(page.locator("#source")).to_have_attribute("placeholder", "Wpisz lub wklej tekst")
        expect(page.locator("html")).to_have_attribute("lang", "pl")
        expect(page.locator("#page-language")).to_have_value("pl")
        expect(page.locator("#from option:checked")).to_have_text("angielski")
        expect(page.locator("#source")).to_have_value(SENTENCE)


def test_colour_scheme_follows_the_system_or_the_setting(browser, server):
    with open_server_page(browser, server, START, color_scheme="dark") as page:
        background = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(background)
        page.emulate_media(color_scheme="light")
        light = page.evaluate(background)
        assert light != dark
        page.locator("header button").click()
        page.locator("#theme").select_option("dark")
        assert page.evaluate(background) == dark
        page.reload()
        page.wait_for_selector("#source")
        assert page.evaluate(background) == dark


def test_printed_page_contains_only_the_source_and_the_translation(browser, server):
    with open_server_page(browser, server, START, color_scheme="dark") as page:
        translate_text(page, SENTENCE)
        page.emulate_media(media="print")
        for selector in ("header", "[role=tablist]", ".bar", ".tools", ".columns"):
            expect(page.locator(selector).first).not_to_be_visible()
        for selector in ("#source", ".output"):
            expect(page.locator(selector)).to_be_visible()
        assert page.evaluate("getComputedStyle(document.body).colorScheme") == "light"


@pytest.mark.slow
def test_reduced_motion_setting_disables_animation(browser, server):
    animation = "getComputedStyle(document.querySelector('.panes'), '::after').animationName"
    for preference, name in (("no-preference", "go"), ("reduce", "none")):
        with open_server_page(browser, server, START, reduced_motion=preference) as page:
            page.evaluate("document.querySelector('.panes').parentElement.classList.add('working')")
            assert page.evaluate(animation) == name


def test_page_without_javascript_shows_a_message(browser, server):
    with open_server_page(browser, server, ready="body", java_script_enabled=False) as page:
        assert "needs JavaScript" in page.locator("noscript").inner_text()


def test_first_load_in_a_browser_is_within_the_size_limit(browser, server):
    loaded = []
    with open_server_page(browser, server, START) as page:
        page.on("requestfinished", lambda request: loaded.append(request.url))
        page.reload()
        page.wait_for_selector("#source")
        page.wait_for_load_state("networkidle")
    sizes = [len(httpx.get(url, headers={"accept-encoding": "identity"}).content) for url in loaded]
    assert len(sizes) >= 4 and sum(sizes) <= MAX_FIRST_LOAD_BYTES


@pytest.mark.slow
def test_first_words_appear_within_the_time_limit(browser, server):
    """The limit is generous, since the machine may be busy; ``page/measure.py`` measures the time."""
    with open_server_page(browser, server, START) as page:
        translate_text(page, "Warm up.")
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

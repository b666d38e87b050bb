"""The built documentation: small self-contained pages that work without a network or JavaScript."""

import gzip
import io
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from browser import accessibility_violations, chromium
from browser import serve_folder as served_files

ROOT = Path(__file__).resolve().parents[2]
AXE_CONTEXT = "{include: ['article'], exclude: ['.md-typeset__scrollwrap', '.md-code__nav']}"
"""The elements that axe checks: all except the theme's wrappers of wide tables and its copy buttons."""
COLOUR_RULES = ("color-contrast", "link-in-text-block")
"""The rules of axe that depend on the colour scheme."""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the folder of the built documentation; CI reuses the folder that `make docs` has built."""
    if "UWAGA_SITE" in os.environ:
        return Path(os.environ["UWAGA_SITE"])
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    subprocess.run(command, check=True, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    return folder


@pytest.fixture(scope="module")
def site_url(site, tmp_path_factory):
    """Serve the documentation from its extracted zip archive with Python's file server."""
    archive, folder = tmp_path_factory.mktemp("zip") / "course.zip", tmp_path_factory.mktemp("opened")
    with zipfile.ZipFile(archive, "w") as file:
        for path in site.rglob("*"):
            file.write(path, path.relative_to(site))
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder)
    with served_files(folder) as url:
        yield url


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


def test_site_is_small_and_self_contained(site):
    files = [path for path in site.rglob("*") if path.is_file() and path.parent != site / "lab/python"]
    assert sum(path.stat().st_size for path in files) < 33e6  # without the Python that programs load
    assert [path for path in files if path.suffix in {".py", ".pyc", ".map"}] == []
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        external = re.findall(r'<(?:script|img|iframe|source)[^>]*\ssrc="(https?:|//)', text)
        external += re.findall(r'<link[^>]*rel="(?:stylesheet|preconnect|icon)"[^>]*href="(https?:|//)', text)
        assert external == [], page
    for page in (site / "learn").glob("*/index.html"):
        text = page.read_text(encoding="utf-8")
        assert len(gzip.compress(text.encode())) < 60_000
        assert not re.search(r"<img(?![^>]*\balt=\"[^\"]+\")", text)
        if re.match("(?!00)[0-9]", page.parent.name):  # a chapter with equations
            assert "<math " in text
        assert "$$" not in text


def test_visited_laboratory_page_works_offline(browser, site_url):
    context = browser.new_context()
    allowed = (site_url, "data:", "blob:")
    requested: list[str] = []
    context.on("request", lambda request: requested.append(request.url))
    page = context.new_page()
    page.goto(f"{site_url}/learn/laboratory/", wait_until="networkidle")
    page.evaluate("navigator.serviceWorker.ready")
    page.reload(wait_until="networkidle")
    page.click(".lab-start")
    page.wait_for_function("document.querySelector('uwaga-lab').dataset.milliseconds")
    context.set_offline(True)
    page.reload(wait_until="load")  # the address holds the state, so the laboratory starts
    page.wait_for_function("document.querySelector('uwaga-lab').dataset.milliseconds")
    assert "tokens, log-probability" in page.locator(".lab-status").inner_text()
    assert [url for url in requested if not url.startswith(allowed)] == []
    context.close()


def test_chapter_is_readable_without_javascript(browser, site_url):
    context = browser.new_context(java_script_enabled=False, viewport={"width": 320, "height": 700})
    page = context.new_page()
    page.goto(f"{site_url}/learn/03-looking-back/")
    text = page.locator("article").inner_text()
    calculator = "Without JavaScript this calculator"
    for part in ("Predict first", "The context is", calculator, "Exercise 3.4", "Recap"):
        assert part in text
    page.locator("#exercise-3\\.1 summary", has_text="Solution").click()
    assert "The largest weight is" in page.locator("#exercise-3\\.1").inner_text()
    assert page.locator("uwaga-lab img").count() == 1
    context.close()


LANGUAGES = ("es", "pl", "zh")
TITLES = {
    "en": ["Home", "Learn", "Use", "Reference", "Inside"],
    "es": ["Inicio", "Aprender", "Usar", "Referencia", "Por dentro"],
    "pl": ["Strona główna", "Nauka", "Użycie", "Dokumentacja API", "Od środka"],
    "zh": ["首页", "学习", "使用", "参考", "内部"],
}
SEARCHES = {
    "": ("several heads", "learn/09-heads/", "search_index.json"),
    "learn/es/": ("cabeza", "learn/es/09-heads/", "search_index.es.json"),
    "learn/pl/": ("głowy", "learn/pl/09-heads/", "search_index.pl.json"),
    "learn/zh/": ("多头注意力", "learn/zh/09-heads/", "search_index.zh.json"),
}
"""Searches: the page with the search field, the query, the page found, and the index that is loaded."""


PAGES = [
    *(path.stem for path in sorted((ROOT / "docs/learn").glob("*.md")) if path.stem != "index"),
    *(
        f"{language}/{name}"
        for language in LANGUAGES
        for name in ("04-other-ways", "08-positions", "16-family", "compared")
    ),
]
"""All English pages of the course, and some pages in each other language."""


@pytest.fixture(scope="module", params=PAGES)
def course_page(request, browser, site_url):
    """Open a page; pytest runs all tests of this page before it opens the next."""
    page = browser.new_page()
    page.goto(f"{site_url}/learn/{request.param}/")
    yield page
    page.close()


@pytest.mark.parametrize("path", SEARCHES)
def test_site_search_finds_pages_of_the_selected_language(browser, site_url, path):
    words, target, index = SEARCHES[path]
    page = browser.new_page()
    loaded = []
    page.on("request", lambda request: loaded.append(request.url.rpartition("/")[2]))
    page.goto(f"{site_url}/{path}")
    page.fill(".md-search__input", words)
    page.wait_for_selector(".md-search-result__item a")
    links = page.locator(".md-search-result__item > a").evaluate_all("all => all.map((a) => a.pathname)")
    assert f"/{target}" in [link.split("#")[0] for link in links[:3]]
    assert [name for name in loaded if name.startswith("search_index")] == [index]
    page.close()


def test_colour_scheme_switch_recolours_figures(browser, site_url):
    pillow = pytest.importorskip("PIL.Image")
    page = browser.new_page(color_scheme="light")
    page.goto(f"{site_url}/learn/03-looking-back/")
    figure = page.locator("article > p .figure img").first
    figure.scroll_into_view_if_needed()
    light = pillow.open(io.BytesIO(figure.screenshot())).convert("L")
    page.click("form[data-md-component=palette] label:visible")
    page.wait_for_timeout(300)
    dark = pillow.open(io.BytesIO(figure.screenshot())).convert("L")
    assert light.histogram().index(max(light.histogram())) > 200  # of the ground
    assert dark.histogram().index(max(dark.histogram())) < 60
    assert light.getextrema()[0] < 80 and dark.getextrema()[1] > 180  # of the letters
    page.close()


def test_home_page_starts_with_the_laboratory_and_three_links(browser, site_url):
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(site_url)
    assert "6 MB" in page.locator(".lab-start").inner_text()
    assert page.locator(".lab-start").bounding_box()["y"] < 800
    titles = page.locator(".doors h2 a").all_inner_texts()
    assert [re.sub(r"\W", "", title) for title in titles if len(title) > 1] == ["Learn", "Translate", "Train"]
    is_whole = "(all) => all.every((code) => code.scrollWidth <= code.clientWidth)"
    assert page.locator("pre > code").evaluate_all(is_whole)
    page.click(".lab-start")
    page.wait_for_function("document.querySelector('uwaga-lab').dataset.milliseconds")
    assert "Ich möchte ein Auto kaufen." in page.locator("uwaga-lab textarea").last.input_value()
    page.close()


def test_mathematics_font_is_loaded_only_for_equations(browser, site_url):
    page = browser.new_page()
    fonts = []
    page.on("request", lambda request: fonts.append(request.url) if request.url.endswith(".woff2") else None)
    page.goto(f"{site_url}/guides/install/", wait_until="networkidle")
    assert fonts == []
    page.goto(f"{site_url}/learn/05-scale/", wait_until="networkidle")
    assert [url.rpartition("/")[2] for url in fonts] == ["math.woff2"]
    page.close()


def test_pages_declare_their_language_and_link_to_translations(site):
    for language in LANGUAGES:
        pages = {path.parent.name for path in (site / "learn" / language).glob("*/index.html")}
        english = {path.parent.name for path in (site / "learn").glob("*/index.html")}
        assert pages == english - {"glossary", *LANGUAGES}
        for name in pages:
            text = (site / "learn" / language / name / "index.html").read_text(encoding="utf-8")
            assert f'<html lang="{language}"' in text
            tabs = re.findall(r'class="md-tabs__link">\s*([^<]*?)\s*</a>', text)
            assert tabs == TITLES[language]
            other_languages = {"en", *LANGUAGES} - {language}
            assert {
                other_language for other_language in other_languages if f'hreflang="{other_language}"' in text
            } == other_languages, (language, name)
    english = (site / "learn/03-looking-back/index.html").read_text(encoding="utf-8")
    assert re.findall(r'class="md-tabs__link">\s*([^<]*?)\s*</a>', english) == TITLES["en"]
    assert '<html lang="en"' in english and all(
        f'hreflang="{language_code}"' in english for language_code in LANGUAGES
    )


def check_accessibility(page, **rules):
    # A heading that is an equation has a text, which axe does not see.
    violations = accessibility_violations(page, AXE_CONTEXT, **rules)
    assert [
        (rule, html) for rule, html in violations if rule != "empty-table-header" or "<math" not in html
    ] == []


def test_page_is_accessible(course_page):
    check_accessibility(course_page, excluded=COLOUR_RULES)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_colours_have_sufficient_contrast(browser, site_url, name, scheme):
    page = browser.new_page(color_scheme=scheme)
    page.goto(f"{site_url}/learn/{name}/")
    check_accessibility(page, rules=COLOUR_RULES)
    page.close()


def test_page_fits_on_a_phone_screen(course_page):
    course_page.set_viewport_size({"width": 320, "height": 700})
    assert course_page.evaluate("document.documentElement.scrollWidth") <= 320


LAYOUT_FAULTS = """() => {
  for (const fold of document.querySelectorAll('details')) fold.open = true;
  const widgets = 'uwaga-lab, uwaga-toy, uwaga-frames, uwaga-train, section.exercise';
  const all = (selector) => [...document.querySelectorAll(`article ${selector}`)].filter(
    (element) => !element.closest(widgets) && element.getClientRects().length > 0,
  );
  const leaves = (element) => element.getBoundingClientRect().right > innerWidth;
  const scrolls = (element) => element.scrollWidth > element.clientWidth + 1;
  const parts = (table) => [table.parentElement, ...table.querySelectorAll('td, th')];
  const isCut = (table) => leaves(table) || parts(table).some(scrolls);
  const least = (image) => parseFloat(getComputedStyle(image).getPropertyValue('--least'));
  const text = (element) => element.textContent.slice(0, 80);
  return {
    equations: all('math').filter(leaves).map(text),
    scrolling: all('.equation').filter(scrolls).map(text),
    tables: all('table:not([class])').filter(isCut).map(text),
    figures: all('.figure img').filter((image) => image.width + 1 < least(image)).map((image) => image.src),
    bullets: all('ul > li').filter((item) => getComputedStyle(item).overflowX !== 'visible').map(text),
  };
}"""
"""Script that returns clipped or scrolling elements, too small figures, and list items without bullet."""


def test_equations_tables_and_figures_are_readable_on_a_phone(course_page):
    course_page.set_viewport_size({"width": 390, "height": 800})
    course_page.evaluate("document.fonts.ready")
    assert not any(course_page.evaluate(LAYOUT_FAULTS).values())

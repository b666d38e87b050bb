"""The built documentation: self-contained small pages, which work without a network or JavaScript."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from browser import chromium
from browser import serve_folder as served_files

ROOT = Path(__file__).resolve().parents[2]
AXE_CONTEXT = "{include: ['article'], exclude: ['.md-typeset__scrollwrap', '.md-code__nav']}"
"""The elements that axe checks: without the theme's wrappers of wide tables and copy buttons."""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the folder of the documentation; in CI, that which `make docs` has built."""
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


def test_site_is_small_and_self_contained(site):
    files = [path for path in site.rglob("*") if path.is_file() and path.parent != site / "lab/python"]
    assert sum(path.stat().st_size for path in files) < 40e6  # without the Python that programs load
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


def test_visited_pages_work_offline(site_url):
    with chromium() as browser:
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


def test_chapter_is_readable_without_javascript(site_url):
    with chromium() as browser:
        context = browser.new_context(java_script_enabled=False, viewport={"width": 320, "height": 700})
        page = context.new_page()
        page.goto(f"{site_url}/learn/03-looking-back/")
        text = page.locator("article").inner_text()
        calculator = "Without a script this calculator"
        for part in ("Predict first", "The context is", calculator, "Exercise 3.4", "Recap"):
            assert part in text
        page.locator("#exercise-3\\.1 summary", has_text="Solution").click()
        assert "The largest weight is" in page.locator("#exercise-3\\.1").inner_text()
        assert page.locator("uwaga-lab img").count() == 1
        context.close()


LANGUAGES = ("es", "pl", "zh")


def test_pages_declare_and_link_languages(site):
    for language in LANGUAGES:
        pages = {path.parent.name for path in (site / "learn" / language).glob("*/index.html")}
        assert len(pages) == 18  # 17 chapters and the laboratory
        for name in pages:
            text = (site / "learn" / language / name / "index.html").read_text(encoding="utf-8")
            assert f'<html lang="{language}"' in text
            other_languages = {"en", *LANGUAGES} - {language}
            assert {
                other_language for other_language in other_languages if f'hreflang="{other_language}"' in text
            } == other_languages, (language, name)
    english = (site / "learn/03-looking-back/index.html").read_text(encoding="utf-8")
    assert '<html lang="en"' in english and all(
        f'hreflang="{language_code}"' in english for language_code in LANGUAGES
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible_and_fit_a_phone(site_url, site, scheme):
    """Check all English pages, and a chapter of each language; none is wider than a small telephone."""
    axe = ROOT / "page/node_modules/axe-core/axe.min.js"
    if not axe.exists():
        pytest.skip("axe-core is not installed: npm --prefix page ci")
    english = [folder.name for folder in sorted((site / "learn").glob("*/")) if folder.name not in LANGUAGES]
    pages = [*english, *(f"{language}/03-looking-back" for language in LANGUAGES)]
    with chromium() as browser:
        page = browser.new_page(color_scheme=scheme)
        for name in pages:
            page.goto(f"{site_url}/learn/{name}/")
            page.add_script_tag(content=axe.read_text(encoding="utf-8"))
            violations = page.evaluate(f"axe.run({AXE_CONTEXT})")["violations"]
            # A heading that is an equation has a text, which axe does not see.
            messages = [
                (violation["id"], node["html"][:160])
                for violation in violations
                for node in violation["nodes"]
                if violation["id"] != "empty-table-header" or "<math" not in node["html"]
            ]
            assert messages == [], name
        page.set_viewport_size({"width": 320, "height": 700})
        for name in pages:
            page.goto(f"{site_url}/learn/{name}/")
            assert page.evaluate("document.documentElement.scrollWidth") <= 320, name
        page.close()

"""A visit to the page of a running server, in Chromium; the page must not complain, nor ask anybody else."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import waiting

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
"""Assertions that wait until they hold: a page shows what it was told only after a moment."""
expect.set_options(timeout=15_000)
BUNDLED = Path(__file__).parents[2] / "src/uwaga/bundled"
START = "#source=en&target=de"
"""The fragment of the bundled model's languages."""
DONE = ".output:not([aria-busy=true]) .line.done"


@contextmanager
def visit(browser, url: str, fragment: str = "", expected: tuple[str, ...] = (), **settings) -> Iterator:
    """The page in a browser profile of its own.

    Args:
        browser: from :func:`browser.chromium`.
        url: of the server.
        fragment: of the address.
        expected: parts of complaints that the test wants.
        **settings: of the browser's context.
    """
    settings = {"locale": "en-GB", "viewport": {"width": 1100, "height": 800}} | settings
    context = browser.new_context(**settings)
    context.set_default_timeout(15_000)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda one: complaints.append(f"{one.type}: {one.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda one: None if one.url.startswith((url, "blob:")) else complaints.append(one.url))
    try:
        page.goto(f"{url}/{fragment}")
        yield page
        unwanted = [one for one in complaints if not any(part in one for part in expected)]
        assert not unwanted, "\n".join(unwanted)
    finally:
        context.close()


def translated(page, text: str) -> str:
    """Put in a text as if pasted; its translation once it is there in full."""
    page.locator("#source").fill(text)
    page.wait_for_function(
        """([done, text]) => {
          const lines = document.querySelectorAll('.output .line');
          return document.querySelector('#source').value === text && lines.length === text.split('\\n').length
            && document.querySelector('.output').getAttribute('aria-busy') === 'false'
            && [...lines].every((line) => line.matches('.done, .blank'));
        }""",
        arg=[DONE, text],
    )
    return output(page)


LINES = "[...document.querySelector('.output').children].map((line) => line.textContent).join('\\n')"


def output(page) -> str:
    """The translation, line by line."""
    return page.evaluate(LINES)


def shows(page, text: str) -> None:
    """Wait until this is the translation."""
    page.wait_for_function(f"(text) => {LINES} === text", arg=text)


def word(page, text: str, at: int = 0):
    """A word of the translation."""
    return page.locator(".word", has_text=text).nth(at)


def eventually(page, holds) -> None:
    """Let the browser go on until this holds."""
    waiting.eventually(holds, 15, lambda seconds: page.wait_for_timeout(1000 * seconds))


def marked(page):
    """The parts of the source that are marked."""
    return page.locator(".mirror mark")


def other_way(folder: Path, source: str, target: str) -> Path:
    """The bundled model under the name of other languages: what it says is nonsense, but it says it."""
    made = folder / f"{source}-{target}"
    shutil.copytree(BUNDLED, made)
    config = json.loads((made / "config.json").read_text(encoding="utf-8"))
    config["languages"] = [source, target]
    (made / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return made

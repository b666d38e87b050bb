"""The page of a running server in Chromium, which must not log errors or send requests elsewhere."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import waiting

expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
"""Assertions that wait until they hold."""
expect.set_options(timeout=15_000)
BUNDLED = Path(__file__).parents[2] / "src/uwaga/bundled"
START = "#source=en&target=de"
"""Fragment of the page's address that selects the languages of the bundled model."""
SET_LANGUAGE = """(code) => {
  const select = document.querySelector('#page-language');
  select.value = code;
  select.dispatchEvent(new Event('change'));
}"""
"""Function that selects a language of the page by its code."""
FINISHED_LINES = ".output:not([aria-busy=true]) .line.done"


@contextmanager
def open_server_page(
    browser,
    url: str,
    fragment: str = "",
    expected: tuple[str, ...] = (),
    ready: str = "#source",
    **settings,
) -> Iterator:
    """Open the page in a new browser profile, and wait until it is ready.

    Args:
        browser: from :func:`browser.chromium`.
        url: of the server.
        fragment: of the address.
        expected: parts of messages that may be logged.
        ready: selector of the element to wait for.
        **settings: of the browser's context.
    """
    settings = {"locale": "en-GB", "viewport": {"width": 1100, "height": 800}} | settings
    context = browser.new_context(**settings)
    context.set_default_timeout(15_000)
    page = context.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request",
        lambda request: None if request.url.startswith((url, "blob:")) else problems.append(request.url),
    )
    try:
        page.goto(f"{url}/{fragment}")
        page.wait_for_selector(ready)
        yield page
        unexpected = [problem for problem in problems if not any(part in problem for part in expected)]
        assert not unexpected, "\n".join(unexpected)
    finally:
        context.close()


def translate_text(page, text: str) -> str:
    """Enter a text, wait for its translation, and return it."""
    page.locator("#source").fill(text)
    page.wait_for_function(
        """([done, text]) => {
          const lines = document.querySelectorAll('.output .line');
          return document.querySelector('#source').value === text && lines.length === text.split('\\n').length
            && document.querySelector('.output').getAttribute('aria-busy') === 'false'
            && [...lines].every((line) => line.matches('.done, .blank'));
        }""",
        arg=[FINISHED_LINES, text],
    )
    return output(page)


def add_term(page, source: str, target: str) -> None:
    """Add a pair to the glossary, and return to the text."""
    page.get_by_role("tab", name="Glossary").click()
    page.get_by_label("Word or phrase").fill(source)
    page.get_by_label("Its translation").fill(target)
    page.keyboard.press("Enter")
    page.get_by_role("tab", name="Text").click()


OUTPUT_TEXT = "[...document.querySelector('.output').children].map((line) => line.textContent).join('\\n')"


def output(page) -> str:
    """Return the displayed translation with line breaks."""
    return page.evaluate(OUTPUT_TEXT)


def wait_for_translation(page, text: str) -> None:
    """Wait until the page shows a translation."""
    page.wait_for_function(f"(text) => {OUTPUT_TEXT} === text", arg=text)


def word(page, text: str, index: int = 0):
    """Return the locator of a word of the translation."""
    return page.locator(".word", has_text=text).nth(index)


def eventually(page, condition) -> None:
    """Wait in the browser until a condition holds."""
    waiting.eventually(condition, 15, lambda seconds: page.wait_for_timeout(1000 * seconds))


def marked(page):
    """Return the texts of the marked parts of the source."""
    return page.locator(".mirror mark")


def copy_bundled_model(folder: Path, source: str, target: str) -> Path:
    """Copy the bundled model as if it translated between other languages."""
    path = folder / f"{source}-{target}"
    shutil.copytree(BUNDLED, path)
    config = json.loads((path / "config.json").read_text(encoding="utf-8"))
    config["languages"] = [source, target]
    (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return path

"""Control of an installed Chromium by Playwright."""

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

COUNT_PIXELS = """(canvas) => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
  copy.drawImage(canvas, 0, 0);
  const {data} = copy.getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let index = 3; index < data.length; index += 4) count += data[index] > 0;
  return count;
}"""
"""Script that returns the number of pixels drawn on a canvas; it reads a copy, which is faster."""
PROGRAM_NAMES = (
    "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
)  # fmt: skip
"""Names of the browser; the first has no user interface and needs a third of the processor time."""
AXE = Path(__file__).parents[2] / "page/node_modules/axe-core/axe.min.js"


def browser_path() -> str:
    """Return the path of the browser, or skip the test if none is installed."""
    browser = next((path for path in map(shutil.which, PROGRAM_NAMES) if path), None)
    if browser is None:
        pytest.skip("no Chromium is installed: apt-get install chromium-headless-shell")
    return browser


@contextmanager
def chromium() -> Iterator:
    """Yield a headless browser."""
    path = browser_path()
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@contextmanager
def serve_folder(folder: Path) -> Iterator[str]:
    """Serve a folder with Python's file server; yield its URL."""
    handler = functools.partial(_QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def open_page(browser, path, **settings):
    """Open a page; return it and a list that records console messages, errors and network requests."""
    page = browser.new_page(viewport={"width": 1000, "height": 900}, **settings)
    problems: list[str] = []
    page.on("console", lambda message: problems.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: problems.append(request.url) if is_remote(request.url) else None)
    page.goto(path.as_uri())
    return page, problems


def accessibility_violations(
    page, context: str = "document", rules: Sequence[str] = (), excluded: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """Return the violations that axe finds on a page: the rule, and the HTML of the element.

    The test is skipped if axe is not installed.

    Args:
        page: the page.
        context: JavaScript expression of the elements to check.
        rules: names of the rules to check; by default, all that axe enables.
        excluded: names of rules not to check.
    """
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm --prefix page ci")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    options = {"resultTypes": ["violations"], "rules": {rule: {"enabled": False} for rule in excluded}}
    options |= {"runOnly": list(rules)} if rules else {}
    run = f"(options) => axe.run({context}, options).then((results) => results.violations)"
    violations = page.evaluate(run, options)
    return [(violation["id"], node["html"][:200]) for violation in violations for node in violation["nodes"]]


DRAWINGS = """(characters) => {
  const canvas = new OffscreenCanvas(40, 40).getContext('2d', {willReadFrequently: true});
  canvas.font = '30px sans-serif';
  return [...characters].map((character) => {
    canvas.clearRect(0, 0, 40, 40);
    canvas.fillText(character, 4, 34);
    return canvas.getImageData(0, 0, 40, 40).data.join();
  });
}"""


def require_chinese_font(page) -> None:
    """Skip the test if no installed font has Chinese characters, so that all look the same."""
    if len(set(page.evaluate(DRAWINGS, "中文"))) == 1:
        pytest.skip("no font has Chinese characters: apt-get install fonts-droid-fallback")


def is_remote(url: str) -> bool:
    return not url.startswith(("file:", "data:", "blob:"))

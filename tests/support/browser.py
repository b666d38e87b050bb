"""An installed Chromium, driven by Playwright: pages that must not complain."""

from __future__ import annotations

import functools
import http.server
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

INK = """(canvas) => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
  copy.drawImage(canvas, 0, 0);
  const {data} = copy.getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let at = 3; at < data.length; at += 4) found += data[at] > 0;
  return found;
}"""
"""How many pixels of a canvas are drawn on, read from a copy: reading makes a canvas slow."""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def executable() -> str:
    """Where the browser is; skips the test where there is none."""
    found = next((path for path in map(shutil.which, NAMES) if path), None)
    if found is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    return found


@contextmanager
def chromium() -> Iterator:
    """A browser without a window."""
    path = executable()
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *given):
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder that Python's own server of files shows."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def open_page(browser, path, **settings):
    """A page of its own, and what it complains of or asks a network for."""
    page = browser.new_page(viewport={"width": 1000, "height": 900}, **settings)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.append(request.url) if is_foreign(request.url) else None)
    page.goto(path.as_uri())
    return page, complaints


def is_foreign(url: str) -> bool:
    return not url.startswith(("file:", "data:", "blob:"))

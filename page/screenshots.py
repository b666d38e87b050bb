"""Take the screenshots of the page for the documentation, with Chromium (see CONTRIBUTING).

uwaga serve --port 5000 &
python page/screenshots.py http://127.0.0.1:5000     writes docs/figures/page-*.png
"""

import argparse
import shutil
from pathlib import Path
from typing import Any

FIGURES = Path(__file__).parents[1] / "docs/figures"
TEXT = "I thought it would be a good concert, but it wasn't.\nThe zeitgeist of jazz smells of velvet thunder."
COLOURS = 160
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
DESKTOP = {"viewport": {"width": 1280, "height": 860}}


def save_screenshot(page: Any, name: str) -> None:
    """Save a screenshot as a PNG with few colours."""
    from PIL import Image

    path = FIGURES / f"page-{name}.png"
    page.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(COLOURS, kmeans=4).save(path, optimize=True)
    print(f"wrote {path}: {path.stat().st_size:,} bytes")  # noqa: T201


def open_page(browser: Any, url: str, settings: dict[str, Any]) -> Any:
    """Open the page and wait for the translation of a text."""
    page = browser.new_context(locale="en-GB", **settings).new_page()
    page.goto(f"{url}/#source=en&target=de")
    page.locator("#source").fill(TEXT)
    page.wait_for_function("() => document.querySelectorAll('.line.done').length === 2")
    return page


def main() -> None:
    """Take all screenshots."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="of a running server with the bundled model")
    url = parser.parse_args().url.rstrip("/")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium-headless-shell") or shutil.which("chromium"),
            args=["--no-sandbox"],
        )
        page = open_page(browser, url, DESKTOP)
        page.locator(".word", has_text="Konzert").hover()
        save_screenshot(page, "text")
        page.locator(".word", has_text="gutes").click()
        page.wait_for_selector(".menu .choice")
        save_screenshot(page, "word")
        page.keyboard.press("Escape")
        page.get_by_role("tab", name="Inside").click()
        page.wait_for_selector("[data-milliseconds]")
        page.set_viewport_size({"width": 1280, "height": 1000})
        save_screenshot(page, "inside")
        page = open_page(browser, url, PHONE | {"color_scheme": "dark"})
        save_screenshot(page, "phone")
        browser.close()


if __name__ == "__main__":
    main()

"""Measure the page of a running server, with Chromium (see CONTRIBUTING).

uwaga serve --port 5000 &
python page/measure.py http://127.0.0.1:5000

Bytes of the first load, uncompressed and as sent; milliseconds from a key press to the first words of the new
translation on the screen, including the typing pause of the page, and to the complete translation.
"""

import argparse
import shutil
import statistics
from pathlib import Path
from typing import Any

AXE = Path(__file__).parent / "node_modules/axe-core/axe.min.js"
SENTENCES = Path(__file__).parents[1] / "docs/sample.en"
WATCH = """() => {
  const box = document.querySelector('.output');
  const look = () => {
    const line = box.querySelector('.line');
    if (!window.first && line && line.matches('.rough, .done') && line.textContent.trim()) {
      requestAnimationFrame(() => { window.first ||= performance.now(); });
    }
    if (!window.whole && line && line.matches('.done')) {
      requestAnimationFrame(() => { window.whole ||= performance.now(); });
    }
  };
  new MutationObserver(look).observe(box, {childList: true, subtree: true});
  document.querySelector('#source').addEventListener('input', () => {
    window.typed = performance.now();
    window.first = window.whole = 0;
  }, {capture: true});
}"""


def first_load(page: Any, url: str) -> str:
    """Return the size of the page."""
    requests: list[Any] = []
    page.on("requestfinished", lambda request: requests.append(request))
    page.goto(f"{url}/#source=en&target=de")
    page.wait_for_selector("#source")
    page.wait_for_load_state("networkidle")
    plain = sum(len(request.response().body()) for request in requests)
    sent = sum(
        request.sizes()["responseBodySize"] + request.sizes()["responseHeadersSize"] for request in requests
    )
    return f"first load: {len(requests)} answers, {plain:,} bytes; as sent, with headers, {sent:,}"


def typing(page: Any, sentences: list[str]) -> str:
    """Return the time to the first words of a translation, and to the complete translation."""
    page.evaluate(WATCH)
    first, complete = [], []
    for sentence in sentences:
        page.locator("#source").fill(sentence[:-1])
        page.wait_for_function("() => window.whole > 0")
        page.locator("#source").press("End")
        page.keyboard.type(sentence[-1])
        page.wait_for_function("() => window.whole > 0")
        first.append(page.evaluate("window.first - window.typed"))
        complete.append(page.evaluate("window.whole - window.typed"))
    return (
        f"typing: first words {statistics.median(first):.0f} ms on median of {len(first)} "
        f"({min(first):.0f} to {max(first):.0f}), best translation {statistics.median(complete):.0f} ms"
    )


def axe(page: Any) -> str:
    """Return the number of accessibility rules passed, and those violated."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    report = page.evaluate("axe.run(document)")
    names = [f"{violation['id']} ({violation['impact']})" for violation in report["violations"]]
    return f"axe: {len(report['passes'])} rules passed, {len(names)} violations {' '.join(names)}".rstrip()


def main() -> None:
    """Measure and print everything."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("url", help="of a running server with the bundled model")
    parser.add_argument("--count", type=int, default=20, help="sentences that are typed")
    arguments = parser.parse_args()
    lines = [line for line in SENTENCES.read_text(encoding="utf-8").splitlines() if line.strip()]
    sentences = [lines[index % len(lines)].rstrip(".") + f" {index}." for index in range(arguments.count)]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium-headless-shell") or shutil.which("chromium"),
            args=["--no-sandbox"],
        )
        page = browser.new_context(locale="en-GB", bypass_csp=True).new_page()
        for line in (first_load(page, arguments.url.rstrip("/")), typing(page, sentences), axe(page)):
            print(line)  # noqa: T201
        browser.close()


if __name__ == "__main__":
    main()

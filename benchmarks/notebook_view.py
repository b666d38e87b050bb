"""Measure how long Chromium takes to draw the attention view, and the size of the view.

    python benchmarks/notebook_view.py [--rounds 5]

The attention is random (a softmax of normal scores). Each round loads a new page and waits until it is drawn:
`load` is the time from the start of the navigation, `script` that from the start of the page's script. Then
it changes to the model view, which draws all heads, to the matrix, and back to the lines, and waits for a
painted frame after each. The figures are the median of the rounds in milliseconds, and their range.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from uwaga.results.views import attention_view

sys.path.insert(0, str(Path(__file__).parents[1] / "tests/support"))

import attention_samples as samples
from browser import chromium

SHAPES = ((12, 12, 30), (6, 16, 100), (4, 8, 30), (12, 12, 100))
"""Numbers of layers, heads and tokens."""
CHANGE = """async (view) => {
  const root = document.querySelector('[data-milliseconds]').shadowRoot;
  const began = performance.now();
  root.querySelector(`input[value=${view}]`).click();
  root.querySelector('canvas').getContext('2d').getImageData(0, 0, 1, 1); // waits for the strokes
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - began;
}"""


def measure(browser, path: Path) -> dict[str, float]:
    """Return the milliseconds of loading a page, of its script, and of drawing each view."""
    page = browser.new_page(viewport={"width": 1000, "height": 900})
    page.goto(path.as_uri(), wait_until="commit")
    page.wait_for_selector("[data-milliseconds]", state="attached")
    loaded = page.evaluate("new Promise((done) => requestAnimationFrame(() => done(performance.now())))")
    script = page.evaluate("Number(document.querySelector('[data-milliseconds]').dataset.milliseconds)")
    times = {"load": loaded, "script": script}
    for view in ("model", "matrix", "heads"):
        times[view] = page.evaluate(CHANGE, view)
    page.close()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        for layers, heads, tokens in SHAPES:
            attention = samples.attentions(layers, heads, tokens, tokens, kinds=("encoder",))
            html = attention_view(attention, samples.pieces(tokens), ())
            path = Path(folder) / "view.html"
            path.write_text(f'<!DOCTYPE html><meta charset="utf-8"><body>{html}', encoding="utf-8")
            rounds = [measure(browser, path) for _ in range(arguments.rounds)]
            print(f"{layers} x {heads} heads, {tokens} tokens: {len(html.encode()) / 1000:.0f} kB", end="")
            for name in rounds[0]:
                values = [run[name] for run in rounds]
                low, high = min(values), max(values)
                print(f"; {name} {statistics.median(values):.0f} ({low:.0f} to {high:.0f})", end="")
            print()


if __name__ == "__main__":
    main()

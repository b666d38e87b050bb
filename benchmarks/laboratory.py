"""Measure the course's laboratory in Chromium: how fast it responds, and how many bytes its pages transfer.

    python benchmarks/laboratory.py
    python benchmarks/laboratory.py --json laboratory.json

The figures are medians of 50 times in one page: from a key press to the greedy translation and its drawn
attention; the same with a beam of 5 and a translation of 16 tokens; an edit, with the translation before and
after; and drawing all 32 matrices. They are measured again with a processor that Chromium slows down four
times. Before that, new browser contexts measure the bytes of a chapter without its laboratory, and the time
from opening the laboratory's page to its first translation, with a local server that sends gzip. The script
builds the documentation first, and needs Chromium and Playwright. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from peers.machine import machine, show_machine

from web import ROOT, serve_folders

sys.path.insert(0, str(ROOT / "tests/support"))

from browser import chromium

TIMES = 50
SHORT = "The old man sits on the bench and reads."
LONG = "The old man sits on the bench in the park with his dog and reads a newspaper every day."
TOKENS = 16
MEASURED = """async ([times, short, long]) => {
  const lab = document.querySelector("uwaga-lab");
  const [source] = lab.querySelectorAll("textarea");
  const timed = async (work) => {
    const seconds = [];
    for (let at = 0; at < times; ++at) {
      const begun = performance.now();
      await work(at);
      seconds.push(performance.now() - begun);
    }
    return seconds;
  };
  const typed = (text) => (at) => {
    source.value = text.slice(0, text.length - (at % 5));
    source.dispatchEvent(new Event("input", { bubbles: true }));
    return lab.running;
  };
  const results = {};
  lab.open("attention");
  await lab.change({ beam: 1, edits: [] });
  results.key = await timed(typed(short));
  await lab.change({ beam: 5 });
  results.beam = await timed(typed(long));
  await lab.change({ text: long });
  const tokens = lab.last.tokens.length;
  await lab.change({ beam: 1, text: short });
  lab.open("numbers"); // the drawing, with an open box
  const silent = (at) => ({ kind: "cross", layer: 1 + (at % 2), head: 1 + (at % 4), weights: "silent" });
  results.edit = await timed((at) => lab.change({ edits: [silent(at)] }));
  await lab.change({ edits: [] });
  lab.open("attention");
  await lab.change({});
  const root = lab.querySelector(".uwaga-attention").lastElementChild.shadowRoot;
  const radio = (value) => [...root.querySelectorAll("input")].find((one) => one.value === value);
  radio("model").click();
  results.matrices = await timed(() => {
    for (const kind of ["encoder", "decoder", "cross"]) {
      radio(kind).checked = true;
      radio(kind).dispatchEvent(new Event("change"));
    }
    return new Promise((done) => setTimeout(done));
  });
  return { results, tokens };
}"""
NAMES = {
    "key": ("key to greedy translation, ms", 60),
    "beam": ("key to a beam of 5, ms", 120),
    "edit": ("an edit, ms", 100),
    "matrices": ("32 matrices drawn, ms", 100),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    arguments = parser.parse_args()
    host = machine()
    with tempfile.TemporaryDirectory() as temporary, chromium() as browser:
        show_machine(host)
        print(f"browser  Chromium {browser.version}")
        site = Path(temporary)
        command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", temporary]
        subprocess.run(command, check=True, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
        folders = {folder.name: folder for folder in site.iterdir() if folder.is_dir()}
        with serve_folders(folders, {}) as (url, sent_bytes):
            results = measure(browser, url, sent_bytes)
    report(results)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": host, "runs": results}, indent=2) + "\n")


def measure(browser: Any, url: str, sent_bytes: list[int]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    context = browser.new_context()
    page = context.new_page()
    sent_bytes.clear()
    page.goto(f"{url}/learn/03-looking-back/index.html", wait_until="networkidle")
    results["chapter"] = sum(sent_bytes)
    context.close()
    context = browser.new_context()
    page = context.new_page()
    sent_bytes.clear()
    page.goto(f"{url}/learn/laboratory/index.html", wait_until="networkidle")
    page.click(".lab-start")
    page.wait_for_function("document.querySelector('uwaga-lab').dataset.milliseconds")
    results["first"] = sum(sent_bytes)
    for name, rate in (("plain", 1), ("slower", 4)):
        context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": rate})
        page.evaluate(MEASURED, [10, SHORT, LONG])
        results[name] = page.evaluate(MEASURED, [TIMES, SHORT, LONG])
    context.close()
    return results


def report(results: dict[str, Any]) -> None:
    print(f"\n{'':40}{'median':>9}{'p95':>9}{'bar':>9}{'4x slower':>12}{'ratio':>8}")
    for name, (label, bar) in NAMES.items():
        plain, slower = (sorted(results[mode]["results"][name]) for mode in ("plain", "slower"))
        median, percentile_95 = statistics.median(plain), plain[int(0.95 * len(plain))]
        slow = statistics.median(slower)
        print(f"{label:40}{median:9.1f}{percentile_95:9.1f}{bar:9}{slow:12.1f}{slow / median:8.1f}")
    print(f"{'tokens of the beam’s translation':40}{results['plain']['tokens']:9}{'':9}{TOKENS:9}")
    print(f"{'a chapter without its laboratory, kB':40}{results['chapter'] / 1e3:9.1f}{'':9}{300:9}")
    print(f"{'to the first translation, MB':40}{results['first'] / 1e6:9.2f}{'':9}{6.5:9}")


if __name__ == "__main__":
    main()

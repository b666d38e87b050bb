"""Measure the npm package in Chromium: Firefox's en→pt model against Bergamot, and a page's first
translation.

    python benchmarks/web.py flores.dev.en
    python benchmarks/web.py flores.dev.en --rounds 5 --model FOLDER --json web.json

200 sentences are sent to a Web Worker one by one, each after the previous one has returned. The figure is the
time per sentence in a page, including messages, with uwaga's package and with npm's
@browsermt/bergamot-translator 0.4.9. Every run is a new page of one browser, which translates the first 20
sentences before the clock starts. Rounds alternate, and ratios are medians over the rounds. A new browser
context then measures the time from opening a page to the first translation of the bundled model in int8, and
the compressed bytes that the local server sent. The script needs Chromium, Playwright, npm for the peer, and
the network on first use. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import http.server
import json
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from firefox import PEERS, SINGLE, fetch_firefox_model
from peers.machine import machine, show_machine

from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.conversion.quantise import quantise

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))

from browser import chromium  # noqa: E402

PEER = "@browsermt/bergamot-translator@0.4.9"
WARM = 20
"""Number of sentences translated before the clock starts, while the browser recompiles the module's
functions.
"""
FIRST = "A dog runs through the snow."
PAGES = {
    "empty.html": "<!doctype html><title>benchmark</title>",
    "first.html": """<!doctype html><title>first translation</title><script type="module">
  import { Uwaga } from "/uwaga/index.js";
  const model = await Uwaga.load("/bundled/");
  const { text } = await model.translate(TEXT);
  window.first = { text, seconds: performance.now() / 1e3 };
</script>""".replace("TEXT", json.dumps(FIRST)),
}
UWAGA_PAGE = """async ([files, texts, warm]) => {
  const { Uwaga } = await import("/uwaga/index.js");
  const model = await Uwaga.load("/model/", { files, cache: false });
  const translate = async (text) => (await model.translate(text)).text;
"""
BERGAMOT_PAGE = """async ([files, texts, warm]) => {
  const { LatencyOptimisedTranslator } = await import("/bergamot/translator.js");
  const model = new LatencyOptimisedTranslator({ registryUrl: "/registry.json" });
  const translate = async (text) => (await model.translate({ from: "en", to: "pt", text })).target.text;
"""
TIMED = """
  for (const text of texts.slice(0, warm)) await translate(text);
  const made = [], seconds = [];
  for (const text of texts) {
    const begun = performance.now();
    made.push(await translate(text));
    seconds.push((performance.now() - begun) / 1e3);
  }
  return { texts: made, seconds };
}"""
SYSTEMS = {"uwaga": UWAGA_PAGE + TIMED, "Bergamot": BERGAMOT_PAGE + TIMED}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "sentences", type=Path, help=f"file of at least {SINGLE} English sentences, one per line"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", type=Path, help="folder of Firefox's en→pt model; default: fetch it")
    parser.add_argument("--package", type=Path, default=ROOT / "web", help="folder of the npm package")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    arguments = parser.parse_args()
    texts = arguments.sentences.read_text(encoding="utf-8").splitlines()[:SINGLE]
    if len(texts) < SINGLE:
        raise SystemExit(f"{arguments.sentences}: {len(texts)} lines; at least {SINGLE} are needed")
    folder, peer, host = arguments.model or fetch_firefox_model(), bergamot(), machine()
    files = model_files(folder)
    with tempfile.TemporaryDirectory() as temporary, chromium() as browser:
        show_machine(host)
        print(f"browser  Chromium {browser.version}")
        quantise(BUNDLED, Path(temporary) / "bundled")
        folders = {
            "uwaga": arguments.package / "lib",
            "bergamot": peer,
            "model": folder,
            "bundled": Path(temporary) / "bundled",
        }
        with serve_folders(folders, PAGES | {"registry.json": registry(files)}) as (url, sent_bytes):
            runs = []
            for number in range(arguments.rounds):
                runs.append(run_round(browser, url, sent_bytes, list(files.values()), texts, number))
                print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
    report(runs)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": host, "runs": runs}, indent=2) + "\n")


def run_round(
    browser: Any, url: str, sent: list[int], files: list[str], texts: list[str], number: int
) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for system in SYSTEMS if number % 2 == 0 else reversed(SYSTEMS):
        page = browser.new_page()
        page.goto(f"{url}/empty.html")
        results[system] = page.evaluate(SYSTEMS[system], [files, texts, WARM])
        page.close()
    context = browser.new_context()
    sent.clear()
    page = context.new_page()
    page.goto(f"{url}/first.html", wait_until="commit")
    page.wait_for_function("window.first")
    results["first"] = page.evaluate("window.first") | {"sent": sum(sent)}
    context.close()
    return results


def report(runs: list[dict[str, Any]]) -> None:
    def median(figures: dict[str, Any]) -> float:
        return 1e3 * statistics.median(figures["seconds"])

    def percentile_95(figures: dict[str, Any]) -> float:
        return 1e3 * float(np.quantile(figures["seconds"], 0.95))

    print(f"\n{'':44}{'median':>10}{'lowest':>10}{'highest':>10}")
    for system in SYSTEMS:
        show(f"{system}: median of a sentence, ms", [median(run[system]) for run in runs])
        show(f"{system}: p95, ms", [percentile_95(run[system]) for run in runs])
    speeds = [median(run["Bergamot"]) / median(run["uwaga"]) for run in runs]
    show("speed, uwaga / Bergamot, medians", speeds, "2")
    shares = [percentile_95(run["uwaga"]) / percentile_95(run["Bergamot"]) for run in runs]
    show("p95, uwaga / Bergamot", shares, "at most 0.5")
    equal = [
        np.mean([a == b for a, b in zip(*(run[system]["texts"] for system in SYSTEMS), strict=True)])
        for run in runs
    ]
    show("share of equal translations", equal)
    show("first translation, bundled model: s", [run["first"]["seconds"] for run in runs], "at most 1.5")
    show("the same: MB sent", [run["first"]["sent"] / 1e6 for run in runs], "at most 6.5")


def show(label: str, values: list[float], bar: str = "") -> None:
    suffix = f"   bar {bar}" if bar else ""
    print(f"{label:44}{statistics.median(values):10.2f}{min(values):10.2f}{max(values):10.2f}{suffix}")


def model_files(folder: Path) -> dict[str, str]:
    """Return the names of the files of a Firefox model, by Bergamot's names for them."""
    patterns = {"model": "model.*.bin", "vocab": "vocab.*.spm", "lex": "lex.*.bin"}
    names = {
        part: next((path.name for path in folder.glob(pattern)), None) for part, pattern in patterns.items()
    }
    if None in names.values():
        raise SystemExit(
            f"{folder}: needs files {', '.join(patterns.values())}, as Firefox's models have them"
        )
    return {part: str(name) for part, name in names.items()}


def registry(files: dict[str, str]) -> str:
    """Return the list of models that Bergamot reads, as JSON."""
    return json.dumps({"enpt": {part: {"name": f"/model/{name}"} for part, name in files.items()}})


def bergamot() -> Path:
    """Return the folder of Bergamot's package, which is fetch_firefox_model from npm on first use."""
    package = PEERS / "bergamot"
    if not (package / "package").is_dir():
        package.mkdir(parents=True, exist_ok=True)
        command = ["npm", "pack", "--silent", "--pack-destination", str(package), PEER]
        process = subprocess.run(command, capture_output=True, text=True, check=True)
        with tarfile.open(package / process.stdout.split()[-1]) as archive:
            archive.extractall(package, filter="data")
    return package / "package"


@contextmanager
def serve_folders(folders: dict[str, Path], page_texts: dict[str, str]) -> Iterator[tuple[str, list[int]]]:
    """Serve folders and pages within the block.

    Yield the URL, and a list to which the number of bytes of each response is appended.
    """
    files = {f"/{name}": page.encode() for name, page in page_texts.items()}
    for name, folder in folders.items():
        files |= {
            f"/{name}/{path.relative_to(folder)}": path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
    packed = {name: gzip.compress(content, 9) for name, content in files.items()}
    sent_bytes: list[int] = []
    handler = functools.partial(_Handler, packed, sent_bytes)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", sent_bytes
        finally:
            server.shutdown()
            thread.join()


class _Handler(http.server.SimpleHTTPRequestHandler):
    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {
        ".js": "text/javascript",
        ".wasm": "application/wasm",
    }

    def __init__(self, packed: dict[str, bytes], sent: list[int], *args: Any) -> None:
        self.packed, self.sent = packed, sent
        super().__init__(*args)

    def do_GET(self) -> None:
        content = self.packed.get(self.path)
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Type", self.guess_type(self.path))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content or b"")))
        headers = sum(map(len, self._headers_buffer))
        self.end_headers()
        self.wfile.write(content or b"")
        self.sent.append(headers + len(content or b""))

    def log_message(self, *args: object) -> None:
        pass


if __name__ == "__main__":
    main()

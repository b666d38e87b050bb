"""Measure the processor time outside the engine: of Python, of garbage collection, and of the system.

    python benchmarks/overhead.py
    python benchmarks/overhead.py --other ../uwaga-before   # beside another in which `make demo` has run

A model of OPUS-MT's size with random weights (int8) translates batches of 64 sentences of 26 tokens to 12
tokens each, greedily on one thread. The time in the core's kernels is the user time in calls of the core; all
other time of the process, including system time during these calls, is overhead. The figures are medians in
milliseconds per 1,000 sentences; the processes of two checkouts take turns.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
from pathlib import Path

from against import TARGET, random_sentences
from peers.machine import machine, show_machine
from peers.opus_size import write_marian

ROOT = Path(__file__).parents[1]
WORKER = Path(__file__).parent / "peers" / "overhead_worker.py"
COLUMNS = ("kernels", "system", "rest", "overhead", "page faults")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--other", type=Path, help="a checkout to compare with")
    parser.add_argument("--processes", type=int, default=5, help="processes of each checkout")
    parser.add_argument("--batches", type=int, default=20, help="batches of each process")
    arguments = parser.parse_args()
    checkouts = {"this": ROOT} | ({"other": arguments.other.resolve()} if arguments.other else {})
    show_machine(machine())
    results: dict[str, list[list[float]]] = {name: [] for name in checkouts}
    with tempfile.TemporaryDirectory() as scratch:
        folder, sentences = Path(scratch, "model"), Path(scratch, "sentences.txt")
        write_marian(folder)
        sentences.write_text("\n".join(random_sentences(folder)), encoding="utf-8")
        for _ in range(arguments.processes):
            for name, checkout in checkouts.items():
                python = checkout / ".venv/bin/python"
                command = [python, WORKER, folder, sentences, TARGET, arguments.batches]
                output = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
                results[name].append([float(value) for value in output.stdout.split()])
    print(f"{'ms of 1,000 sentences':22}" + "".join(f"{column:>13}" for column in COLUMNS))
    for name, rows in results.items():
        medians = [statistics.median(row[column] for row in rows) for column in range(len(COLUMNS))]
        print(f"{name:22}" + "".join(f"{value:>13,.1f}" for value in medians))
    if "other" in results:
        pairs = zip(results["this"], results["other"], strict=True)
        print(f"overhead of this in that of other: {statistics.median(a[3] / b[3] for a, b in pairs):.2f}")


if __name__ == "__main__":
    main()

"""Measure corpus cleaning: time and memory on 1, 3 and 10 million generated pairs, and against OpusFilter.

    python benchmarks/clean.py growth
    python benchmarks/clean.py peer --rounds 3 --json peer.json --check

Each run is a new process, timed from its start to its end, with its peak memory and that of its largest
worker. In the comparison, both systems read the same two files with the same number of processes. Rounds
alternate, the median counts, and the kept lines are compared. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from peers.environments import python_of
from peers.machine import machine

FOLDER = Path(__file__).parent
CACHE = FOLDER / ".peers"
SIZES = (1_000_000, 3_000_000, 10_000_000)
BAR = 5.0
LINEAR = 1.25  # seconds a pair at the largest size by those at the smallest, at most
SHARED = ("length", "ratio", "long_words", "letters", "script", "punctuation", "numbers", "duplicates")
"""Rules of both systems, with settings that mean the same."""
FILTERS: list[dict[str, Any]] = [
    {"LengthFilter": {"unit": "word", "min_length": 1, "max_length": 150}},
    {"LengthFilter": {"unit": "char", "min_length": 1, "max_length": 1000}},
    {"LengthRatioFilter": {"unit": "word", "threshold": 3}},
    {"LengthRatioFilter": {"unit": "char", "threshold": 3}},
    {"LongWordFilter": {"threshold": 40}},
    {"AlphabetRatioFilter": {"threshold": 0.25}},
    {"CharacterScoreFilter": {"scripts": ["Latin", "Latin"], "thresholds": [0.9, 0.9]}},
    {"TerminalPunctuationFilter": {"threshold": -2}},
    {"NonZeroNumeralsFilter": {"threshold": 0.5}},
]
SUBJECTS = [
    ("the old man", "der alte Mann"),
    ("my sister", "meine Schwester"),
    ("a small dog", "ein kleiner Hund"),
    ("the new teacher", "die neue Lehrerin"),
    ("nobody", "niemand"),
    ("our neighbour", "unser Nachbar"),
    ("the president of the company", "der Präsident der Firma"),
    ("a group of children", "eine Gruppe von Kindern"),
]
DOES = [
    ("saw", "sah"),
    ("has never understood", "hat nie verstanden:"),
    ("bought", "kaufte"),
    ("was looking for", "suchte"),
    ("would like to have", "hätte gern"),
    ("forgot", "vergaß"),
    ("described", "beschrieb"),
]
OBJECTS = [
    ("the red house", "das rote Haus"),
    ("a book about birds", "ein Buch über Vögel"),
    ("the last train", "den letzten Zug"),
    ("something else", "etwas anderes"),
    ("the keys of the car", "die Schlüssel des Autos"),
    ("two cups of tea", "zwei Tassen Tee"),
    ("the answer", "die Antwort"),
    ("a letter from Warsaw", "einen Brief aus Warschau"),
]
PLACES = [
    ("at the station", "am Bahnhof"),
    ("yesterday evening", "gestern Abend"),
    ("in front of the school", "vor der Schule"),
    ("without saying a word", "ohne ein Wort zu sagen"),
    ("after the war", "nach dem Krieg"),
    ("during the long journey to the coast", "während der langen Reise an die Küste"),
    ("because it was raining", "weil es regnete"),
]
SPOILED = (
    lambda en, de: (en, en),
    lambda en, de: (en, de.upper()[:9]),
    lambda en, de: (en + " 1987", de + " 2456"),
    lambda en, de: (en, "Он сказал, что это правда."),
    lambda en, de: ("3 4 5 6 7 8 9 | - - - " + en[:3], de),
    lambda en, de: (en, de.encode().decode("latin-1")),
    lambda en, de: (en + " x" * 160, de + " y" * 160),
    lambda en, de: (en, de + " " + "z" * 45),
    lambda en, de: (en, de + " ... !!! ???"),
)
"""Kinds of bad pairs. One pair in ten is bad, and one in twenty repeats an earlier pair."""


def pairs(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield generated pairs, which depend only on the seed."""
    draw = random.Random(seed)
    clauses = [
        (" ".join(c[0] for c in parts), " ".join(c[1] for c in parts))
        for parts in product(SUBJECTS, DOES, OBJECTS)
    ]
    last = ("", "")
    for number in range(count):
        (first, eins), (second, zwei) = draw.choice(clauses), draw.choice(clauses)
        place, wo = PLACES[number % len(PLACES)]
        pair = (f"{first} {place}, and in {number} {second}.", f"{eins} {wo}, und {number} {zwei}.")
        kind = draw.random()
        if kind < 0.1:
            pair = SPOILED[number % len(SPOILED)](*pair)
        elif kind < 0.15:
            pair = last
        last = pair if pair[0] else last
        yield pair if pair[0] else ("a first pair", "ein erstes Paar")


def make(folder: Path, count: int) -> tuple[Path, Path, Path]:
    """Return a generated corpus as two files and as a TSV file; they are kept for later runs."""
    paths = tuple(folder / f"made-{count}.{end}" for end in ("en", "de", "tsv"))
    if not all(path.exists() for path in paths):
        folder.mkdir(parents=True, exist_ok=True)
        with paths[0].open("w") as source, paths[1].open("w") as target, paths[2].open("w") as tsv:
            for en, de in pairs(count, 1):
                source.write(en + "\n")
                target.write(de + "\n")
                tsv.write(f"{en}\t{de}\n")
    return paths[0], paths[1], paths[2]


def measure_command(command: list[str]) -> dict[str, Any]:
    """Run a command, and return its seconds and the peak memory of its largest process in MiB."""
    with tempfile.TemporaryFile("w+") as log:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=log, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        if status:
            log.seek(0)
            raise SystemExit(f"{' '.join(command)} has failed:\n{log.read()[-3000:]}")
    return {"seconds": seconds, "peak_mib": usage.ru_maxrss / 1024, "cpu": usage.ru_utime + usage.ru_stime}


def uwaga(arguments: list[str], jobs: int) -> dict[str, Any]:
    command = [sys.executable, str(Path(__file__)), "worker", *arguments, "--jobs", str(jobs)]
    return measure_command(command)


def worker(arguments: list[str]) -> None:
    """Run ``uwaga clean`` in this process, and print the peak memory of this process and of its workers."""
    from uwaga.cli.main import main

    try:
        main(["clean", *arguments])
    except SystemExit as end:
        own_usage, workers = (
            resource.getrusage(usage).ru_maxrss // 1024
            for usage in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        Path(os.environ.get("UWAGA_PEAKS", os.devnull)).write_text(json.dumps([own_usage, workers]))
        raise SystemExit(end.code) from None


def growth(arguments: argparse.Namespace) -> list[str]:
    """Measure time and memory by number of pairs, with the default rules except for ``language``."""
    rows = []
    for size in sorted(arguments.sizes):
        _, _, tsv = make(arguments.data, size)
        with tempfile.TemporaryDirectory(dir=arguments.data) as folder:
            peaks = Path(folder, "peaks.json")
            os.environ["UWAGA_PEAKS"] = str(peaks)
            options = ["--from", "en", "--to", "de", "--without", arguments.without]
            figures = uwaga([str(tsv), "-o", f"{folder}/out.tsv", *options], arguments.jobs)
            figures["own_mib"], figures["worker_mib"] = json.loads(peaks.read_text())
        rows.append({"pairs": size, **figures})
        per, base = figures["seconds"] / size, rows[0]["seconds"] / rows[0]["pairs"]
        print(
            f"{size:>11,} pairs  {figures['seconds']:7.1f} s  {size / figures['seconds']:9,.0f} pairs/s  "
            f"{per / base:5.2f} times the time a pair  {figures['own_mib']:5} MiB, "
            f"and {figures['worker_mib']} MiB a worker",
            flush=True,
        )
    first, final = rows[0], rows[-1]
    ratio = final["seconds"] / final["pairs"] / (first["seconds"] / first["pairs"])
    arguments.found["growth"] = rows
    return [] if ratio <= LINEAR else [f"growth: {ratio:.2f} times the time a pair, more than {LINEAR}"]


def peer(arguments: argparse.Namespace) -> list[str]:
    """Measure the same rules on the same files in both systems."""
    python = arguments.peer_python or python_of("opusfilter", CACHE)
    source, target, _ = make(arguments.data, arguments.pairs)
    runs: dict[str, list[float]] = {"uwaga": [], "OpusFilter": []}
    with tempfile.TemporaryDirectory(dir=arguments.data) as name:
        folder = Path(name)
        config = folder / "opusfilter.json"
        config.write_text(json.dumps(configuration(source, target, folder, arguments.jobs)))
        for number in range(arguments.rounds):
            for system in runs if number % 2 == 0 else reversed(runs):
                if system == "uwaga":
                    files = [str(source), str(target), "-o", f"{folder}/u.en", "-o", f"{folder}/u.de"]
                    options = ["--from", "en", "--to", "de", "--rules", ",".join(SHARED)]
                    figures = uwaga([*files, *options], arguments.jobs)
                else:
                    script = Path(python).parent / "opusfilter"
                    figures = measure_command([str(python), str(script), "--overwrite", str(config)])
                runs[system].append(figures["seconds"])
                print(f"round {number + 1}: {system} {figures['seconds']:.1f} s", file=sys.stderr, flush=True)
        compare(folder)
    medians = {system: statistics.median(times) for system, times in runs.items()}
    for system, seconds in medians.items():
        print(f"{system:<11} {seconds:7.2f} s  {arguments.pairs / seconds:9,.0f} pairs/s")
    factor = medians["OpusFilter"] / medians["uwaga"]
    print(f"uwaga is {factor:.1f} times as fast ({arguments.pairs:,} pairs, {arguments.jobs} processes)")
    arguments.found["peer"] = {"runs": runs, "factor": factor}
    return [] if factor >= BAR else [f"peer: {factor:.1f} times, less than {BAR}"]


def configuration(source: Path, target: Path, folder: Path, jobs: int) -> dict[str, Any]:
    """Return the configuration of OpusFilter; JSON is also YAML."""
    intermediate = [str(folder / "between.en"), str(folder / "between.de")]
    output = [str(folder / "o.en"), str(folder / "o.de")]
    files = {"inputs": [str(source), str(target)], "outputs": intermediate}
    return {
        "common": {"output_directory": str(folder), "default_n_jobs": jobs},
        "steps": [
            {"type": "filter", "parameters": {**files, "filters": FILTERS}},
            {"type": "remove_duplicates", "parameters": {"inputs": intermediate, "outputs": output}},
        ],
    }


def compare(folder: Path) -> None:
    """Print the number of lines that each system kept, and examples of lines that only one of them kept."""
    outputs = []
    for system in ("u", "o"):
        columns = [
            (folder / f"{system}.{end}").read_text(encoding="utf-8").split("\n") for end in ("en", "de")
        ]
        outputs.append(list(zip(*columns, strict=True)))
    print(
        f"kept: uwaga {len(outputs[0]) - 1:,}, OpusFilter {len(outputs[1]) - 1:,}; "
        f"the same: {outputs[0] == outputs[1]}"
    )
    for name, only_here, other_pairs in (
        ("uwaga", outputs[0], set(outputs[1])),
        ("OpusFilter", outputs[1], set(outputs[0])),
    ):
        for pair in [candidate for candidate in only_here if candidate not in other_pairs][:3]:
            print(f"  {name} alone: {pair}")


def main() -> None:
    if sys.argv[1:2] == ["worker"]:
        worker(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["growth", "peer"])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--pairs", type=int, default=1_000_000, help="number of pairs of the comparison")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--without", default="language", help="rules to leave out in growth")
    parser.add_argument(
        "--data", type=Path, default=CACHE / "cleaning", help="folder of the generated corpora"
    )
    parser.add_argument("--peer-python", type=Path, help="Python of an environment with opusfilter")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a bar is missed")
    arguments = parser.parse_args()
    host = machine()
    print(f"{host['cpu']}, {host['cores']} cores, load {host['load']:.1f}", file=sys.stderr)
    arguments.found = {"machine": host}
    missed = growth(arguments) if arguments.what == "growth" else peer(arguments)
    for line in missed:
        print(line)
    if arguments.json:
        arguments.json.write_text(json.dumps(arguments.found, indent=2) + "\n")
    if arguments.check and missed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

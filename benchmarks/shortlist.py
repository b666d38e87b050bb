"""Compare vocabulary shortlists with CTranslate2's vocabulary map, at the size of an OPUS-MT model in int8.

    python benchmarks/shortlist.py [--cores 1 2] [--rounds 5] [--folder DIR]

The weights are random. There are 16 target tokens, and sources of 15 tokens, which are distributed like words
(Zipf's law). A list has 2,000 tokens for all sentences, or 300 tokens and 30 more for each source token.
CTranslate2 merges the lists of a batch; uwaga has a list for each sentence, so that a translation does not
depend on other sentences. On two cores, CTranslate2 runs two threads in one worker and two workers; the
faster is used.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from engine import environment, prepare
from peers.machine import machine
from peers.opus_size import VOCABULARY

TARGET = 16
CASES = ((1, 1), (8, 1), (32, 1), (64, 1), (32, 4))
"""Numbers of sentences and beam sizes."""
KINDS = {"2000": (2000, 0), "300+30": (300, 30)}
"""Number of common tokens, and of further tokens for each source token."""

System = Callable[[list[list[int]], int], None]


def lists(kind: str) -> tuple[list[int], dict[int, list[int]]]:
    """Return the common target tokens, and the target tokens of each source token.

    The end symbol is token 0.
    """
    common, size = KINDS[kind]
    rng = np.random.default_rng(7)
    first = np.union1d(rng.choice(np.arange(2, VOCABULARY - 1), common - 2, replace=False), [0, 1])
    targets_by_token = {
        token: np.unique(rng.integers(2, VOCABULARY - 1, size)).tolist() if size else []
        for token in range(VOCABULARY)
    }
    return first.tolist(), targets_by_token


def sources(count: int, seed: int = 0) -> list[list[int]]:
    """Return sources of 15 tokens on average, including the end symbol.

    The frequency of a token is inversely proportional to its rank.
    """
    rng = np.random.default_rng(seed)
    results = []
    for length in rng.integers(10, 21, count):
        ranks = np.exp(rng.random(int(length) - 1) * np.log(VOCABULARY - 4))
        results.append([*(ranks.astype(int) + 2).tolist(), 0])
    return results


def write_vmap(folder: Path, kind: str) -> Path:
    """Write the CTranslate2 model with a vocabulary map, and return its folder.

    The line of the map with an empty source applies to all sentences.
    """
    path = folder / f"ct2-int8-{kind}"
    path.mkdir(exist_ok=True)
    for file in (folder / "ct2-int8").iterdir():
        if not (path / file.name).exists():
            os.link(file, path / file.name)
    values = json.loads((folder / "marian" / "vocab.json").read_text())
    pieces = {number: piece for piece, number in values.items()}
    common, targets_by_token = lists(kind)
    with (path / "vmap.txt").open("w") as file:
        file.write("\t" + " ".join(pieces[token] for token in common) + "\n")
        for token, targets in targets_by_token.items():
            if targets:
                file.write(f"{pieces[token]}\t{' '.join(pieces[target] for target in targets)}\n")
    return path


def uwaga_system(folder: Path, cores: int, kind: str | None) -> System:
    """Return a function that translates with the engine and a shortlist, or with the whole vocabulary."""
    import uwaga
    from uwaga.engine import Shortlist
    from uwaga.search import SearchInput, SearchOptions, search

    model = uwaga.load(folder / "uwaga-int8", device="cpu", threads=cores).decoder
    if kind:
        common, targets_by_token = lists(kind)
        first = np.cumsum([0, *map(len, targets_by_token.values())])
        flat = [target for targets in targets_by_token.values() for target in targets]
        parts = (np.array(part, dtype=np.int32) for part in (common, first, flat))
        model = model.with_shortlist(Shortlist(*parts, VOCABULARY))

    def run(batch: list[list[int]], beam: int) -> None:
        options = SearchOptions(
            beam=beam, max_length=TARGET, min_length=TARGET, max_ratio=float("inf"), batch_tokens=1 << 20
        )
        for [hypothesis] in search(model, list(map(SearchInput, batch)), options):
            assert len(hypothesis.tokens) == TARGET

    return run


def ctranslate2_system(folder: Path, inner: int, outer: int, kind: str | None) -> System:
    """Return a function that translates the same weights with ``outer`` workers of ``inner`` threads each."""
    import ctranslate2

    path = folder / (f"ct2-int8-{kind}" if kind else "ct2-int8")
    translator = ctranslate2.Translator(
        str(path), compute_type="int8", intra_threads=inner, inter_threads=outer
    )
    values = json.loads((folder / "marian" / "vocab.json").read_text())
    pieces = {number: piece for piece, number in values.items()}

    common, targets_by_token = lists(kind) if kind else ([], {})
    checked: list[bool] = []

    def run(batch: list[list[int]], beam: int) -> None:
        results = translator.translate_batch(
            [[pieces[token] for token in ids] for ids in batch],
            beam_size=beam,
            max_batch_size=-(-len(batch) // outer),
            min_decoding_length=TARGET,
            max_decoding_length=TARGET,
            use_vmap=kind is not None,
        )
        for result in results:
            assert len(result.hypotheses[0]) == TARGET
        if kind and not checked:
            allowed = set(common).union(*(targets_by_token[token] for ids in batch for token in ids))
            assert all(values[piece] in allowed for result in results for piece in result.hypotheses[0])
            checked.append(True)

    return run


def work(folder: Path, cores: int, rounds: int) -> dict[str, Any]:
    """Return the target tokens per second of each system, kind and case, as medians of alternating rounds."""
    systems: dict[str, System] = {}
    for kind in (None, *KINDS):
        systems[f"uwaga {kind or 'whole'}"] = uwaga_system(folder, cores, kind)
        systems[f"CTranslate2 {kind or 'whole'}"] = ctranslate2_system(folder, cores, 1, kind)
        if cores > 1:
            systems[f"CTranslate2 {kind or 'whole'}, workers"] = ctranslate2_system(folder, 1, cores, kind)
    rates: dict[str, Any] = {}
    for size, beam in CASES:
        times: dict[str, list[float]] = {name: [] for name in systems}
        repeats = max(1, 32 // (size * beam))
        for number in range(rounds + 1):
            batches = [sources(size, seed=repeats * number + repeat) for repeat in range(repeats)]
            for name, system in systems.items():
                start = time.perf_counter()
                for batch in batches:
                    system(batch, beam)
                if number:
                    times[name].append((time.perf_counter() - start) / repeats)
        rates[f"{size}x{beam}"] = {
            name: size * TARGET / statistics.median(values) for name, values in times.items()
        }
    return rates


def show(rates: dict[str, dict[str, float]], cores: int) -> None:
    print(f"\ntarget tokens a second, cores: {cores}")
    print(f"{'batch x beam':>12} {'list':>8} {'uwaga':>9} {'CTranslate2':>12} {'ratio':>6}")
    for case, speeds in rates.items():
        for kind in ("whole", *KINDS):
            uwaga_speed = speeds[f"uwaga {kind}"]
            peer_speed = max(
                speed for name, speed in speeds.items() if name.startswith(f"CTranslate2 {kind}")
            )
            print(
                f"{case:>12} {kind:>8} {uwaga_speed:9.0f} {peer_speed:12.0f} {uwaga_speed / peer_speed:6.2f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=int, nargs="+", default=[1])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="folder for the models; default: a temporary folder")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(work(arguments.folder, arguments.cores[0], arguments.rounds)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        run_all(arguments, arguments.folder or Path(temporary))


def run_all(arguments: argparse.Namespace, folder: Path) -> None:
    print(machine())
    folder.mkdir(parents=True, exist_ok=True)
    prepare(folder)
    for kind in KINDS:
        write_vmap(folder, kind)
    results: dict[str, Any] = {}
    for cores in arguments.cores:
        allowed = sorted(os.sched_getaffinity(0))[:cores]
        worker = ["--worker", "--folder", str(folder), "--cores", str(cores)]
        process = subprocess.run(
            [sys.executable, __file__, *worker, "--rounds", str(arguments.rounds)],
            env=environment(cores, None),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            preexec_fn=lambda allowed=allowed: os.sched_setaffinity(0, allowed),
        )
        results[str(cores)] = json.loads(process.stdout.splitlines()[-1])
        show(results[str(cores)], cores)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

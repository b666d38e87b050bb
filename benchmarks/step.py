"""Measure the cost of a decoding step in Python: the time of a search minus the time of the core.

    python benchmarks/step.py
    python benchmarks/step.py --against ../uwaga-before --rounds 5 --check

There are three searches, each of 32 steps, greedy and with beam 4, of 1, 8 and 64 sentences:

- ``engine``: the search of a translation on a tiny model (one layer of width 16, 96 tokens), minus the time
  that the core alone takes to encode the same sentences and to run the same steps;
- ``numpy``: the same model searched step by step by numpy, as for streams and samples;
- ``instant``: the numpy search over a decoder that returns prepared arrays at once.

``--against`` names another checkout (with a built core), which takes turns with this one, each round in a new
process. Figures are medians over the rounds of the fastest of several searches. The bars for ``engine`` are
60 µs per step at batch size 1, and 150 µs at 64.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
STEPS, VOCABULARY, SOURCE = 32, 96, 20
BATCHES, BEAMS = (1, 8, 64), (1, 4)
BARS = {1: 60.0, 64: 150.0}


def fastest(work: Callable[[], object], count: int) -> float:
    """Return the seconds of the fastest of ``count`` calls."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def tiny_model() -> Any:
    from uwaga.decoder import Symbols
    from uwaga.engine import NativeModel
    from uwaga.engine.layout import stored_shapes
    from uwaga.engine.packing import pack
    from uwaga.settings import TransformerSettings

    shape = TransformerSettings(
        encoder_layers=1, decoder_layers=1, width=16, heads=2, feed_forward=16, tie="all", dropout=0.0
    )
    rng, shapes = np.random.default_rng(0), stored_shapes(shape, VOCABULARY, VOCABULARY)
    packed = pack(
        shape,
        (VOCABULARY, VOCABULARY),
        lambda name: rng.normal(0, 0.3, shapes[name]).astype(np.float32),
        "int8",
    )
    return NativeModel(shape, Symbols(0, 1, 2, 3), (VOCABULARY, VOCABULARY), packed)


class Instant:
    """A decoder that returns prepared arrays at once; it is also its own memory and state."""

    max_source = max_target = 64
    vocabulary = VOCABULARY
    beam_search = None

    def __init__(self) -> None:
        from uwaga.decoder import Step, Symbols

        self.symbols, self._step = Symbols(0, 1, 2, 3), Step
        rng = np.random.default_rng(0)
        self._tokens = rng.integers(4, VOCABULARY, (256, 8))
        self._log_probs = -np.sort(rng.random((256, 8)).astype(np.float32), axis=1)

    def encode(self, sources: Sequence[Sequence[int]]) -> Instant:
        return self

    def start(self, memory: object, beams: int) -> Instant:
        return self

    def reorder(self, rows: object) -> Instant:
        return self

    select = reorder

    def join(self, first: object, second: object) -> Instant:
        return self

    def step(self, tokens: Any, state: object, choice: Any) -> Any:
        rows, k = len(tokens), choice.count
        return self._step(self._tokens[:rows, :k], self._log_probs[:rows, :k], self)


def core_search(model: Any, sources: list[list[int]], beam: int) -> Callable[[], object]:
    """Return a function that runs the same encoding and decoding steps in the core alone."""
    rows, count = len(sources) * beam, 1 if beam == 1 else 2 * beam
    tokens, same = np.full(rows, 5), np.arange(rows)
    banned = np.stack([np.repeat(np.arange(rows), 3), np.tile([0, 1, 2], rows)], axis=1)

    def work() -> None:
        state = model.start(model.encode(sources), beam)
        for _ in range(STEPS):
            state = state.step(tokens, count, False, False, False, banned)[2]
            if beam > 1:
                state = state.reorder(same)

    return work


def measure() -> dict[str, float]:
    """Return the microseconds of Python per step, by search, beam size and batch size."""
    from uwaga.search import SearchInput, SearchOptions, search

    engine = tiny_model()
    numpy = copy.copy(engine)
    numpy.beam_search = None
    rng, times = np.random.default_rng(1), {}
    for beam in BEAMS:
        options = SearchOptions(
            beam=beam, min_length=STEPS - 1, max_length=STEPS, max_ratio=50.0, batch_tokens=10**6
        )
        for batch in BATCHES:
            sources = [rng.integers(4, VOCABULARY, SOURCE).tolist() for _ in range(batch)]
            sentences, count = list(map(SearchInput, sources)), max(8, 60 // batch)
            core = fastest(core_search(engine, sources, beam), count)
            for name, decoder, overhead in (
                ("engine", engine, core),
                ("numpy", numpy, core),
                ("instant", Instant(), 0.0),
            ):
                search(decoder, sentences, options)
                seconds = fastest(lambda: search(decoder, sentences, options), count) - overhead  # noqa: B023
                times[f"{name} beam {beam} batch {batch}"] = seconds / STEPS * 1e6
    return times


def run(root: Path) -> dict[str, float]:
    environment = dict(os.environ, PYTHONPATH=str(root / "src"), OMP_NUM_THREADS="1")
    command = [sys.executable, __file__, "--worker"]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    times: dict[str, float] = json.loads(process.stdout)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--against", type=Path, help="another checkout to measure")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a bar is missed")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(measure()))
        return 0
    from peers.machine import machine

    roots = [ROOT, *([arguments.against] if arguments.against else [])]
    rounds: dict[Path, list[dict[str, float]]] = {root: [] for root in roots}
    for number in range(arguments.rounds):
        for root in roots[number % len(roots) :] + roots[: number % len(roots)]:
            rounds[root].append(run(root.resolve()))
    print(json.dumps(machine()))
    print("µs of Python a step".ljust(26), *(f"{root.resolve().name:>12}" for root in reversed(roots)))
    missed = False
    for name in rounds[ROOT][0]:
        medians = [statistics.median(run[name] for run in rounds[root]) for root in reversed(roots)]
        bar = BARS.get(int(name.split()[-1])) if name.startswith("engine") else None
        missed = missed or (bar is not None and medians[-1] > bar)
        print(name.ljust(26), *(f"{median:12.1f}" for median in medians), f"  bar {bar:.0f}" if bar else "")
    return int(missed and arguments.check)


if __name__ == "__main__":
    sys.exit(main())

"""Measure translation memories: pairs imported per second, and the time of a look-up in a million pairs.

Usage: python benchmarks/memory.py [--pairs 1000000] [--data DIR] [--folder DIR]

The pairs are those of Python's documentation (en-pt), Tatoeba (en-de) and Multi30k (en-de), and, until there
are enough, copies of them in which two of every five words are replaced at random by word frequency. The new
sentences of version 3.13 of the documentation, which are not in the memory, are looked up.
"""

from __future__ import annotations

import argparse
import gzip
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from uwaga_memory import Memory, Pair

SHARE_REDRAWN = 0.4
LOOKUPS = 1_000
THRESHOLDS = (85, 75, 60, 50)


def lines(path: Path) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from (line.rstrip("\n") for line in file)


def real_pairs(data: Path) -> list[Pair]:
    rows = [line.split("\t") for line in lines(data / "pydocs/memory-3.12.en-pt.tsv.gz")]
    pairs = [Pair(source, target, origin) for origin, source, target in rows]
    rows = [line.split("\t") for line in lines(data / "tatoeba/train.en-de.tsv.gz")]
    pairs += [Pair(row[0], row[1], "tatoeba") for row in rows]
    captions = zip(lines(data / "multi30k/train.en.gz"), lines(data / "multi30k/train.de.gz"), strict=True)
    return pairs + [Pair(source, target, "multi30k") for source, target in captions]


def many_pairs(pairs: list[Pair], count: int) -> Iterator[Pair]:
    """Yield the pairs, and then copies of them in which some words are replaced."""
    yield from pairs[:count]
    generator = random.Random(0)
    frequencies = Counter(word for pair in pairs for word in pair.source.split())
    words, weights = list(frequencies), list(frequencies.values())
    drawn: list[str] = []
    for number in range(len(pairs), count):
        pair = pairs[number % len(pairs)]
        if len(drawn) < 1_000:
            drawn = generator.choices(words, weights, k=100_000)
        source = [drawn.pop() if generator.random() < SHARE_REDRAWN else word for word in pair.source.split()]
        yield Pair(" ".join(source), pair.target, pair.origin)


def quantiles(seconds: list[float]) -> str:
    """Return the median and the 90th and 99th percentile in milliseconds."""
    percentiles = statistics.quantiles(seconds, n=100, method="inclusive")
    return (
        "50 / 90 / 99 % "
        + " / ".join(f"{1_000 * percentiles[share - 1]:.2f}" for share in (50, 90, 99))
        + " ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        path = (arguments.folder or Path(temporary)) / "benchmark.uwm"
        if not path.exists():
            pairs = list(many_pairs(real_pairs(arguments.data), arguments.pairs))
            memory = Memory.create(path, "en", "pt")
            started, processor = time.perf_counter(), time.process_time()
            added = memory.add(pairs)
            seconds, processor = time.perf_counter() - started, time.process_time() - processor
            print(
                f"import: {added.new:,} pairs, {added.known:,} repeated, {len(pairs) / seconds:,.0f} pairs/s "
                f"({processor:.0f} s of processor time), {path.stat().st_size / 1e6:,.0f} MB",
                flush=True,
            )
        memory = Memory(path)
        rows = [line.split("\t") for line in lines(arguments.data / "pydocs/new-3.13.en-pt.tsv.gz")]
        texts = random.Random(1).sample([row[1] for row in rows], LOOKUPS)
        for text in texts[:50]:
            memory.matches(text)
        for threshold in THRESHOLDS:
            wall, processor, matches = [], [], 0
            for text in texts:
                started, used = time.perf_counter(), time.process_time()
                matches += bool(memory.matches(text, threshold=threshold))
                processor.append(time.process_time() - used)
                wall.append(time.perf_counter() - started)
            print(
                f"look-up, threshold {threshold}: {quantiles(wall)}; processor: {quantiles(processor)}; "
                f"{matches} of {len(texts)} with a match",
                flush=True,
            )


if __name__ == "__main__":
    main()

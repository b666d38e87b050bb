"""Check that translations with a memory are equal to the last bit alone, in any batch, order, thread and
process.

    python benchmarks/memory_bits.py --model FOLDER --pydocs FOLDER --texts 1000

The documentation of Python 3.12 is stored in the memory, and new texts of 3.13 are translated: in one batch,
and then with two threads, one by one, in shuffled batches, by four concurrent callers, with a memory whose
states are computed again, and by two processes that share a memory. The number of translations that differ in
their text, score, scores of tokens or use of the memory is printed for each.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from memory_use import rows

import uwaga
from uwaga_memory.store import Memory, Pair

PROCESSES = 2
CALLERS = 4
BATCH = 37


def bits(translation: uwaga.Translation) -> tuple[object, ...]:
    """Return the values of a translation that must be equal to the last bit."""
    uses = tuple(use.used for use in translation.memory)
    return translation.text, translation.score, tuple(translation.token_scores), uses


def digest(results: Sequence[object]) -> str:
    """Return a hash of the results of a process."""
    return hashlib.sha256(repr(results).encode()).hexdigest()


def main() -> None:
    """Print the number of differing translations for each method."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--pydocs", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=51)
    parser.add_argument(
        "--memory",
        type=Path,
        help="memory to translate every second text with; the script then prints a digest",
    )
    parser.add_argument("--first", type=int, default=0, help="with --memory: the index of the first text")
    options = parser.parse_args()
    texts = [row[1] for row in rows(options.pydocs / "new-3.13.en-pt.tsv.gz")]
    texts = random.Random(options.seed).sample(texts, options.texts)
    translator = uwaga.load(options.model, threads=1)
    if options.memory:
        memory = Memory(options.memory)
        share = texts[options.first :: PROCESSES]
        print(digest([bits(result) for result in translator.translate(share, memory=memory)]))
        return
    with TemporaryDirectory() as folder:
        empty, path = Path(folder) / "empty.uwm", Path(folder) / "memory.uwm"
        remembered = rows(options.pydocs / "memory-3.12.en-pt.tsv.gz")
        with Memory.create(empty, "en", "pt") as memory:
            memory.add(Pair(source, target, origin) for origin, source, target in remembered)
        shutil.copy(empty, path)
        memory, parallel = Memory(path), uwaga.load(options.model, threads=2)
        expected = [bits(result) for result in translator.translate(texts, memory=memory)]

        def report(name: str, results: Sequence[object]) -> None:
            different = sum(result != other for result, other in zip(results, expected, strict=True))
            print(f"{name}: {different} of {len(expected):,} differ", flush=True)

        report("two threads", [bits(result) for result in parallel.translate(texts, memory=memory)])
        report("one by one", [bits(translator.translate(text, memory=memory)) for text in texts])
        order = random.Random(options.seed).sample(range(len(texts)), len(texts))
        shuffled: dict[int, object] = {}
        for start in range(0, len(order), BATCH):
            indices = order[start : start + BATCH]
            batch = parallel.translate([texts[index] for index in indices], memory=memory)
            shuffled |= zip(indices, map(bits, batch), strict=True)
        report(f"shuffled batches of {BATCH}", [shuffled[index] for index in range(len(texts))])
        with ThreadPoolExecutor(CALLERS) as callers:
            results = callers.map(lambda text: bits(parallel.translate(text, memory=memory)), texts)
            report(f"{CALLERS} callers", list(results))
        shutil.copy(empty, Path(folder) / "other.uwm")
        other = Memory(Path(folder) / "other.uwm")
        report("states computed anew", [bits(result) for result in parallel.translate(texts, memory=other)])
        command = [sys.executable, __file__, *sys.argv[1:], "--memory", str(empty), "--first"]
        processes = [
            subprocess.Popen([*command, str(first)], stdout=subprocess.PIPE, text=True)
            for first in range(PROCESSES)
        ]
        for first, process in enumerate(processes):
            equal = process.communicate()[0].strip() == digest(expected[first::PROCESSES])
            print(f"process {first + 1} of {PROCESSES}: {'equal' if equal else 'different'}")


if __name__ == "__main__":
    main()

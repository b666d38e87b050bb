"""chrF of translations with a memory: documentation of Python 3.12 remembered, texts new in 3.13 translated.

    python benchmarks/memory_use.py --model FOLDER --pydocs FOLDER --texts 500
    python benchmarks/memory_use.py --model FOLDER --pydocs FOLDER --texts 500 --unrelated FOLDER/flores

For each bin of similarity, the mean chrF of sentences and the share that equals the reference: the memory's
translation, the model, and the model with the memory. Then processor seconds of the model alone, with the
memory for the first time, when states are computed, and once they are kept, in batches of 1 and 32. With
``--unrelated``, the memory is that of FLORES instead.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import sacrebleu

import uwaga
from uwaga_memory.store import Memory, Pair

T = TypeVar("T")
MARKUP = re.compile(r"[`*%|\\]|:\w+:")
BINS = (95.0, 85.0, 75.0, 50.0, 0.0)


def rows(path: Path) -> list[list[str]]:
    """Return the rows of a table: file, source, target."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines]


def flores(folder: Path) -> list[Pair]:
    """Return the pairs of FLORES's development set."""
    sides = []
    for language in ("en", "pt"):
        with gzip.open(folder / f"dev.{language}.gz", "rt", encoding="utf-8") as lines:
            sides.append(lines.read().splitlines())
    return [Pair(*pair) for pair in zip(*sides, strict=True)]


def timed(run: Callable[[], T]) -> tuple[T, float]:
    """Return what a function returns, and its processor time in seconds."""
    started = time.process_time()
    result = run()
    return result, time.process_time() - started


def main() -> None:
    """Print a table by similarity, and the time of each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--pydocs", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=51)
    parser.add_argument("--threshold", type=float, default=75.0)
    parser.add_argument("--unrelated", type=Path, help="folder of FLORES, whose pairs are remembered instead")
    parser.add_argument("--unmarked", action="store_true", help="only texts without markup, like their pairs")
    parser.add_argument("--each", type=int, default=0, help="draw so many texts of each bin instead")
    options = parser.parse_args()
    translator = uwaga.load(options.model)
    texts = rows(options.pydocs / "new-3.13.en-pt.tsv.gz")
    random.Random(options.seed).shuffle(texts)
    with TemporaryDirectory() as folder:
        memory = Memory.create(Path(folder) / "memory.uwm", "en", "pt")
        remembered = rows(options.pydocs / "memory-3.12.en-pt.tsv.gz")
        memory.add(Pair(source, target, origin) for origin, source, target in remembered)
        best: list[tuple[float, str]] = []
        drawn: list[list[str]] = []
        counts = dict.fromkeys(BINS, 0)
        for row in texts:
            if options.unmarked and MARKUP.search(row[1]):
                continue
            found = [
                match
                for match in memory.matches(row[1], threshold=50, limit=8)
                if not options.unmarked or not MARKUP.search(match.source)
            ]
            score = found[0].score if found else 0.0
            bin_ = next(least for least in BINS if score >= least)
            counts[bin_] += 1
            if options.each and counts[bin_] > options.each:
                continue
            best.append((score, found[0].target if found else ""))
            drawn.append(row)
            if len(drawn) >= (options.each * len(BINS) or options.texts):
                break
        sources, references = [row[1] for row in drawn], [row[2] for row in drawn]
        if options.unrelated:
            memory = Memory.create(Path(folder) / "unrelated.uwm", "en", "pt")
            memory.add(flores(options.unrelated))
        translator.translate(sources[:20])
        plain, seconds = timed(lambda: translator.translate(sources))
        print(f"the model: {seconds:.1f} s")
        for name in ("first", "kept"):
            used, seconds = timed(
                lambda: translator.translate(sources, memory=memory, threshold=options.threshold)
            )
            print(f"with the memory, {name}: {seconds:.1f} s")
        few = sources[:100]
        _, single = timed(lambda: [translator.translate(text) for text in few])
        _, with_memory = timed(
            lambda: [translator.translate(text, memory=memory, threshold=options.threshold) for text in few]
        )
        _, looked_up = timed(
            lambda: [memory.matches(text, threshold=options.threshold, limit=8) for text in few]
        )
        print(
            f"one by one, {len(few)}: {single:.2f} s, with the memory {with_memory:.2f} s, "
            f"of which looking up {looked_up:.2f} s"
        )
    systems = {
        "memory": [target for _, target in best],
        "plain": [translation.text for translation in plain],
        "with memory": [translation.text for translation in used],
    }
    for number, least in enumerate((*BINS, None)):
        above = BINS[number - 1] if number else 101.0
        chosen = [i for i, (score, _) in enumerate(best) if least is None or least <= score < above]
        if not chosen:
            continue
        cells = []
        for outputs in systems.values():
            scores = [sacrebleu.sentence_chrf(outputs[i], [references[i]]).score for i in chosen]
            exact = sum(outputs[i] == references[i] for i in chosen)
            cells.append(f"{sum(scores) / len(scores):5.1f} ({exact / len(chosen):4.0%})")
        ways = [use.used for i in chosen for use in used[i].memory]
        counted = ", ".join(f"{ways.count(way)} {way}" for way in dict.fromkeys(ways))
        name = "all" if least is None else f">= {least:g}"
        print(
            f"{name:6} {len(chosen):4}", *(f"{n} {c}" for n, c in zip(systems, cells, strict=True)), counted
        )


if __name__ == "__main__":
    main()

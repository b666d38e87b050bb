"""chrF of translations with a memory: documentation of Python 3.12 remembered, texts new in 3.13 translated.

python benchmarks/memory_use.py --model FOLDER --pydocs FOLDER --texts 500
"""

from __future__ import annotations

import argparse
import gzip
import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import sacrebleu

import uwaga
from uwaga_memory.store import Memory, Pair

BINS = (95.0, 85.0, 75.0, 50.0, 0.0)


def rows(path: Path) -> list[list[str]]:
    """Return the rows of a table: file, source, target."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines]


def main() -> None:
    """Print a table by similarity, and the time of each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--pydocs", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=51)
    parser.add_argument("--threshold", type=float, default=75.0)
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
            found = memory.matches(row[1], threshold=50, limit=1)
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
        translator.translate(sources[:20], memory=memory)
        started = time.perf_counter()
        plain = translator.translate(sources)
        middle = time.perf_counter()
        used = translator.translate(sources, memory=memory, threshold=options.threshold)
        print(f"plain {middle - started:.1f} s, with memory {time.perf_counter() - middle:.1f} s")
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

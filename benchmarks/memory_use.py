"""Measure the chrF of translations with a memory: Python 3.12's documentation remembered, 3.13's translated.

    python benchmarks/memory_use.py --model FOLDER --pydocs FOLDER --texts 500
    python benchmarks/memory_use.py --model FOLDER --pydocs FOLDER --texts 500 --unrelated FOLDER/flores
    python benchmarks/memory_use.py --model FOLDER --pydocs FOLDER --texts 500 --adapter FOLDER

For each bin of similarity, the script prints the mean sentence chrF and the share of translations that equal
the reference, for the memory's translation, the model, and the model with the memory; and how many literals,
roles and placeholders of the texts are in their translations. With ``--adapter``, a folder of ``uwaga memory
adapt``, it also measures the model with the adapter, and with the adapter and the memory. Before that, it
prints the seconds of the model alone and with the memory, after its states have been cached, in batches of 1
and of 32: the smallest of three alternating measurements. With ``--unrelated``, the memory contains FLORES
instead, and FLORES is translated with the memory of the documentation.
"""

from __future__ import annotations

import argparse
import gzip
import math
import random
import re
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import sacrebleu

import uwaga
from uwaga_memory.store import Memory, Pair

MARKUP = re.compile(r"[`*%|\\]|:\w+:")
PROTECTED = re.compile(r" <[^<>`\s]+>`_*|(?::[\w:]+:)?`+[^`<\s](?:[^`<]*[^`<\s])?`+_*|%\(\w+\)s|\|\w+\|")
"""Literals, roles and links of reStructuredText (of a link with a title, its target), and placeholders."""
BINS = (95.0, 85.0, 75.0, 50.0, 0.0)


def rows(path: Path) -> list[list[str]]:
    """Return the rows of a table with the columns file, source and target."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines]


def flores(folder: Path) -> list[Pair]:
    """Return the pairs of FLORES's development set."""
    sides = []
    for language in ("en", "pt"):
        with gzip.open(folder / f"dev.{language}.gz", "rt", encoding="utf-8") as lines:
            sides.append(lines.read().splitlines())
    return [Pair(*pair) for pair in zip(*sides, strict=True)]


def print_times(translator: uwaga.Translator, texts: Sequence[str], size: int, **options: Any) -> None:
    """Print the seconds of translating texts in batches of ``size``, with and without the options."""
    batches = [texts[start : start + size] for start in range(0, len(texts), size)]
    least = [math.inf, math.inf]
    for _ in range(3):
        for index, used in enumerate(({}, options)):
            started = time.perf_counter()
            for batch in batches:
                translator.translate(batch, **used)
            least[index] = min(least[index], time.perf_counter() - started)
    plain, with_memory = least
    ratio = with_memory / plain
    print(f"batches of {size}: {plain:.2f} s, with the memory {with_memory:.2f} s, {ratio:.2f} times")


def mean_chrf(outputs: Sequence[str], references: Sequence[str]) -> float:
    """Return the mean sentence chrF."""
    pairs = zip(outputs, references, strict=True)
    return statistics.mean(sacrebleu.sentence_chrf(output, [reference]).score for output, reference in pairs)


def share_kept(pattern: re.Pattern[str], sources: Sequence[str], outputs: Sequence[str]) -> str:
    """Return how many matches of a pattern in the sources also occur in their translations."""
    total = preserved = 0
    for source, output in zip(sources, outputs, strict=True):
        pieces = Counter(pattern.findall(source))
        total += pieces.total()
        preserved += (pieces & Counter(pattern.findall(output))).total()
    return f"{preserved:,} of {total:,}"


def main() -> None:
    """Print a table by similarity, and the time of each method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--pydocs", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=51)
    parser.add_argument("--threshold", type=float, default=50.0)
    parser.add_argument("--threads", type=int)
    parser.add_argument(
        "--unrelated", type=Path, help="folder of FLORES, whose pairs are stored in the memory instead"
    )
    parser.add_argument("--adapter", type=Path, help="an adapter of the model, trained on the memory")
    parser.add_argument("--unmarked", action="store_true", help="use only texts without markup")
    parser.add_argument("--each", type=int, default=0, help="number of texts to draw from each bin instead")
    options = parser.parse_args()
    translator = uwaga.load(options.model, threads=options.threads)
    texts = rows(options.pydocs / "new-3.13.en-pt.tsv.gz")
    random.Random(options.seed).shuffle(texts)
    with TemporaryDirectory() as folder:
        memory = Memory.create(Path(folder) / "memory.uwm", "en", "pt")
        remembered = rows(options.pydocs / "memory-3.12.en-pt.tsv.gz")
        memory.add(Pair(source, target, origin) for origin, source, target in remembered)
        best: list[tuple[float, str]] = []
        sample: list[list[str]] = []
        counts = dict.fromkeys(BINS, 0)
        for row in texts:
            if options.unmarked and MARKUP.search(row[1]):
                continue
            matches = [
                match
                for match in memory.matches(row[1], threshold=50, limit=8)
                if not options.unmarked or not MARKUP.search(match.source)
            ]
            score = matches[0].score if matches else 0.0
            bin_ = next(least for least in BINS if score >= least)
            counts[bin_] += 1
            if options.each and counts[bin_] > options.each:
                continue
            best.append((score, matches[0].target if matches else ""))
            sample.append(row)
            if len(sample) >= (options.each * len(BINS) or options.texts):
                break
        sources, references = [row[1] for row in sample], [row[2] for row in sample]
        if options.unrelated:
            pairs = flores(options.unrelated)
            others = [pair.source for pair in pairs]
            for name, results in (
                ("plain", translator.translate(others)),
                ("with the memory of the documentation", translator.translate(others, memory=memory)),
            ):
                outputs = [result.text for result in results]
                print(f"FLORES, {name}: {mean_chrf(outputs, [pair.target for pair in pairs]):.2f}")
            memory = Memory.create(Path(folder) / "unrelated.uwm", "en", "pt")
            memory.add(pairs)
        plain = translator.translate(sources)
        used = translator.translate(sources, memory=memory, threshold=options.threshold)
        if options.adapter:
            adapted = uwaga.load(adapter=options.adapter, threads=options.threads)
            with_adapter = adapted.translate(sources)
            with_both = adapted.translate(sources, memory=memory, threshold=options.threshold)
        for size in (1, 32):
            print_times(translator, sources, size, memory=memory, threshold=options.threshold)
    systems = {
        "memory": [target for _, target in best],
        "plain": [translation.text for translation in plain],
        "with memory": [translation.text for translation in used],
    }
    if options.adapter:
        systems["with adapter"] = [translation.text for translation in with_adapter]
        systems["with both"] = [translation.text for translation in with_both]
    for number, least in enumerate((*BINS, None)):
        above = BINS[number - 1] if number else 101.0
        indices = [i for i, (score, _) in enumerate(best) if least is None or least <= score < above]
        if not indices:
            continue
        cells = []
        for outputs in systems.values():
            chrf = mean_chrf([outputs[i] for i in indices], [references[i] for i in indices])
            exact = sum(outputs[i] == references[i] for i in indices)
            cells.append(f"{chrf:5.1f} ({exact / len(indices):4.0%})")
        ways = [use.used for i in indices for use in used[i].memory]
        counted = ", ".join(f"{ways.count(way)} {way}" for way in dict.fromkeys(ways))
        name = "all" if least is None else f">= {least:g}"
        print(
            f"{name:6} {len(indices):4}", *(f"{n} {c}" for n, c in zip(systems, cells, strict=True)), counted
        )
    for name in list(systems)[1:]:
        print(f"{name}: kept {share_kept(PROTECTED, sources, systems[name])} pieces of markup")


if __name__ == "__main__":
    main()

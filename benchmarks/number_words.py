"""Measure how often numbers in words are reported as missing from translations by people.

    python benchmarks/number_words.py PAIRS.tsv --from en --to de [--show 30]

Each line has a source and one or more translations, separated by tabs. Of correct translations, each report
is a false alarm; ``--show`` prints some, to be judged by a reader.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

from uwaga.files.lines import text_lines
from uwaga.languages.number_words import find_numbers
from uwaga.languages.numbers import differing_numbers


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--from", dest="source", required=True)
    parser.add_argument("--to", dest="target", required=True)
    parser.add_argument("--show", type=int, default=30)
    options = parser.parse_args()

    languages = options.source, options.target
    pairs = [
        (source, target)
        for source, *targets in (line.split("\t") for line in text_lines(options.pairs))
        for target in targets
    ]
    start = time.perf_counter()
    missing = [differing_numbers(source, target, languages)[0] for source, target in pairs]
    seconds = time.perf_counter() - start
    reports = list[tuple[list[str], str, str]]()
    with_words = 0
    for (source, target), numbers in zip(pairs, missing, strict=True):
        words = {
            source[slice(*number.span)]
            for number in find_numbers(source, options.source)
            if number.is_certain
        }
        with_words += bool(words)
        if reported := [number for number in numbers if number in words]:
            reports.append((reported, source, target))
    print(
        f"{len(pairs)} pairs, {with_words} with numbers in words, {len(reports)} with a report "
        f"({len(reports) / max(1, with_words):.2%}); {1e6 * seconds / max(1, len(pairs)):.1f} µs per pair"
    )
    for words_reported, source, target in random.Random(1).sample(reports, min(options.show, len(reports))):
        print(", ".join(words_reported), source, target, sep="\t")


if __name__ == "__main__":
    main()

"""Measure how often numbers are reported as missing from, or added by, translations by people.

    python benchmarks/differing_numbers.py PAIRS.tsv --from en --to de [--show 30]

Each line has a source and one or more translations, separated by tabs. Of correct translations, each report
is a false alarm; ``--show`` prints some, to be judged by a reader. As a measure of recall, a number in digits
that both texts have is increased by one in the translation, or removed from it. Small ones are those up to
12, and twins those that both texts have more than once. A number in words is removed, too.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from uwaga.files.lines import text_lines
from uwaga.languages.number_words import find_numbers
from uwaga.languages.numbers import MAX_SPELLED_OUT, differing_numbers

DIGITS = re.compile(r"(?<![\w.,:])\d{1,9}(?![.,:]?\d)")
"""A number in digits without separators."""
MAX_CHANGES = 3
"""Maximum number of changed numbers of each kind in a translation."""


def changed_translations(source: str, target: str, languages: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Yield kinds of changes of a number, each with the changed translation."""
    source_counts, target_counts = (Counter(DIGITS.findall(text)) for text in (source, target))
    shared = (number for number in DIGITS.finditer(target) if number[0] in source_counts)
    for number, _ in zip(shared, range(MAX_CHANGES), strict=False):
        before, value, after = target[: number.start()], int(number[0]), target[number.end() :]
        if value > 1:
            kind = "small number changed" if value <= MAX_SPELLED_OUT else "number changed"
            yield kind, f"{before}{value + 1}{after}"
            is_twin = source_counts[number[0]] == target_counts[number[0]] > 1
            yield "twin removed" if is_twin else "number removed", before + after
    values = {words.value for words in find_numbers(source, languages[0]) if words.is_certain}
    for words in find_numbers(target, languages[1])[:MAX_CHANGES]:
        if words.is_certain and words.value in values:
            yield "word removed", target[: words.span[0]] + target[words.span[1] :]


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
    differences = [differing_numbers(source, target, languages) for source, target in pairs]
    seconds = time.perf_counter() - start
    with_numbers = sum(
        any(map(str.isdecimal, source + target))
        or any(number.is_certain for number in find_numbers(source, options.source))
        for source, target in pairs
    )
    reports = [
        (", ".join(missing), ", ".join(added), source, target)
        for (missing, added), (source, target) in zip(differences, pairs, strict=True)
        if missing or added
    ]
    print(
        f"{len(pairs)} pairs, {with_numbers} with numbers, {len(reports)} with a report "
        f"({len(reports) / max(1, with_numbers):.2%}); {1e6 * seconds / max(1, len(pairs)):.1f} µs per pair"
    )
    changes, reported = Counter[str](), Counter[str]()
    for difference, (source, target) in zip(differences, pairs, strict=True):
        if not any(difference):
            for kind, changed in changed_translations(source, target, languages):
                changes[kind] += 1
                reported[kind] += any(differing_numbers(source, changed, languages))
    for kind, count in sorted(changes.items()):
        print(f"{kind}: {reported[kind]} of {count} reported ({reported[kind] / count:.1%})")
    for report in random.Random(1).sample(reports, min(options.show, len(reports))):
        print(*report, sep="\t")


if __name__ == "__main__":
    main()

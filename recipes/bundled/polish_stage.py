"""Prepare the data of stages 4 and 5, apart from the model's own translations.

    python polish_stage.py copies     data/twice.copy.tsv: values in which letters and digits stand twice
    python polish_stage.py captions   data/captions.tsv: captions without their first article

A model that has learnt to copy names took a word that begins a caption for one: "Woman in sandals" became
"Woman in Sandalen". A German nominative behind "ein" or "eine" has the endings that it has alone, so that the
article can go on both sides, of the templates' scenes and of what own.py made of them (data/own3.tsv).
"""

from __future__ import annotations

import random
import re
from argparse import Namespace
from pathlib import Path

from templates import COPY, fill
from values import TwiceValues, training_names, upper
from workplace import WORD, add_corpora, arguments, held_sentences, key, rows, unknown_words, write_pairs

HARD = re.compile(r"\{(phone|clock|mail|address|full|first|last)")
EXAMPLES = 160_000


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("what", choices=("copies", "captions"))
    add_corpora(parser)
    options = parser.parse_args()
    pairs = copies(options) if options.what == "copies" else captions(options)
    print(f"{pairs} pairs")


def copies(options: Namespace) -> int:
    """Write values to copy, three in four of them in hard templates; return their number."""
    data: Path = options.work / "data"
    tested = held_sentences(options) | {key(row[0]) for row in rows(data / "test.copy.tsv")}
    rng = random.Random(23)
    values = TwiceValues(rng, training_names())
    hard = [template for template in COPY if HARD.search(template)]
    pairs = {fill(rng.choice(hard if number % 4 else COPY), values) for number in range(EXAMPLES)}
    untested = [(source, target) for source, target in sorted(pairs) if key(source) not in tested]
    write_pairs(data / "twice.copy.tsv", untested)
    return len(untested)


def captions(options: Namespace) -> int:
    """Write captions without their first article, if the dictionary has their words; return their number."""
    data: Path = options.work / "data"
    held_out = held_sentences(options)
    pairs = [row for name in ("clean.scenes", "own3") for row in rows(data / f"{name}.tsv")]
    shortened = {pair for source, target, *_ in pairs if (pair := without_article(source, target))}
    selected = sorted(pair for pair in shortened if not {key(side) for side in pair} & held_out)
    unknown = set(
        unknown_words(options.work, sorted({word for _, t in selected for word in WORD.findall(t)}))
    )
    selected = [(source, target) for source, target in selected if not set(WORD.findall(target)) & unknown]
    write_pairs(data / "captions.tsv", selected)
    return len(selected)


def without_article(source: str, target: str) -> tuple[str, str] | None:
    """Return a pair without its initial "a" and "ein", or None if it does not begin with them."""
    english, _, source = source.partition(" ")
    german, _, target = target.partition(" ")
    if english not in ("A", "An") or german not in ("Ein", "Eine") or source.count(" ") < 2:
        return None
    return upper(source), upper(target)


if __name__ == "__main__":
    main()

"""Prepare the further data of the third stage.

    python final_stage.py

Writes data/final.copy.tsv: made_up.py's training templates with more names that nobody has, times of twelve
hours and prices; data/known.tsv.gz: the pairs of data/mix.tsv.gz whose German words hunspell knows, or the
English side has too; data/known.tatoeba.tsv.gz and data/known.scenes.tsv.gz: those of Tatoeba and of the
scenes alone, from stage 9 on; data/phrases.tsv: the everyday phrases of phrases.tsv, which were written by
hand. Values and phrases that equal a sentence of a test set are left out.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

from templates import COPY, fill
from values import HardValues, training_names
from workplace import add_corpora, arguments, held_sentences, key, of_known_words, rows, write_pairs

HARD = re.compile(r"\{(phone|clock|price|mail|url|address|full|first|last)")
EXAMPLES = 160_000
MIXES = {
    "mix.tsv.gz": "known.tsv.gz",
    "clean.tatoeba.tsv": "known.tatoeba.tsv.gz",
    "clean.scenes.tsv": "known.scenes.tsv.gz",
}
PHRASES = Path(__file__).with_name("phrases.tsv")


def main() -> None:
    parser = arguments(__doc__)
    add_corpora(parser)
    options = parser.parse_args()
    data = options.work / "data"
    held_out = held_sentences(options)
    tested = held_out | {key(row[0]) for row in rows(data / "test.copy.tsv", "made_up.py makes it")}

    rng = random.Random(19)
    values = HardValues(rng, training_names())
    hard = [template for template in COPY if HARD.search(template)]
    copies = {fill(rng.choice(hard if number % 3 else COPY), values) for number in range(EXAMPLES)}
    write_pairs(data / "final.copy.tsv", ((s, t) for s, t in sorted(copies) if key(s) not in tested))

    for name, output in MIXES.items():
        pairs = [(row[0], row[1]) for row in rows(data / name, "prepare.py makes it")]
        known = of_known_words(options.work, pairs)
        write_pairs(data / output, known)
        print(f"{len(known)} of {len(pairs)} pairs of {name} have known words alone")

    phrases = [(source, target) for source, target in rows(PHRASES)]
    allowed = [(s, t) for s, t in phrases if key(s) not in tested and key(t) not in tested]
    write_pairs(data / "phrases.tsv", allowed)
    print(f"{len(copies)} values to copy")
    print(f"{len(allowed)} of {len(phrases)} phrases; the others are in a test set")


if __name__ == "__main__":
    main()

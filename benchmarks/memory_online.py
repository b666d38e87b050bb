"""Measure the gain from a memory that learns sentence by sentence, on Multi30k or Python's documentation.

    python benchmarks/memory_online.py --multi30k FOLDER
    python benchmarks/memory_online.py --multi30k FOLDER --model MODEL --target fr
    python benchmarks/memory_online.py --pydocs FOLDER --model MODEL

After storing 0, 100, 1,000, 5,000 and 28,900 texts in order, the script prints BLEU and chrF of 300 other
texts by the model alone and with the memory; and of the next 100 texts by the model alone, with the memory,
and translated one by one, where each is stored before the next is translated.
"""

from __future__ import annotations

import argparse
import gzip
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import sacrebleu
from memory_use import rows

import uwaga
from uwaga_memory.store import Memory, Pair

REMEMBERED = (0, 100, 1_000, 5_000, 28_900)
NEXT = 100


def pairs(folder: Path, name: str, target: str) -> list[Pair]:
    """Return the captions of a set with their translations."""
    sides = []
    for language in ("en", target):
        with gzip.open(folder / f"{name}.{language}.gz", "rt", encoding="utf-8") as lines:
            sides.append(lines.read().splitlines())
    return [Pair(*pair) for pair in zip(*sides, strict=True)]


def documentation(folder: Path) -> tuple[list[Pair], list[Pair]]:
    """Return the texts of Python's documentation in order, and the texts that a later version adds."""
    remembered, new = (
        [Pair(source, target, origin) for origin, source, target in rows(folder / f"{name}.en-pt.tsv.gz")]
        for name in ("memory-3.12", "new-3.13")
    )
    random.Random(51).shuffle(new)
    return remembered, new


def main() -> None:
    """Print a line for each size of the memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    data = parser.add_mutually_exclusive_group(required=True)
    data.add_argument("--multi30k", type=Path)
    data.add_argument("--pydocs", type=Path)
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--target", default="de", choices=("de", "fr"), help="language of the captions")
    parser.add_argument("--threshold", type=float, default=50)
    parser.add_argument("--others", type=int, default=300, help="number of other texts")
    options = parser.parse_args()
    target = options.target if options.multi30k else "pt"
    translator = uwaga.load(options.model, source="en", target=target)
    if options.multi30k:
        train, validation = (pairs(options.multi30k, name, target) for name in ("train", "val"))
    else:
        train, validation = documentation(options.pydocs)
    validation = validation[: options.others]

    def scores(texts: list[Pair], memory: Memory | None, one_by_one: bool = False) -> str:
        use = {"memory": memory, "threshold": options.threshold}
        references = [[pair.target for pair in texts]]
        if one_by_one and memory is not None:
            hypotheses = []
            for pair in texts:
                hypotheses.append(translator.translate(pair.source, **use).text)
                memory.confirm([pair])
        else:
            hypotheses = [each.text for each in translator.translate([pair.source for pair in texts], **use)]
        bleu, chrf = (
            metric(hypotheses, references).score for metric in (sacrebleu.corpus_bleu, sacrebleu.corpus_chrf)
        )
        return f"{bleu:5.1f} {chrf:5.1f}"

    plain = scores(validation, None)
    with TemporaryDirectory() as folder:
        memory = Memory.create(Path(folder) / "memory.uwm", "en", target)
        for before, count in zip((0, *REMEMBERED), REMEMBERED, strict=False):
            memory.add(train[before:count])
            following = train[count : count + NEXT]
            print(
                f"{len(memory):6,} remembered: others {plain} → {scores(validation, memory)}; next {NEXT} "
                f"{scores(following, None)} → {scores(following, memory)}, one by one "
                f"{scores(following, memory, one_by_one=True)}",
                flush=True,
            )


if __name__ == "__main__":
    main()

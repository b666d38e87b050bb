"""What a memory brings that learns sentence by sentence: captions of Multi30k.

    python benchmarks/memory_online.py --multi30k FOLDER
    python benchmarks/memory_online.py --multi30k FOLDER --model MODEL --target fr

After 0, 100, 1,000, 5,000 and 28,900 captions of the training set are remembered, in their order: BLEU
and chrF of the next 100 captions, and of the first captions of the validation set, by the model alone and
with the memory.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

import sacrebleu

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


def main() -> None:
    """Print a line for each size of the memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--multi30k", type=Path, required=True)
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--target", default="de", choices=("de", "fr"))
    parser.add_argument("--threshold", type=float, default=50)
    parser.add_argument("--captions", type=int, default=300, help="of the validation set")
    options = parser.parse_args()
    translator = uwaga.load(options.model, source="en", target=options.target)
    train, validation = (pairs(options.multi30k, name, options.target) for name in ("train", "val"))
    validation = validation[: options.captions]

    def scores(texts: list[Pair], memory: Memory | None) -> str:
        sources, references = [pair.source for pair in texts], [[pair.target for pair in texts]]
        translations = translator.translate(sources, memory=memory, threshold=options.threshold)
        hypotheses = [translation.text for translation in translations]
        bleu, chrf = (
            metric(hypotheses, references).score for metric in (sacrebleu.corpus_bleu, sacrebleu.corpus_chrf)
        )
        return f"{bleu:5.1f} {chrf:5.1f}"

    plain = scores(validation, None)
    with TemporaryDirectory() as folder:
        memory = Memory.create(Path(folder) / "captions.uwm", "en", options.target)
        for before, count in zip((0, *REMEMBERED), REMEMBERED, strict=False):
            memory.add(train[before:count])
            following = train[count : count + NEXT]
            print(
                f"{len(memory):6,} remembered: next {NEXT} {scores(following, None)} → "
                f"{scores(following, memory)}; validation {plain} → {scores(validation, memory)}",
                flush=True,
            )


if __name__ == "__main__":
    main()

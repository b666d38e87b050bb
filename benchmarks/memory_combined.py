"""Compare a memory, an adapter trained on it, and both: chrF of captions by similarity of the remembered
captions.

    uwaga memory create captions.uwm --from en --to de
    uwaga memory import captions.uwm train.en-de.tsv
    uwaga memory adapt captions.uwm captions-adapter --set training.steps=200
    python benchmarks/memory_combined.py --multi30k FOLDER --memory captions.uwm --adapter captions-adapter

The captions are those of the validation set of Multi30k, translated by the bundled model.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import sacrebleu
from memory_online import pairs
from memory_use import mean_chrf

import uwaga
from uwaga_memory.store import Memory

BINS = (85.0, 75.0, 50.0, 30.0, 0.0)
THRESHOLDS = (50, 30)


def main() -> None:
    """Print a line for each method of translation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--multi30k", type=Path, required=True)
    parser.add_argument("--memory", type=Path, required=True)
    parser.add_argument("--adapter", type=Path, required=True)
    options = parser.parse_args()
    memory, captions = Memory(options.memory), pairs(options.multi30k, "val", "de")
    sources, references = [pair.source for pair in captions], [pair.target for pair in captions]
    bins = []
    for source in sources:
        matches = memory.matches(source, threshold=min(THRESHOLDS), limit=1)
        score = matches[0].score if matches else 0.0
        bins.append(next(least for least in BINS if score >= least))
    print(f"{'':24}", *(f">= {least:<4g}({bins.count(least)})" for least in BINS), "mean  BLEU")
    for name, adapter in (("model", None), ("adapter", options.adapter)):
        translator = uwaga.load(adapter=adapter)
        for threshold in (None, *THRESHOLDS):
            searched = None if threshold is None else memory
            results = translator.translate(sources, memory=searched, threshold=threshold)
            outputs = [result.text for result in results]
            means = []
            for least in BINS:
                indices = [index for index, bin_ in enumerate(bins) if bin_ == least]
                means.append(mean_chrf([outputs[i] for i in indices], [references[i] for i in indices]))
            bleu = sacrebleu.corpus_bleu(outputs, [references]).score
            label = name if threshold is None else f"{name}, memory from {threshold} %"
            print(
                f"{label:24}",
                *(f"{mean:10.1f}" for mean in (*means, mean_chrf(outputs, references), bleu)),
                flush=True,
            )


if __name__ == "__main__":
    main()

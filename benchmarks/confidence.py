"""Measure how well a model's confidence separates good from bad translations: correlation with sentence chrF.

    python benchmarks/confidence.py SOURCE_TAB_REFERENCES.tsv[.gz] [--model MODEL] [--beam 5] [--lines 2000]

A line contains a source and, separated by tabs, its references. Each estimate of `Translation.confidence`
(Fomicheva 2020, section 3.1) is correlated with sacreBLEU's sentence chrF over all lines: Pearson's r, and
Spearman's rho, which uses only ranks. The last table shows the chrF of the remaining lines if the least
confident ones are left out.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.chrf import CHRF

import uwaga

Values = NDArray[np.float64]
ESTIMATES = ("mean_log_prob", "probability", "mean_word", "lowest_word", "entropy")
LOWER_IS_BETTER = "entropy"


def read(path: Path, lines: int) -> list[list[str]]:
    """Return the source and the references of each line."""
    open_file = gzip.open if path.suffix == ".gz" else open
    with open_file(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line, _ in zip(file, range(lines), strict=False)]


def ranks(values: Values) -> Values:
    """Return the ranks of values from 0; equal values have the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[inverse]


def pearson(left: Values, second: Values) -> float:
    return float(np.corrcoef(left, second)[0, 1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--lines", type=int, default=2000)
    arguments = parser.parse_args()
    rows = read(arguments.corpus, arguments.lines)
    translations = uwaga.load(arguments.model).translate(
        [row[0] for row in rows], beam=arguments.beam, entropy=True
    )
    rated = [
        (translation, row[1:])
        for translation, row in zip(translations, rows, strict=True)
        if translation.confidence is not None
    ]
    metric = CHRF()
    chrf = np.array(
        [metric.sentence_score(translation.text, references).score for translation, references in rated]
    )
    print(f"{len(rated)} sentences, mean sentence chrF {chrf.mean():.1f}")
    print(f"\n{'estimate':15}{'Pearson':>9}{'Spearman':>10}")
    correlations = {}
    for name in ESTIMATES:
        values = np.array(
            [getattr(translation.confidence, name) for translation, _ in rated], dtype=np.float64
        )
        correlations[name] = -values if name == LOWER_IS_BETTER else values
        print(f"{name:15}{pearson(values, chrf):9.3f}{pearson(ranks(values), ranks(chrf)):10.3f}")
    print(f"\n{'set aside':15}" + "".join(f"{name:>15}" for name in ESTIMATES))
    for share in (0.0, 0.1, 0.25, 0.5):
        left = [chrf[np.argsort(correlations[name])[int(share * len(chrf)) :]].mean() for name in ESTIMATES]
        print(f"{share:<15.0%}" + "".join(f"{value:15.1f}" for value in left))
    words = np.array(
        [word.mean for translation, _ in rated for word in translation.words if word.text != "</s>"]
    )
    shares = ", ".join(f"{(words < bar).mean():.0%} below {bar}" for bar in (0.15, 0.3, 0.5))
    print(f"\n{len(words)} words, geometric mean of their pieces: {shares}")


if __name__ == "__main__":
    main()

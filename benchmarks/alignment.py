"""Compare guided alignment with the same training without it: alignment error of every head, and BLEU.

    python benchmarks/alignment.py --train train.en.gz train.de.gz --dev val.en.gz val.de.gz \
        --test test_2016_flickr.en.gz test_2016_flickr.de.gz

The texts are those of Multi30k as published (raw). Both methods start from the bundled model and take the 600
updates of recipes/multi30k-guided.yaml; the guided one uses links of uwaga's own aligner. The alignment error
rate (Och & Ney 2003) is on the hundred pairs of benchmarks/alignments, with the reference as a forced target:
a target piece links to the source piece that a head looks at most, at the step that predicts it or at the
next, which reads it. BLEU is that of sacreBLEU on the complete test set. Each method is a separate run
(``--ways plain``), so that they need not run in one session; a model of ``--model`` is measured unchanged.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import uwaga
from uwaga.alignment import WordAligner, align_corpus
from uwaga.alignment.words import split_words
from uwaga.data.corpus import Pair, read_corpus
from uwaga.evaluation import evaluate
from uwaga.evaluation.alignment_error import (
    HandAlignment,
    alignment_error_rate,
    check_pairs,
    read_hand_alignments,
)
from uwaga.inspection.head_selection import head_errors
from uwaga.settings import CorpusSettings, Settings, parse, read_yaml
from uwaga.training.train import train

FOLDER = Path(__file__).resolve().parent
RECIPE = FOLDER.parent / "recipes" / "multi30k-guided.yaml"
LINKS = FOLDER / "alignments" / "multi30k-test2016.en-de.txt"
METHODS: dict[str, dict[str, Any] | None] = {
    "plain": None,
    "guided": {"weight": 0.1, "step": "reading"},
    "predicting": {"weight": 0.1, "step": "predicting"},
}
GUIDED, PLAIN, LOST = 0.15, 0.25, 0.3
"""The bars: error of the guided head, error of the best head without guidance, and BLEU that may be lost."""


def pairs(paths: list[Path]) -> list[Pair]:
    return list(read_corpus(CorpusSettings(files=tuple(map(str, paths)))))


def errors(translator: Any, test_pairs: list[Pair], gold: list[HandAlignment]) -> dict[str, dict[str, float]]:
    """Return the alignment error of each head, ``LAYER.HEAD`` from 1, and of each layer's mean, at both
    steps.
    """
    pairs = [(pair.source, pair.references[0]) for pair in test_pairs]
    head_results = head_errors(
        translator, pairs, [(alignment.sure, alignment.possible) for alignment in gold]
    )
    rows: dict[str, dict[str, float]] = {"predicting": {}, "reading": {}}
    for head, error in sorted(
        head_results.items(), key=lambda item: (item[0].layer, item[0].head or 1 << 30)
    ):
        rows[head.step][f"{head.layer}.{head.head or 'mean'}"] = error
    return rows


def measure(path: str, test: list[Pair], gold: list[HandAlignment]) -> dict[str, Any]:
    """Return the alignment errors of all heads of a model, and its BLEU."""
    translator = uwaga.load(path, device="cpu", threads=1)
    row: dict[str, Any] = errors(translator, [test[alignment.line - 1] for alignment in gold], gold)
    texts = [translation.text for translation in translator.translate([pair.source for pair in test])]
    row["bleu"] = evaluate(texts, [pair.references[:1] for pair in test], ("bleu",))["bleu"].value
    return row


def run(options: argparse.Namespace, method: str) -> Path:
    """Train a model by one method, unless this has been done, and return its folder."""
    folder = options.work / method
    if (folder / "model" / "config.json").is_file():
        return folder / "model"
    values = read_yaml(RECIPE)
    values["run"] = str(folder)
    values["data"] = {"train": list(map(str, options.train)), "dev": list(map(str, options.dev))}
    values["training"] |= {"guided_alignment": METHODS[method], "threads": options.threads}
    path = train(parse(Settings, values, str(RECIPE)))
    if path is None:
        raise SystemExit(f"{folder}: interrupted; rerun the same command")
    return path


def aligner(options: argparse.Namespace, test: list[Pair], gold: list[HandAlignment]) -> dict[str, float]:
    """Return the alignment error of the aligner that guides the training.

    It is trained on the corpus and the test set.
    """
    corpus = [*pairs(options.train), *test]
    sources = [split_words(pair.source) for pair in corpus]
    targets = [split_words(pair.references[0]) for pair in corpus]
    test_indexes = [len(corpus) - len(test) + alignment.line - 1 for alignment in gold]
    forward, symmetric = WordAligner().fit(sources, targets), align_corpus(sources, targets)
    return {
        "one direction": alignment_error_rate([forward[index] for index in test_indexes], gold),
        "both, grow-diag-final-and": alignment_error_rate([symmetric[index] for index in test_indexes], gold),
    }


def show(rows: dict[str, dict[str, Any]]) -> bool:
    """Print the table and the bars; return True if all bars are met."""
    for method, row in rows.items():
        print(f"\n{method}: BLEU {row['bleu']:.2f}\n\n| step | " + " | ".join(row["reading"]) + " |")
        print("|---|" + "---|" * len(row["reading"]))
        for step in ("predicting", "reading"):
            print(f"| {step} | " + " | ".join(f"{value:.3f}" for value in row[step].values()) + " |")
    if not {"plain", "guided"} <= set(rows):
        return True
    plain, guided = rows["plain"], rows["guided"]
    best = min(value for step in ("predicting", "reading") for value in plain[step].values())
    passed = True
    for label, value, maximum in (
        ("guided, its head", guided["reading"]["1.1"], GUIDED),
        ("plain, its best head", best, PLAIN),
        ("BLEU lost", plain["bleu"] - guided["bleu"], LOST),
    ):
        print(f"{label}: {value:.3f}, at most {maximum}: {'holds' if value <= maximum else 'does not hold'}")
        passed &= value <= maximum
    return passed


def main() -> None:
    """Train and measure the requested methods, and print all results in the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--train", type=Path, nargs=2, required=True)
    parser.add_argument("--dev", type=Path, nargs=2, required=True)
    parser.add_argument("--test", type=Path, nargs=2, required=True)
    parser.add_argument("--work", type=Path, default=Path("alignment-runs"))
    parser.add_argument("--ways", nargs="*", default=["plain", "guided"], choices=[*METHODS, "aligner"])
    parser.add_argument("--model", nargs="*", default=[], help="further models to measure")
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    test = pairs(options.test)
    gold = read_hand_alignments(LINKS)
    check_pairs(gold, [pair.source for pair in test], [pair.references[0] for pair in test])
    rows_path = options.work / "rows.json"
    rows: dict[str, Any] = json.loads(rows_path.read_text()) if rows_path.is_file() else {}
    for method in options.ways:
        if method == "aligner":
            print(aligner(options, test, gold))
        else:
            rows[method] = measure(str(run(options, method)), test, gold)
    for name in options.model:
        rows[name] = measure(name, test, gold)
    rows_path.write_text(json.dumps(rows, indent=1))
    raise SystemExit(0 if show(rows) else 1)


if __name__ == "__main__":
    main()

"""Measure corpora larger than memory: time and memory to prepare 1, 3 and 10 million pairs, and to start
training.

    python benchmarks/corpora.py
    python benchmarks/corpora.py --pairs 100000 300000 --folder /tmp/corpora --json corpora.json

The pairs are generated: words are drawn by Zipf's law, and a target is as long as its source within about a
fifth. They are in three TSV files of a half, a third and a sixth of each size, which are mixed by
temperature. Each measurement is of a new process. The output contains the speed of writing the stores, the
time from the start of `uwaga train` to its first update if they have been written, the time to find the
middle of an epoch, the peak resident memory (``VmHWM``, which includes the touched pages of mapped files),
and the growth from size to size. The model is small, so that the memory is mainly that of the corpora.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

WORDS = 20_000
PARTS = (("large", 2), ("middle", 3), ("small", 6))  # a half, a third, a sixth
PAIRS_PER_BLOCK = 200_000  # pairs made at one time
LINES = 100_000  # that the subword model is learned from
STEPS = 20
BATCH = 90  # pairs of a batch, about


def write_pairs(path: Path, count: int, seed: int) -> None:
    """Write a TSV file of generated pairs with about 9 words on each side."""
    draw = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgkqjxz"))
    words = ["".join(draw.choice(letters[:18], size)) for size in draw.integers(2, 11, WORDS)]
    chances = 1 / np.arange(1, WORDS + 1)
    edges = np.cumsum(chances / chances.sum())
    with path.open("w", encoding="utf-8") as file:
        while count:
            block = min(count, PAIRS_PER_BLOCK)
            source = np.clip(draw.gamma(3, 3, block), 2, 60).astype(np.int64)  # (pairs,) words
            target = np.maximum(1, np.rint(source * draw.normal(1, 0.2, block))).astype(np.int64)
            lengths = np.stack([source, target], axis=1).ravel()  # (sides,)
            ranks = np.searchsorted(edges, draw.random(int(lengths.sum()))).tolist()
            texts, start = [], 0
            for length in lengths.tolist():
                texts.append(" ".join([words[word % WORDS] for word in ranks[start : start + length]]))
                start += length
            file.writelines(
                f"{source_text}\t{target_text}\n"
                for source_text, target_text in zip(texts[::2], texts[1::2], strict=True)
            )
            count -= block


def run_settings(folder: Path) -> dict[str, Any]:
    """Return the settings of a run on the pairs in a folder."""
    return {
        "run": str(folder / "run"),
        "data": {
            "train": [{"files": [str(folder / f"{name}.tsv")], "name": name} for name, _ in PARTS],
            "dev": [str(folder / "dev.tsv")],
            "temperature": 2,
        },
        "text": {"size": 8000, "lines": LINES, "kind": "bpe"},
        "model": {"preset": "transformer-tiny"},
        "training": {
            "steps": STEPS,
            "batch_tokens": 1024,
            "validation_sentences": 0,
            "validate_every": STEPS,
            "save_every": STEPS,
            "average": 0,
        },
    }


def resident() -> tuple[float, float]:
    """Return the peak resident memory and the current anonymous memory of this process, in MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    facts = {line.split(":")[0]: line.split()[1] for line in lines if "kB" in line}
    return int(facts["VmHWM"]) / 1024, int(facts["RssAnon"]) / 1024


def prepare(folder: Path) -> dict[str, float]:
    """Measure the preparation of the stores; the subword model must exist."""
    from uwaga.settings import Settings, parse
    from uwaga.training.corpus import prepare_corpora

    settings = parse(Settings, run_settings(folder), "benchmark")
    before = resident()[0]
    started = time.perf_counter()
    prepare_corpora(settings, lambda line: None)
    seconds = time.perf_counter() - started
    peak, anonymous = resident()
    return {"seconds": seconds, "before": before, "most": peak, "anonymous": anonymous}


def start(folder: Path) -> dict[str, float]:
    """Measure the start of training on stores that have been written.

    The times are those to the first update, to twenty updates, and to the batch in the middle of an epoch.
    """
    started = time.perf_counter()
    from uwaga.settings import Settings, parse
    from uwaga.training import train
    from uwaga.training.step import Updater

    first: list[float] = []
    update = Updater.update

    def timed(self: Any, *arguments: Any) -> Any:
        result = update(self, *arguments)
        first.append(time.perf_counter() - started)
        return result

    Updater.update = timed  # type: ignore[method-assign]
    settings = parse(Settings, run_settings(folder), "benchmark")
    shutil.rmtree(settings.run / "checkpoints", ignore_errors=True)
    train.train(settings)
    peak, anonymous = resident()
    from uwaga.training.corpus import prepare_corpora

    corpora = prepare_corpora(settings, lambda line: None)
    half_time = time.perf_counter()
    corpora.train.batch(0, sum(len(store) for store in stores(settings.run)) // BATCH // 2)
    half_time = time.perf_counter() - half_time
    return {
        "first update": first[0],
        "twenty updates": first[-1],
        "most": peak,
        "anonymous": anonymous,
        "to the middle": half_time,
        "most then": resident()[0],
    }


def stores(run: Path) -> list[Any]:
    """Return the stores of a run."""
    from uwaga.data.store import Store

    return [Store.open(run / "data" / f"train.{name}") for name, _ in PARTS]


def in_process(work: Callable[[Path], dict[str, float]], folder: Path) -> dict[str, float]:
    """Return the result of ``work`` in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, (folder,))


def measure(folder: Path, pairs: int) -> dict[str, Any]:
    folder.mkdir(parents=True)
    try:
        for seed, (name, part) in enumerate(PARTS):
            write_pairs(folder / f"{name}.tsv", pairs // part, seed)
        write_pairs(folder / "dev.tsv", 200, 99)
        learn(folder)
        size = sum(path.stat().st_size for path in folder.glob("*.tsv"))
        prepared = in_process(prepare, folder)
        stored = sum(path.stat().st_size for path in (folder / "run" / "data").rglob("*") if path.is_file())
        return {
            "pairs": pairs,
            "corpus": size,
            "store": stored,
            "writing": prepared,
            "training": in_process(start, folder),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def learn(folder: Path) -> None:
    """Train the subword model on the first lines of the smallest corpus; this is not measured."""
    from uwaga.files.lines import text_lines
    from uwaga.settings import TextSettings
    from uwaga.tokenizers.training import train_tokeniser

    lines = (
        text
        for number, line in enumerate(text_lines(folder / "small.tsv"))
        if number < LINES
        for text in line.split("\t")
    )
    train_tokeniser(lines, TextSettings(**run_settings(folder)["text"]), folder / "run" / "text" / "joint")


def show(rows: list[dict[str, Any]]) -> None:
    """Print a table, and the growth from each size to the next."""
    print("| pairs | MB | stores MB | writing | pairs/s | MiB | first update | middle | MiB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        writing, training = row["writing"], row["training"]
        cells = (
            f"{row['pairs']:,}",
            f"{row['corpus'] / 1e6:,.0f}",
            f"{row['store'] / 1e6:,.0f}",
            f"{writing['seconds']:.1f} s",
            f"{row['pairs'] / writing['seconds']:,.0f}",
            f"{writing['most']:,.0f}",
            f"{training['first update']:.1f} s",
            f"{training['to the middle']:.1f} s",
            f"{training['most then']:,.0f}",
        )
        print(f"| {' | '.join(cells)} |")
    for smaller, other in pairwise(rows):
        parts = [f"{other['pairs'] / smaller['pairs']:.2f} times the pairs"]
        for quantity, group, key in (
            ("time of writing", "writing", "seconds"),
            ("memory of writing", "writing", "most"),
            ("time to the first update", "training", "first update"),
            ("memory of training", "training", "most then"),
        ):
            parts.append(f"{quantity} {other[group][key] / smaller[group][key]:.2f}")
        print(", ".join(parts))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    parser.add_argument("--folder", type=Path, help="folder for temporary pairs and stores")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for pairs in arguments.pairs:
            rows.append(measure(Path(folder) / str(pairs), pairs))
            print(f"{rows[-1]}", flush=True)
    show(rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

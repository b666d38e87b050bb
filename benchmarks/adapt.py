"""Measure what adapting a model to a domain gains and what the model forgets: with all weights, and with
LoRA.

    python benchmarks/adapt.py --domain train.en train.de --domain-test test.en test.de \
        --general tatoeba/train.en-de.tsv.gz --general-test tatoeba/test.en-de.tsv.gz

The training data are the first 5,000 pairs of the domain (Multi30k's captions, raw), each shown four times,
and 20,000 pairs of the general corpus, each shown once. The settings are those of recipes/adapt.yaml, which
start from the bundled model. Each method of training is a separate run (``--ways full``, ``--ways lora``), so
that they need not run in one session; the table at the end contains all results in ``--work``. BLEU is that
of sacreBLEU on raw text against the first reference, with the model's decoding settings, on the native engine
in float32.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from itertools import islice
from pathlib import Path
from typing import Any

import uwaga
from uwaga.data.corpus import Pair, read_corpus
from uwaga.evaluation import evaluate
from uwaga.settings import CorpusSettings, Settings, parse, read_yaml
from uwaga.training.train import train

RECIPE = Path(__file__).resolve().parents[1] / "recipes" / "adapt.yaml"
PAIRS, DEV = 5000, 500
GENERAL = 20_000
"""Number of general pairs in the mixture; each is shown once while a domain pair is shown four times."""
METHODS: dict[str, dict[str, Any]] = {
    "unadapted": {},
    "full": {},
    "lora": {
        "adapt": {"lora": {"rank": 64, "alpha": 128.0}},
        "schedule": {"kind": "linear", "peak": 4e-3, "warmup": 20},
    },
}
GAIN, FORGOTTEN, MAX_DIFFERENCE = 8.0, 2.0, 1.5
"""The bars: BLEU gained on the domain, BLEU lost on general text, and the difference of LoRA from all
weights.
"""


def pairs(paths: list[Path], first: int = 0, count: int | None = None) -> list[Pair]:
    """Return ``count`` pairs of a corpus, or all, starting with the pair of index ``first``."""
    corpus = CorpusSettings(files=tuple(map(str, paths)))
    return list(islice(read_corpus(corpus), first, None if count is None else first + count))


def write(path: Path, pairs: list[Pair]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (f"{pair.source}\t{pair.references[0]}".replace("\n", " ") for pair in pairs)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def prepare(options: argparse.Namespace) -> dict[str, Any]:
    """Write the mixture and the dev sets, and return the settings of the recipe for them."""
    folder = options.work / "data"
    domain = pairs(options.domain, 0, PAIRS)
    general = pairs(options.general)
    write(folder / "domain.tsv", domain)
    write(folder / "general.tsv", general[:: max(1, len(general) // GENERAL)][:GENERAL])
    write(folder / "domain.dev.tsv", pairs(options.domain, PAIRS, DEV))
    write(folder / "general.dev.tsv", general[1 :: max(1, len(general) // DEV)][:DEV])
    values = read_yaml(RECIPE)
    data = values["data"]
    for corpus in data["train"]:
        corpus["files"] = [str(folder / Path(file).name) for file in corpus["files"]]
    data["dev"], data["also"] = (
        [str(folder / "domain.dev.tsv")],
        {"general": [str(folder / "general.dev.tsv")]},
    )
    return values | {"init": options.base}


def measure(options: argparse.Namespace, method: str) -> dict[str, Any]:
    """Train a model by one method, and return its scores."""
    values = prepare(options)
    seconds, model_path = 0.0, None
    if method != "unadapted":
        changes = dict(METHODS[method])
        values["training"] |= {"threads": options.threads}
        values["training"] |= {name: changes.pop(name) for name in ("schedule",) if name in changes}
        if options.steps:
            values["training"] |= dict.fromkeys(("steps", "validate_every", "save_every"), options.steps)
        run = options.work / method
        shutil.rmtree(run, ignore_errors=True)
        started = time.perf_counter()
        model_path = train(parse(Settings, values | changes | {"run": str(run)}, str(RECIPE)))
        seconds = time.perf_counter() - started
        if model_path is None:
            raise SystemExit(f"{run}: interrupted; nothing is measured")
    adapter = model_path if method == "lora" else None
    name = options.base if model_path is None or adapter is not None else model_path
    translator = uwaga.load(name, device="cpu", threads=options.threads, adapter=adapter)
    row: dict[str, Any] = {"way": method, "seconds": seconds}
    row["bytes"] = sum(path.stat().st_size for path in model_path.glob("*.safetensors")) if model_path else 0
    for test, paths in (("domain", options.domain_test), ("general", options.general_test)):
        test_pairs = pairs(paths)
        texts = [
            translation.text for translation in translator.translate([pair.source for pair in test_pairs])
        ]
        row[test] = evaluate(texts, [pair.references[:1] for pair in test_pairs], ("bleu",))["bleu"].value
    return row


def show(rows: dict[str, dict[str, Any]]) -> bool:
    """Print the table and the bars; return True if all bars are met."""
    print("| way | seconds, all in all | MB written | BLEU, domain | BLEU, general |")
    print("|---|---|---|---|---|")
    for method, row in rows.items():
        size = f"{row['bytes'] / 1e6:.1f}" if row["bytes"] else ""
        print(f"| {method} | {row['seconds']:.0f} | {size} | {row['domain']:.2f} | {row['general']:.2f} |")
    if set(rows) < set(METHODS):
        return True
    before, full, lora = (rows[method] for method in METHODS)
    passed = True
    for label, value, minimum in (
        ("gained on the domain", full["domain"] - before["domain"], GAIN),
        ("kept on general text", full["general"] - before["general"], -FORGOTTEN),
        ("LoRA beside all weights, domain", lora["domain"] - full["domain"], -MAX_DIFFERENCE),
    ):
        passed &= value >= minimum
        print(f"{label}: {value:+.2f} BLEU (at least {minimum:+.1f}: {'yes' if value >= minimum else 'NO'})")
    return passed


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("domain", "domain-test", "general", "general-test"):
        parser.add_argument(f"--{name}", type=Path, nargs="+", required=True)
    parser.add_argument("--base", default="bundled")
    parser.add_argument("--ways", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--work", type=Path, default=Path("runs/adapt-benchmark"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=0, help="number of updates; default: the recipe's")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a bar is missed")
    options = parser.parse_args()
    for method in options.ways:
        result = measure(options, method)
        (options.work / f"{method}.json").write_text(json.dumps(result), encoding="utf-8")
    paths = {method: options.work / f"{method}.json" for method in METHODS}
    rows = {method: json.loads(path.read_text()) for method, path in paths.items() if path.exists()}
    passed = show(rows)
    if options.check and not passed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

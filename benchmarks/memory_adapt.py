"""Measure what an adapter for a memory gains on texts outside the memory, and what it forgets.

    python benchmarks/memory_adapt.py --domain train.en.gz train.de.gz --domain-test test.en.gz test.de.gz \
        --general-test tatoeba/test.en-de.tsv.gz --pairs 1000 5000

The memories contain the first pairs of a domain (Multi30k's captions), and ``uwaga memory adapt`` runs with
its defaults. chrF is that of sacreBLEU with all references.
"""

from __future__ import annotations

import argparse
import time
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import uwaga
from uwaga.data.corpus import Pair, read_corpus
from uwaga.evaluation import evaluate
from uwaga.settings import CorpusSettings
from uwaga_memory import Memory
from uwaga_memory import Pair as MemoryPair
from uwaga_memory.adapting import adapt

LANGUAGES = ("en", "de")


def read_pairs(paths: list[Path], count: int | None = None) -> list[Pair]:
    """Return the first pairs of a corpus."""
    return list(islice(read_corpus(CorpusSettings(files=tuple(map(str, paths)))), count))


def chrf(model: str, adapter: Path | None, pairs: list[Pair]) -> float:
    """Return the chrF of translations."""
    translations = uwaga.load(model, adapter=adapter).translate([pair.source for pair in pairs])
    texts = [translation.text for translation in translations]
    return evaluate(texts, [pair.references for pair in pairs], ("chrf",))["chrf"].value


def main() -> None:
    """Print a row for each memory."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("domain", "domain-test", "general-test"):
        parser.add_argument(f"--{name}", type=Path, nargs="+", required=True)
    parser.add_argument("--pairs", type=int, nargs="+", default=[1000, 5000])
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    tests = [read_pairs(paths) for paths in (options.domain_test, options.general_test)]
    print("| pairs | seconds of CPU | chrF, held out | chrF, domain | chrF, general |\n|---|---|---|---|---|")
    before = [chrf(options.model, None, test) for test in tests]
    print("| 0 | | |", " | ".join(f"{score:.1f}" for score in before), "|", flush=True)
    for count in options.pairs:
        with TemporaryDirectory() as folder:
            adapter = Path(folder, "adapter")
            started = time.process_time()
            with Memory.create(Path(folder, "memory.uwm"), *LANGUAGES) as memory:
                memory.add(
                    MemoryPair(pair.source, pair.references[0]) for pair in read_pairs(options.domain, count)
                )
                scores = adapt(memory, adapter, options.model, options.set)
            seconds = time.process_time() - started
            if scores is None:
                raise SystemExit("interrupted")
            after = [chrf(options.model, adapter if scores.is_better else None, test) for test in tests]
        print(
            f"| {count} | {seconds:.0f} | {scores.base:.1f} → {scores.new:.1f} ({scores.sources}) |",
            " | ".join(f"{score:.1f}" for score in after),
            "|",
            flush=True,
        )


if __name__ == "__main__":
    main()

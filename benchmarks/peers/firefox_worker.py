"""Run Firefox's model for one direction in one system: sentence by sentence, in bulk, or from a cold start.

Arguments: the system, what to measure (``single``, ``bulk``, ``start``), the model's folder, a file of
sentences, and the number of threads. The output is one line of JSON with the seconds of each sentence or of
all, the peak memory and the texts.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WARM = 10
"""Number of sentences translated before the clock starts."""

Translate = Callable[[list[str]], list[str]]


def main(system: str, job: str, folder: Path, lines: Path, threads: int) -> None:
    texts = lines.read_text(encoding="utf-8").splitlines()
    translate = {"uwaga": uwaga, "fxtranslate": fxtranslate, "pymarian": pymarian}[system](folder, threads)
    results: dict[str, Any] = {}
    if job == "start":
        results["texts"] = translate(texts[:1])
    else:
        translate(texts[:WARM])
        if job == "single":
            results["seconds"], results["texts"] = [], []
            for text in texts:
                started = time.perf_counter()
                results["texts"] += translate([text])
                results["seconds"].append(time.perf_counter() - started)
        else:
            started = time.perf_counter()
            results["texts"] = translate(texts)
            results["seconds"] = [time.perf_counter() - started]
    results["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(results))


def uwaga(folder: Path, threads: int) -> Translate:
    import uwaga as library

    translator = library.load(folder, threads=threads)
    return lambda texts: [translation.text for translation in translator.translate(texts, split="never")]


def fxtranslate(folder: Path, threads: int) -> Translate:
    import fxtranslate as library

    model, vocabulary, shortlist = (
        next(folder.glob(pattern)).read_bytes() for pattern in ("model.*.bin", "vocab.*.spm", "lex.*.bin")
    )
    translator = library.Translator(model, vocabulary, vocabulary, shortlist)
    return lambda texts: [translator.translate(text) for text in texts]


def pymarian(folder: Path, threads: int) -> Translate:
    """Return a function that translates with Marian and the float32 weights written by ``firefox.py``."""
    from pymarian import Translator

    vocabulary = str(next(folder.glob("vocab.*.spm")))
    translator = Translator(
        models=str(folder / "float32.npz"),
        vocabs=[vocabulary, vocabulary],
        beam_size=1,
        normalize=1.0,
        max_length_factor=2.5,
        mini_batch=64,
        maxi_batch=100,
        maxi_batch_sort="src",
        cpu_threads=threads,
        quiet=True,
        quiet_translation=True,
    )
    return lambda texts: list(translator.translate(texts))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]), int(sys.argv[5]))

"""Compare the translation speed of recurrent models on one core in the native engine and in torch.

    python benchmarks/recurrent_engine.py
    python benchmarks/recurrent_engine.py --models luong-small --rounds 7 --json recurrent.json

All systems have the same random weights, of the sizes for Multi30k (``uwaga.settings.recurrent``, 10,000
tokens). They generate the same number of target tokens: the end symbol is suppressed up to a length limit.
Rounds alternate between the systems; a figure is the median of its rounds, in CPU seconds, after a warm-up.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from uwaga.decoder import Decoder, Symbols
from uwaga.engine import NativeModel, pack
from uwaga.models.build import build_model
from uwaga.search import SearchInput, SearchOptions, search
from uwaga.settings.recurrent import PRESETS

VOCABULARY, SOURCE, TARGET = 10_000, 14, 14
"""Size of the joint vocabulary, and source and target tokens of a sentence, as in Multi30k on average."""
SYMBOLS = Symbols(start=1, end=2, pad=0, unknown=3)
CASES = ((1, 1), (1, 5), (32, 1), (32, 5))
"""Numbers of sentences and beam sizes."""
MODELS = ("bahdanau-small", "bahdanau-published-small", "luong-small", "luong-stacked-small")


def systems(name: str) -> dict[str, Decoder]:
    """Return decoders with the same weights: torch, and the engine in each precision."""
    torch.manual_seed(0)
    settings = PRESETS[name]()
    model = build_model(settings, SYMBOLS, VOCABULARY, VOCABULARY).eval()
    state = {key: value.detach().numpy() for key, value in model.state_dict().items()}
    models: dict[str, Decoder] = {"torch": model}
    for precision in ("float32", "int8"):
        packed = pack(settings, (VOCABULARY, VOCABULARY), state.__getitem__, precision)
        models[precision] = NativeModel(settings, SYMBOLS, (VOCABULARY, VOCABULARY), packed)
    return models


def seconds(model: Decoder, batch: Sequence[Sequence[int]], beam: int) -> float:
    """Return the CPU seconds of a search over a batch, which is repeated for a sufficient time."""
    options = SearchOptions(
        beam=beam, max_length=TARGET, min_length=TARGET, max_ratio=float("inf"), batch_tokens=1 << 20
    )
    start, runs = time.process_time(), 0
    while runs == 0 or time.process_time() - start < 0.2:
        results = search(model, list(map(SearchInput, batch)), options)
        assert all(len(hypothesis.tokens) == TARGET for [hypothesis] in results)
        runs += 1
    return (time.process_time() - start) / runs


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=sorted(PRESETS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rng, rows = np.random.default_rng(0), []
    for name in arguments.models:
        models = systems(name)
        for sentences, beam in CASES:
            tokens = rng.integers(4, VOCABULARY, (sentences, SOURCE - 1)).tolist()
            batch = [[*words, SYMBOLS.end] for words in tokens]
            rounds: dict[str, list[float]] = {system: [] for system in models}
            for number in range(arguments.rounds + 1):
                for system, model in models.items():
                    elapsed = seconds(model, batch, beam)
                    if number:
                        rounds[system].append(elapsed)
            medians = {system: statistics.median(values) for system, values in rounds.items()}
            times = {system: medians["torch"] / median for system, median in medians.items()}
            rows.append({"model": name, "sentences": sentences, "beam": beam} | medians)
            print(
                f"{name:24} {sentences:2} sentences, beam {beam}: torch {1e3 * medians['torch']:7.1f} ms, "
                f"float32 {times['float32']:4.1f}x, int8 {times['int8']:4.1f}x as fast",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()

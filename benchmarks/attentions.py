"""Measure the cost of recording all attention matrices: the time with `attention="all"` over that without.

    python benchmarks/attentions.py
    python benchmarks/attentions.py --against ../uwaga-before --check

The bundled model translates sentences one by one and 32 at a time, greedily and with its beam of 5, on the
engine (float32, int8) and in torch, with and without recording its 32 matrices. Models of BERT's and GPT-2's
base size (random weights) read 8 texts of 30 tokens and record 144 matrices of each: beside encoding them,
and beside generating one token. Both variants take turns on the same texts. Figures are medians of the
rounds, and ratios are medians of the ratios of the rounds.

``--against`` names another checkout (with a built core): `off` is the time without recording in this checkout
over that in the other. Their processes take turns, and the figure is the median of the fastest round of each.
The bars are 1.3 for recording, and 1.00 for off, that is, within 3%.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
SENTENCES = ROOT / "src/uwaga/conversion/sentences.txt"
ENGINES = (("native", "float32"), ("native", "int8"), ("torch", "float32"))
BEAMS = (1, 5)
BAR, SLACK = 1.3, 1.03
Variants = dict[str, Callable[[], object]]


def english() -> list[str]:
    """Return the sentences of the first section of the file, which are English."""
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    return lines[1 : next(index for index, line in enumerate(lines) if index and line.startswith("["))]


def take_turns(variants: Variants, rounds: int) -> dict[str, list[float]]:
    """Run the variants in turn, and return the seconds of each in each round."""
    times: dict[str, list[float]] = {name: [] for name in variants}
    for variant in variants.values():
        variant()
    for number in range(rounds):
        names = list(variants) if number % 2 else list(variants)[::-1]
        for name in names:
            start = time.perf_counter()
            variants[name]()
            times[name].append(time.perf_counter() - start)
    return times


def time_translations(rounds: int, recording: bool, case: str) -> dict[str, dict[str, list[float]]]:
    """Measure translations by the bundled model with each engine, beam size and batch size."""
    import uwaga

    lines, times = english(), {}
    for engine, precision in ENGINES:
        if case not in ("all", engine):
            continue
        model = uwaga.Translator.load(engine=engine, dtype=precision, device="cpu", threads=1)
        for beam in BEAMS:
            for batch, texts in ((1, lines[:8]), (32, lines[:32])):

                def run(attention: Any, beam: int = beam, batch: int = batch, texts: Any = texts) -> None:
                    for start in range(0, len(texts), batch):
                        model.translate(texts[start : start + batch], beam=beam, attention=attention)  # noqa: B023

                variants: Variants = {"off": lambda run=run: run(False)}
                if recording:
                    variants["all"] = lambda run=run: run("all")
                times[f"{engine} {precision}, beam {beam}, batch {batch}"] = take_turns(variants, rounds)
    return times


def reading(rounds: int) -> dict[str, dict[str, list[float]]]:
    """Measure models that only read text, in their base sizes."""
    import torch

    from uwaga.decoder import Choice, Symbols
    from uwaga.engine import NativeModel
    from uwaga.engine.packing import pack
    from uwaga.models.decoder_only import DecoderOnly
    from uwaga.models.masked import MaskedEncoder
    from uwaga.settings import DecoderOnlySettings, EncoderOnlySettings

    torch.set_num_threads(1)
    sizes: Any = {"layers": 12, "width": 768, "heads": 12, "feed_forward": 3072, "max_length": 64}
    texts = np.random.default_rng(0).integers(4, 500, (8, 30)).tolist()
    bert = MaskedEncoder(EncoderOnlySettings(**sizes), 500).eval()
    times = {
        "BERT size, torch, 8 texts": take_turns(
            {"off": lambda: bert.encode(texts), "all": lambda: bert.attentions(texts)}, rounds
        )
    }
    shape = DecoderOnlySettings(**sizes, norm="pre", activation="gelu_tanh")
    torch_model = DecoderOnly(shape, Symbols(0, 1, 2, 3), 500).eval()
    state = {name: tensor.detach().numpy() for name, tensor in torch_model.state_dict().items()}
    native = NativeModel(
        shape, Symbols(0, 1, 2, 3), (500, 500), pack(shape, (500, 500), state.__getitem__, "float32")
    )
    start = np.zeros(len(texts), dtype=np.int64)
    for name, model in (("native float32", native), ("torch", torch_model)):

        def step_once(model: Any = model) -> None:
            model.step(start, model.start(model.encode(texts), 1), Choice(1))

        def record(model: Any = model) -> None:
            model.attentions(texts, [[0]] * len(texts))

        times[f"GPT-2 size, {name}, 8 texts"] = take_turns({"off": step_once, "all": record}, rounds)
    return times


def run(root: Path, rounds: int, recording: bool, case: str) -> dict[str, dict[str, list[float]]]:
    environment = dict(os.environ, PYTHONPATH=str(root / "src"), OMP_NUM_THREADS="1")
    command = [sys.executable, __file__, "--worker", "--rounds", str(rounds), "--only", case]
    command += ["--recording"] if recording else []
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    times: dict[str, dict[str, list[float]]] = json.loads(process.stdout)
    return times


def time_without(runs: list[dict[str, dict[str, list[float]]]], name: str) -> float:
    """Return the time without recording: the median over processes of the fastest round of each."""
    return statistics.median(min(run_times[name]["off"]) for run_times in runs)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--against", type=Path, help="another checkout, for `off`")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--turns", type=int, default=2, help="processes of each checkout")
    parser.add_argument("--only", choices=("all", "native", "torch", "reading"), default="all")
    parser.add_argument("--check", action="store_true", help="exit with status 1 if a bar is missed")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--recording", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        runs = time_translations(arguments.rounds, arguments.recording, arguments.only)
        if arguments.recording and arguments.only in ("all", "reading"):
            runs |= reading(arguments.rounds)
        print(json.dumps(runs))
        return 0
    from peers.machine import machine

    current, plain, other = [], [], []
    for turn in range(arguments.turns):
        current.append(run(ROOT, arguments.rounds, True, arguments.only))
        if arguments.against:
            roots = [(ROOT, plain), (arguments.against.resolve(), other)]
            for root, runs in roots if turn % 2 else roots[::-1]:
                runs.append(run(root, arguments.rounds, False, arguments.only))
    print(json.dumps(machine()))
    print("ms".ljust(40), f"{'without':>9}{'recording':>11}{'ratio':>8}", f"{'off':>8}" if other else "")
    missed = False
    for name in current[0]:
        unrecorded, recorded = (
            [time for run_times in current for time in run_times[name][variant]] for variant in ("off", "all")
        )
        ratio = statistics.median(b / a for a, b in zip(unrecorded, recorded, strict=True))
        line = (
            f"{1e3 * statistics.median(unrecorded):9.1f}{1e3 * statistics.median(recorded):11.1f}{ratio:8.2f}"
        )
        missed = missed or ratio > BAR
        if other and name in other[0]:
            now, before = (time_without(runs, name) for runs in (plain, other))
            line += f" {now / before:8.2f}"
            missed = missed or now / before > SLACK
        print(name.ljust(40), line)
    return int(missed and arguments.check)


if __name__ == "__main__":
    sys.exit(main())

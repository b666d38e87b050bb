"""Compare the speed of continuing texts on CPUs: uwaga's engine, CTranslate2 int8 and transformers float32.

    python benchmarks/generation.py
    python benchmarks/generation.py --cores 2 --batches 1 8 32 --rounds 5 --json generation.json

All systems have the same random weights, of GPT-2's size (124 million weights, 50,257 tokens), and prompts of
random tokens. They generate the same number of new tokens, greedily: the end symbol is suppressed up to a
length limit. Rounds alternate between the systems; a figure is the median of its rounds, after a warm-up.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from peers.gpt2_size import VOCABULARY, write_gpt2
from peers.machine import machine

PEERS = ("ctranslate2", "transformers")
PRECISIONS = ("float32", "bfloat16", "int8", "int4")
System = Callable[[list[list[int]], int], None]
"""A function that continues prompts by a number of tokens."""


def uwaga_system(folder: Path, precision: str, cores: int) -> System:
    """Return a function that continues prompts with the engine, as ``uwaga generate`` does."""
    from uwaga import TextGenerator
    from uwaga.search import SearchInput, search

    generator = TextGenerator.load(folder, device="cpu", dtype=precision, threads=cores, engine="native")

    def run(prompts: list[list[int]], new: int) -> None:
        options = generator.options(beam=1, max_length=new, min_length=new, batch_tokens=1 << 20)
        for [hypothesis] in search(generator.decoder, list(map(SearchInput, prompts)), options):
            assert len(hypothesis.tokens) == new

    return run


def ctranslate2_system(folder: Path, cores: int) -> System:
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(str(folder)).convert(str(folder / "ct2"), quantization="int8", force=True)
    values = json.loads((folder / "vocab.json").read_text())
    return ctranslate2_generator(folder / "ct2", {number: piece for piece, number in values.items()}, cores)


def ctranslate2_generator(folder: Path, pieces: Mapping[int, str] | Sequence[str], cores: int) -> System:
    """Return a function that continues prompts with a CTranslate2 folder.

    ``pieces`` are the pieces by token id.
    """
    import ctranslate2

    generator = ctranslate2.Generator(str(folder), compute_type="int8", intra_threads=cores)

    def run(prompts: list[list[int]], new: int) -> None:
        texts = [[pieces[token] for token in prompt] for prompt in prompts]
        results = generator.generate_batch(
            texts, max_length=new, min_length=new, sampling_topk=1, include_prompt_in_result=False
        )
        assert all(len(result.sequences_ids[0]) == new for result in results)

    return run


def transformers_system(folder: Path, cores: int) -> System:
    import torch
    from transformers import GPT2LMHeadModel

    torch.set_num_threads(cores)
    model = GPT2LMHeadModel.from_pretrained(folder).eval()

    def run(prompts: list[list[int]], new: int) -> None:
        ids = torch.tensor(prompts)
        with torch.inference_mode():
            lengths = {"min_new_tokens": new, "max_new_tokens": new}
            outputs = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, **lengths)
        assert outputs.shape[1] == ids.shape[1] + new

    return run


def measure(
    systems: dict[str, System],
    size: int,
    length: int,
    new: int,
    rounds: int,
    vocabulary: int = VOCABULARY,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the median seconds of each system.

    Each round has new prompts, because the engine caches what it has read.
    """
    rng = np.random.default_rng(0)
    times: dict[str, list[float]] = {name: [] for name in systems}
    for number in range(rounds + 1):
        prompts = rng.integers(0, vocabulary - 1, (size, length)).tolist()
        for name, system in systems.items():
            start = clock()
            system(prompts, new)
            if number:
                times[name].append(clock() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--prompt", type=int, default=64, help="number of tokens of a prompt")
    parser.add_argument("--new", type=int, default=64, help="number of new tokens after it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cores])
    os.environ["OMP_NUM_THREADS"] = str(arguments.cores)
    print(machine())
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_gpt2(folder)
        systems = {
            f"uwaga {name}": uwaga_system(folder, name, arguments.cores) for name in arguments.precisions
        }
        if "ctranslate2" in arguments.peers:
            systems["CTranslate2 int8"] = ctranslate2_system(folder, arguments.cores)
        if "transformers" in arguments.peers:
            systems["transformers float32"] = transformers_system(folder, arguments.cores)
        for size in arguments.batches:
            full, first = (
                measure(systems, size, arguments.prompt, new, arguments.rounds) for new in (arguments.new, 1)
            )
            print(f"\nbatch {size}, cores {arguments.cores}: new tokens a second; seconds to the first")
            for name in systems:
                speed = size * arguments.new / full[name]
                results[f"{size} {name}"] = {"tokens_per_second": speed, "first": first[name]}
                print(f"{name:>22} {speed:9.1f} {first[name]:9.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

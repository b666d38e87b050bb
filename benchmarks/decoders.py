"""Speed of today's decoders on CPUs: uwaga's native engine and CTranslate2, from the same GGUF file.

    python benchmarks/decoders.py SmolLM2-135M-Instruct.F32.gguf
    python benchmarks/decoders.py SmolLM2-135M-Instruct.F32.gguf --batches 1 8 32 --precisions int8 int4

The peer's model is made of the same file by transformers (`gguf_file=`, which needs `pip install gguf
accelerate`). Prompts are of random tokens. Every system makes exactly the same number of new tokens,
greedily. Rounds alternate between the systems; a figure is the median of its rounds, after a warm-up. With
`--cpu` it is of the processor's time, for machines that do other work. The last figure is that of one long
prompt, whose tokens are counted up to the first new one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from generation import PRECISIONS, ctranslate2_generator, measure, uwaga_system
from peers.machine import machine

LONG = 512
"""Tokens of the long prompt."""


def convert(path: Path, folder: Path) -> None:
    """Write the model of a GGUF file as a folder of CTranslate2."""
    import torch
    from ctranslate2.converters import TransformersConverter
    from transformers import AutoModelForCausalLM, AutoTokenizer

    read = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    del read.config.quantization_config
    plain = type(read)(read.config)  # transformers does not save what was read from GGUF
    plain.load_state_dict(read.state_dict())
    plain.save_pretrained(folder / "hf")
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    tokenizer.save_pretrained(folder / "hf")
    TransformersConverter(str(folder / "hf")).convert(str(folder / "ct2"), quantization="int8", force=True)
    pieces = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    (folder / "ct2" / "pieces.json").write_text(json.dumps(pieces))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gguf", type=Path)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--prompt", type=int, default=64, help="tokens of a prompt")
    parser.add_argument("--new", type=int, default=64, help="tokens made behind it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=["int8"])
    parser.add_argument("--ctranslate2", type=Path, help="where the converted model is kept")
    parser.add_argument("--convert-with", default=sys.executable, help="a Python with gguf and accelerate")
    parser.add_argument("--cpu", action="store_true", help="measure the processor's time")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cores])
    os.environ["OMP_NUM_THREADS"] = str(arguments.cores)
    print(machine())
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.ctranslate2 or Path(temporary)
        if not (folder / "ct2" / "pieces.json").exists():
            code = "import sys; from decoders import *; convert(*map(Path, sys.argv[1:]))"
            command = [arguments.convert_with, "-c", code, str(arguments.gguf), str(folder)]
            subprocess.run(command, check=True, cwd=Path(__file__).parent)
        systems = {
            f"uwaga {name}": uwaga_system(arguments.gguf, name, arguments.cores)
            for name in arguments.precisions
        }
        pieces = json.loads((folder / "ct2" / "pieces.json").read_text())
        systems["CTranslate2 int8"] = ctranslate2_generator(folder / "ct2", pieces, arguments.cores)
        shapes = [(size, arguments.prompt, arguments.new) for size in arguments.batches] + [(1, LONG, 1)]
        for size, length, new in shapes:
            clock = time.process_time if arguments.cpu else time.perf_counter
            taken = measure(systems, size, length, new, arguments.rounds, len(pieces), clock)
            print(f"\nbatch {size}: tokens a second, {new} new after {length}; share of CTranslate2's")
            for name in systems:
                speed = (length if new == 1 else size * new) / taken[name]
                share = taken["CTranslate2 int8"] / taken[name]
                results[f"{size} {length} {name}"] = {"tokens_per_second": speed, "share": share}
                print(f"{name:>22} {speed:9.1f} {share:9.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

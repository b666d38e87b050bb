"""Compare the speed of decoders on CPUs: uwaga's engine, CTranslate2 and llama.cpp, from the same GGUF file.

    python benchmarks/decoders.py SmolLM2-135M-Instruct.Q4_1.gguf
    python benchmarks/decoders.py SmolLM2-135M-Instruct.Q4_1.gguf --precisions int8 int4 --llama-cpp Q8_0 Q4_0

The model of CTranslate2 is converted from the same file by transformers (`gguf_file=`, which needs `pip
install gguf accelerate`). llama.cpp, which reads one text at a time here, is compared at batch size 1 and
with the long prompt (`pip install llama-cpp-python`). Prompts consist of random tokens. All systems generate
the same number of new tokens, greedily. Rounds alternate between the systems; a figure is the median of its
rounds, after a warm-up. With `--cpu` it is processor time, for busy machines. The last figure is that of one
long prompt, whose tokens are counted up to the first new one.
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
from peers import llama_cpp_peer
from peers.machine import machine

LONG = 512
"""Number of tokens of the long prompt."""


def convert(path: Path, folder: Path) -> None:
    """Write the model of a GGUF file as a CTranslate2 folder."""
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
    parser.add_argument("--prompt", type=int, default=64, help="number of tokens of a prompt")
    parser.add_argument("--new", type=int, default=64, help="number of new tokens after it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=["int8"])
    parser.add_argument("--llama-cpp", nargs="*", choices=llama_cpp_peer.TYPES, default=[])
    parser.add_argument("--ctranslate2", type=Path, help="folder for the converted models")
    parser.add_argument("--convert-with", default=sys.executable, help="a Python with gguf and accelerate")
    parser.add_argument("--cpu", action="store_true", help="measure processor time")
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
        alone = {
            f"llama.cpp {name}": llama_cpp_peer.generator(
                llama_cpp_peer.requantise(arguments.gguf, name, folder), arguments.cores
            )
            for name in arguments.llama_cpp
        }
        shapes = [(size, arguments.prompt, arguments.new) for size in arguments.batches] + [(1, LONG, 1)]
        for size, length, new in shapes:
            clock = time.process_time if arguments.cpu else time.perf_counter
            compared = systems | alone if size == 1 else systems
            times = measure(compared, size, length, new, arguments.rounds, len(pieces), clock)
            print(f"\nbatch {size}: tokens a second, {new} new after {length}; share of CTranslate2's")
            for name in compared:
                speed = (length if new == 1 else size * new) / times[name]
                share = times["CTranslate2 int8"] / times[name]
                results[f"{size} {length} {name}"] = {"tokens_per_second": speed, "share": share}
                print(f"{name:>22} {speed:9.1f} {share:9.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

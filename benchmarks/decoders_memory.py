"""Measure the memory of decoders on uwaga's native engine, from a GGUF file or a converted folder (Linux).

    python benchmarks/decoders_memory.py SmolLM2-135M-Instruct.Q8_0.gguf
    python benchmarks/decoders_memory.py smollm2-int8 --precisions auto

For each precision one process loads the model and continues a prompt of 64 tokens by 64. Its resident memory
beyond that of the imported modules is compared with the bytes of the weights (int4: 4.5 bits each): once
loaded, at the peak while loading, and at the peak afterwards, less the keys and values of the 128 tokens.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from peers.machine import machine

BYTES = {"float32": 4.0, "bfloat16": 2.0, "int8": 1.0, "int4": 0.5625}
"""Bytes per weight."""
PROMPT, NEW = 64, 64
MODULES = (
    "importlib.metadata",  # which pydantic imports when it first checks settings
    "tokenizers",
    "uwaga.checkpoints.formats.gguf.read",
    "uwaga.checkpoints.formats.uwaga.int8",
    "uwaga.checkpoints.formats.uwaga.read",
    "uwaga.tokenizers.chat",
    "uwaga.generation.generator",
    "uwaga.translator.stream",
    "uwaga.translator.loading",
    "uwaga.translator.score",
)
"""Modules that loading and searching import."""


def resident(key: str) -> int:
    """Return a figure of the process in bytes: `VmRSS` now, `VmHWM` at its peak."""
    match = re.search(rf"{key}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) * 1024


def measure(path: Path, precision: str) -> dict[str, float]:
    """Load and use a model in this process, which must be new, and return the memory that it took."""
    from uwaga import TextGenerator
    from uwaga.checkpoints.size_checks import weight_shapes
    from uwaga.search import SearchInput, search

    for module in MODULES:
        importlib.import_module(module)
    before = resident("VmRSS")
    generator = TextGenerator.load(path, device="cpu", dtype=precision, threads=1, engine="native")
    loading, loaded = resident("VmHWM"), resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    options = generator.options(beam=1, max_length=NEW, min_length=NEW)
    prompt = [token % generator.decoder.vocabulary for token in range(100, 100 + PROMPT)]
    [[hypothesis]] = search(generator.decoder, [SearchInput(prompt)], options)
    assert len(hypothesis.tokens) == NEW
    figures = {"loaded": loaded, "peak of loading": loading, "peak of use": resident("VmHWM")}
    used: dict[str, float] = {name: value - before for name, value in figures.items()}
    decoder: Any = generator.decoder
    settings, vocabulary, computed = decoder.settings, decoder.vocabulary, decoder.precision
    parameters = sum(map(math.prod, weight_shapes(settings, vocabulary, vocabulary).values()))
    used["weights"] = parameters * BYTES[computed]
    element = 4 if computed == "float32" else 2
    used["keys and values"] = (
        (PROMPT + NEW) * settings.layers * settings.groups * settings.head_size * 2 * element
    )
    return used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("place", type=Path, help="a GGUF file or a folder")
    parser.add_argument("--precisions", nargs="+", choices=[*BYTES, "auto"], default=list(BYTES))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(arguments.place, arguments.child)))
        return
    print(machine())
    print(f"\nMB beyond the modules; share of the weights\n{'':>10}{'weights':>10}", end="")
    columns = ("loaded", "peak of loading", "peak of use")
    print("".join(f"{name:>24}" for name in columns))
    results = {}
    for name in arguments.precisions:
        command = [sys.executable, __file__, str(arguments.place), "--child", name]
        figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        results[name] = figures
        print(f"{name:>10}{figures['weights'] / 1e6:10.0f}", end="")
        for column in columns:
            used = figures[column] - (figures["keys and values"] if column == "peak of use" else 0)
            print(f"{used / 1e6:16.0f} {used / figures['weights']:7.2f}", end="")
        print()
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

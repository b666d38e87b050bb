"""Write the parse_weighted mean of models of the same shape, with its matrices stored in int8.

    python mean.py MODEL=SHARE [MODEL=SHARE ...] OUTPUT [--float32] [--length-penalty NUMBER]

The shares sum to 1; of one model with share 1 the mean is the model. Settings are those of the first model.
``--float32`` writes numbers that a training can start from. Stages that start from one another lie in one
basin; their mean has some of each (Wortsman 2022, "Model soups").
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from uwaga.checkpoints.storage.tensors import SCALES, to_int8


def parse_weighted(text: str) -> tuple[Path, float]:
    """Return the folder and the share of ``MODEL=SHARE``."""
    path, _, share = text.rpartition("=")
    return Path(path), float(share)


def main() -> None:
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("models", nargs="+", type=parse_weighted, metavar="MODEL=SHARE")
    parser.add_argument("output", type=Path)
    parser.add_argument("--float32", action="store_true", help="do not store matrices in int8")
    parser.add_argument("--length-penalty", type=float, help="length penalty in the settings of the output")
    options = parser.parse_args()
    if options.output.exists():
        sys.exit(f"error: {options.output} is there already; choose another name")
    if not math.isclose(total := math.fsum(share for _, share in options.models), 1.0):
        sys.exit(f"error: the shares sum to {total:g}, not to 1")
    first_path = options.models[0][0]
    mean: dict[str, NDArray[Any]] = {}
    for path, share in options.models:
        tensors = load_file(path / "model.safetensors")
        if mean and {n: t.shape for n, t in tensors.items()} != {n: t.shape for n, t in mean.items()}:
            sys.exit(f"error: {first_path} and {path} are models of different shapes")
        for name, tensor in tensors.items():
            mean[name] = mean.get(name, 0.0) + share * tensor.astype(np.float64)
    stored: dict[str, NDArray[Any]] = {}
    for name, tensor in mean.items():
        values = tensor.astype(np.float32)
        if values.ndim == 2 and not options.float32:
            stored[name], stored[name + SCALES] = to_int8(values)
        else:
            stored[name] = values
    shutil.copytree(first_path, options.output)
    save_file(stored, options.output / "model.safetensors")
    config = json.loads((options.output / "config.json").read_text(encoding="utf-8"))
    config["weights"] = "float32" if options.float32 else "int8"
    config["sha256"] = hashlib.sha256((options.output / "model.safetensors").read_bytes()).hexdigest()
    if options.length_penalty is not None:
        config["decoding"]["length_penalty"] = options.length_penalty
    (options.output / "config.json").write_text(
        json.dumps(config, indent=2, ensure_ascii=False), encoding="utf-8"
    )


if __name__ == "__main__":
    main()

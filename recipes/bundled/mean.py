"""The mean of two models of one shape, its matrices stored in int8.

    python mean.py MODEL OTHER OUTPUT [SHARE]

SHARE is the weight of the other model, a half if not given; of one model named twice the mean is the model.
Two stages, one of which starts from the other, lie in one basin; their mean has some of both (Wortsman 2022,
"Model soups").
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from uwaga.checkpoints.storage.tensors import SCALES, to_int8


def main() -> None:
    if len(sys.argv) not in (4, 5):
        sys.exit("usage: python mean.py MODEL OTHER OUTPUT [SHARE]")
    first_path, second_path, output = map(Path, sys.argv[1:4])
    share = float(sys.argv[4]) if len(sys.argv) > 4 else 0.5
    if output.exists():
        sys.exit(f"error: {output} is there already; choose another name")
    first, second = (load_file(folder / "model.safetensors") for folder in (first_path, second_path))
    if {n: t.shape for n, t in first.items()} != {n: t.shape for n, t in second.items()}:
        sys.exit(f"error: {first_path} and {second_path} are models of different shapes")
    mean: dict[str, NDArray[Any]] = {}
    for name, tensor in first.items():
        values = ((1 - share) * tensor.astype(np.float64) + share * second[name]).astype(np.float32)
        if values.ndim == 2:
            mean[name], mean[name + SCALES] = to_int8(values)
        else:
            mean[name] = values
    shutil.copytree(first_path, output)
    save_file(mean, output / "model.safetensors")
    config = json.loads((output / "config.json").read_text(encoding="utf-8"))
    config["weights"] = "int8"
    config["sha256"] = hashlib.sha256((output / "model.safetensors").read_bytes()).hexdigest()
    (output / "config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()

"""A model in int8 as one that can be trained, without dropout: ``python dequantise.py MODEL OUTPUT``."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from uwaga.checkpoints.storage.tensors import SCALES


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: python dequantise.py MODEL OUTPUT")
    model, output = map(Path, sys.argv[1:])
    if output.exists():
        sys.exit(f"error: {output} is there already; choose another name")
    stored = load_file(model / "model.safetensors")
    weights = {
        name: tensor.astype(np.float32) * stored[name + SCALES].reshape(-1, 1)
        if name + SCALES in stored
        else tensor
        for name, tensor in stored.items()
        if not name.endswith(SCALES)
    }
    shutil.copytree(model, output, ignore=shutil.ignore_patterns("alignment_head.json", "card.md"))
    save_file(weights, output / "model.safetensors")
    config = json.loads((output / "config.json").read_text(encoding="utf-8"))
    config["weights"] = "float32"
    config["model"]["dropout"] = 0.0
    config["sha256"] = hashlib.sha256((output / "model.safetensors").read_bytes()).hexdigest()
    (output / "config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()

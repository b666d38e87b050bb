"""Convert an int8 model to one that can be trained, without dropout: ``dequantise.py MODEL OUTPUT``."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

from safetensors.numpy import save_file

from uwaga.checkpoints.storage.safetensors_files import open_tensors
from uwaga.checkpoints.storage.tensors import join_scales


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: python dequantise.py MODEL OUTPUT")
    model, output = map(Path, sys.argv[1:])
    if output.exists():
        sys.exit(f"error: {output} is there already; choose another name")
    stored = join_scales(open_tensors(model / "model.safetensors"))
    weights = {name: tensor.floats() for name, tensor in stored.items()}
    shutil.copytree(model, output, ignore=shutil.ignore_patterns("alignment_head.json", "card.md"))
    save_file(weights, output / "model.safetensors")
    config = json.loads((output / "config.json").read_text(encoding="utf-8"))
    config["weights"] = "float32"
    config["model"]["dropout"] = 0.0
    config["sha256"] = hashlib.sha256((output / "model.safetensors").read_bytes()).hexdigest()
    (output / "config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()

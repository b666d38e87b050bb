"""Compare the training speed of one and of several processes with one core each, in target tokens per second.

    python benchmarks/scale_out.py
    python benchmarks/scale_out.py --processes 1 2 4 --rounds 3 --json scale_out.json

Each time, torchrun starts the same run on random sentences, without validations. The speed is that in
metrics.jsonl, which excludes the start. Rounds alternate, and the median counts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

PAIRS, WORDS, LENGTH = 4000, 2000, 20


def prepare(folder: Path, steps: int, kind: str) -> None:
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefghijklmnop", k=6)) for _ in range(WORDS)]
    for name, count in (("train", PAIRS), ("dev", 8)):
        rows = (
            "\t".join(" ".join(draw.choices(words, k=draw.randint(1, LENGTH))) for _ in range(2))
            for _ in range(count)
        )
        (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n")
    model = {"encoder_layers": 3, "decoder_layers": 3, "width": 256, "heads": 4, "feed_forward": 1024}
    training = {
        "steps": steps,
        "accumulate": 4,
        "batch_tokens": 1000,
        "threads": 1,
        "device": "cpu",
        "distributed": kind,
        "validate_every": 10**6,
        "validation_sentences": 0,
        "save_every": 10**6,
        "average": 0,
    }
    settings = {
        "run": "run",
        "data": {"train": ["train.tsv"], "dev": ["dev.tsv"]},
        "text": {"size": 2000},
        "model": model,
        "training": training,
    }
    (folder / "settings.yaml").write_text(yaml.safe_dump(settings))


def rate(folder: Path, processes: int, number: int) -> float:
    """Return the target tokens per second of all processes together."""
    run = f"run-{processes}-{number}"
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    words = ["train", "settings.yaml", "--set", f"run={run}"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launch, "-m", "uwaga", *words]
    process = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if process.returncode:
        sys.exit(process.stderr)
    lines = map(json.loads, (folder / run / "metrics.jsonl").read_text().splitlines())
    rates = [line["tokens_per_second"] for line in lines if line["part"] == "train"]
    return statistics.median(rates)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--kind", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rates: dict[int, list[float]] = {processes: [] for processes in options.processes}
    with tempfile.TemporaryDirectory(prefix="uwaga-scale-out-") as temporary:
        folder = Path(temporary)
        prepare(folder, options.steps, options.kind)
        for number in range(options.rounds):
            for processes in options.processes:
                rates[processes].append(rate(folder, processes, number))
    first = statistics.median(rates[options.processes[0]])
    for processes, values in rates.items():
        median = statistics.median(values)
        print(f"{processes} processes: {median:,.0f} tokens/s, {median / first:.2f} times", flush=True)
    if options.json:
        options.json.write_text(json.dumps({str(key): value for key, value in rates.items()}))


if __name__ == "__main__":
    main()

"""Training speed, in target tokens per second, of uwaga, JoeyNMT 2.3 and Hugging Face's Seq2SeqTrainer.

    python benchmarks/training.py
    python benchmarks/training.py --corpus train.en train.de --rounds 5 --json training.json

The same Transformer-Tiny (recipes/multi30k-tiny.yaml), the same batches of the same sentences, the same
number of threads, one process and one environment per system, rounds that alternate between the systems,
the median of the rounds. benchmarks/README.md says more.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from systems.corpus import Prepared, prepare
from systems.environments import python_of
from systems.machine import machine

import uwaga

HERE = Path(__file__).parent
PEERS = HERE / ".peers"
BARS = {"JoeyNMT": 5.0, "Hugging Face": 1.5}
BUSY = 0.5  # load average above which figures are not to be trusted
# What uwaga does with mallopt, as glibc's environment variables.
KEEP_FREED_MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
    "MALLOC_TOP_PAD_": str(64 * 2**20),
}


@dataclass(frozen=True)
class System:
    """One way to train. ``threads`` 0 means as many as --threads says, in all its processes together."""

    family: str
    worker: str
    precision: str
    attention: str = ""
    threads: int = 0
    parallel: bool = False  # a process for each thread


SYSTEMS = {
    "uwaga-bf16": System("uwaga", "uwaga", "bfloat16"),
    "uwaga-f32": System("uwaga", "uwaga", "float32"),
    "uwaga-bf16-1thread": System("uwaga, one thread", "uwaga", "bfloat16", threads=1),
    "uwaga-f32-1thread": System("uwaga, one thread", "uwaga", "float32", threads=1),
    "huggingface-f32": System("Hugging Face", "huggingface", "float32", "sdpa"),
    "huggingface-f32-eager": System("Hugging Face", "huggingface", "float32", "eager"),
    "huggingface-bf16": System("Hugging Face", "huggingface", "bfloat16", "sdpa"),
    "huggingface-bf16-eager": System("Hugging Face", "huggingface", "bfloat16", "eager"),
    "huggingface-f32-parallel": System("Hugging Face", "huggingface", "float32", "sdpa", parallel=True),
    "huggingface-bf16-parallel": System("Hugging Face", "huggingface", "bfloat16", "eager", parallel=True),
    "joeynmt-f32": System("JoeyNMT", "joeynmt", "float32"),
    "joeynmt-bf16": System("JoeyNMT", "joeynmt", "bfloat16"),
}
# Left out unless asked for: JoeyNMT's settings refuse 16-bit on a CPU; the others would take the time.
EXTRA = ("joeynmt-bf16", "huggingface-f32-eager", "uwaga-f32-1thread")


@dataclass
class Figures:
    """What the rounds of one system gave."""

    speeds: list[float] = field(default_factory=list)  # target tokens per second
    weights: int = 0
    peak_mib: int = 0
    threads: int = 0
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.speeds)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--corpus", nargs=2, type=Path, metavar=("SOURCE", "TARGET"), help="aligned files; default: made up")
    add("--rounds", type=int, default=3, help="rounds over all systems (default %(default)s)")
    add("--updates", type=int, default=3, help="timed updates a round (default %(default)s)")
    add("--warmup", type=int, default=1, help="updates before them, not timed (default %(default)s)")
    add("--threads", type=int, default=2, help="threads of each system (default %(default)s)")
    add("--batch-tokens", type=int, help="tokens of a batch, padding included (default: the recipe's)")
    add("--accumulate", type=int, help="batches an update (default: the recipe's)")
    add(
        "--systems",
        nargs="+",
        choices=SYSTEMS,
        metavar="SYSTEM",
        default=[name for name in SYSTEMS if name not in EXTRA],
        help=f"which to run, of {', '.join(SYSTEMS)} (default: all but {', '.join(EXTRA)})",
    )
    add(
        "--peer-malloc",
        action="store_true",
        help="give the peers, through the environment, the memory allocator settings that uwaga sets itself",
    )
    add("--json", type=Path, metavar="FILE", help="write all figures there")
    add("--check", action="store_true", help="exit with 1 if a bar is missed")
    arguments = parser.parse_args()
    for name in ("rounds", "updates", "warmup", "threads"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} must be at least 1")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    host = machine()
    show_machine(host)
    workers = {SYSTEMS[name].worker for name in arguments.systems}
    pythons = {
        worker: Path(sys.executable) if worker == "uwaga" else python_of(worker, PEERS) for worker in workers
    }
    prepared = prepare_corpus(arguments)
    figures = {name: Figures() for name in arguments.systems}
    for number in range(arguments.rounds):
        names = list(arguments.systems)
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:  # each round begins with another one
            measure(name, pythons[SYSTEMS[name].worker], prepared, arguments, figures[name])
            print(f"round {number + 1}  {name:24} {figures[name].speeds[-1]:8,.0f} tokens/s", flush=True)
    missed = report(figures)
    if arguments.json:
        write_json(arguments.json, host, arguments, prepared, figures)
    if arguments.check and missed:
        raise SystemExit(1)


def prepare_corpus(arguments: argparse.Namespace) -> Prepared:
    """The batches of all systems, and a few lines about them."""
    changes = {"batch_tokens": arguments.batch_tokens, "accumulate": arguments.accumulate}
    prepared = prepare(
        PEERS,
        tuple(arguments.corpus) if arguments.corpus else None,
        arguments.warmup + arguments.updates,
        {name: value for name, value in changes.items() if value},
    )
    uneven = prepared.settings.training.accumulate % arguments.threads
    if uneven and any(SYSTEMS[name].parallel for name in arguments.systems):
        raise SystemExit(
            f"{arguments.threads} processes cannot share {prepared.settings.training.accumulate} batches an "
            "update evenly: choose another --accumulate or --threads, or leave out the parallel --systems"
        )
    training, facts = prepared.settings.training, prepared.facts
    mean = statistics.mean(prepared.tokens[arguments.warmup :])
    print(
        f"corpus   {prepared.name}; {facts['mean_source']:.1f} and {facts['mean_target']:.1f} subwords\n"
        f"update   {training.accumulate} batches of at most {training.batch_tokens} tokens a side; together "
        f"{mean:,.0f} target tokens, and {facts['padding']:.1%} padding\n"
        f"rounds   {arguments.rounds} of {arguments.warmup} + {arguments.updates} updates a system, "
        f"{arguments.threads} threads\n",
        flush=True,
    )
    return prepared


def measure(
    name: str, python: Path, prepared: Prepared, arguments: argparse.Namespace, figures: Figures
) -> None:
    """One round of one system, in a process of its own."""
    system = SYSTEMS[name]
    threads, processes = shares(system, arguments)
    warmup, updates = arguments.warmup, arguments.warmup + arguments.updates
    with tempfile.TemporaryDirectory(prefix="uwaga-benchmark-") as scratch:
        folder = Path(scratch)
        job = {
            "settings": str(prepared.file),
            "batches": str(prepared.batches),
            "folder": scratch,
            "result": str(folder / "result.json"),
            "threads": threads,
            "precision": system.precision,
            "attention": system.attention,
            "updates": updates,
            "model": prepared.settings.model.model_dump(mode="json"),
            "training": prepared.settings.training.model_dump(mode="json"),
            "vocabulary": prepared.vocabulary,
            "symbols": prepared.symbols,
        }
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        run_worker(name, python, folder, arguments)
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    if (len(result["times"]), result["tokens"]) != (updates, sum(prepared.tokens)):
        raise SystemExit(
            f"{name} made {len(result['times'])} updates on {result['tokens']} target tokens instead of "
            f"{updates} on {sum(prepared.tokens)}: it did not train on the same batches"
        )
    seconds = result["times"][-1] - result["times"][warmup - 1]
    figures.speeds.append(sum(prepared.tokens[warmup:]) / seconds)
    figures.peak_mib = max(figures.peak_mib, result["peak_mib"])
    figures.weights, figures.threads = result["weights"], threads * processes
    figures.versions = result["versions"]


def shares(system: System, arguments: argparse.Namespace) -> tuple[int, int]:
    """Threads of each process, and processes."""
    total = system.threads or arguments.threads
    return (1, total) if system.parallel else (total, 1)


def run_worker(name: str, python: Path, folder: Path, arguments: argparse.Namespace) -> None:
    """Start a system and wait for it."""
    system = SYSTEMS[name]
    threads, processes = shares(system, arguments)
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    environment |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": ""}
    if system.worker == "uwaga":
        environment["PYTHONPATH"] = str(Path(uwaga.__file__).parents[1])
    elif arguments.peer_malloc:
        environment |= KEEP_FREED_MEMORY
    launcher = []
    if processes > 1:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        launcher = ["-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
        launcher += ["--master-addr=127.0.0.1", f"--master-port={port}"]
    command = [str(python), *launcher, str(HERE / "systems" / f"{system.worker}_worker.py")]
    done = subprocess.run(
        [*command, str(folder / "job.json")], env=environment, capture_output=True, text=True, cwd=folder
    )
    if done.returncode or not (folder / "result.json").exists():
        raise SystemExit(f"{name} failed with exit code {done.returncode}:\n{done.stderr[-3000:]}")


def show_machine(host: dict[str, Any]) -> None:
    print(f"machine  {host['cpu']}, {host['cores']} cores, {host['memory_gib']} GiB; {' '.join(host['isa'])}")
    print(f"system   {host['system']}, Python {host['python']}, load {host['load']:.2f}")
    if host["load"] > BUSY:
        print("warning: the machine is busy with something else; do not trust the figures", file=sys.stderr)


def report(figures: dict[str, Figures]) -> bool:
    """Print the table and the ratios; True if a bar is missed."""
    versions = {name: version for f in figures.values() for name, version in f.versions.items()}
    print("\nversions " + ", ".join(f"{name} {version}" for name, version in sorted(versions.items())))
    heads = f"{'threads':>7} {'median':>8} {'lowest':>8} {'highest':>8} {'weights':>10} {'MiB':>6}"
    print(f"\n{'tokens/s':24} {heads}")
    for name, f in figures.items():
        print(
            f"{name:24} {f.threads:7} {f.median:8,.0f} {min(f.speeds):8,.0f} {max(f.speeds):8,.0f} "
            f"{f.weights:10,} {f.peak_mib:6,}"
        )
    ours, missed = best(figures, "uwaga"), False
    for family, bar in BARS.items():
        theirs = best(figures, family)
        if not ours or not theirs:
            continue
        ratios = paired(figures[ours], figures[theirs])
        ratio = statistics.median(ratios)
        missed |= ratio < bar
        print(
            f"\n{ours} is {ratio:.2f} times as fast as {theirs}, the best of {family} "
            f"({min(ratios):.2f} to {max(ratios):.2f} in single rounds); the bar is {bar}: "
            f"{'met' if ratio >= bar else 'MISSED'}",
            end="",
        )
    for precision in ("bf16", "f32"):
        two, one = figures.get(f"uwaga-{precision}"), figures.get(f"uwaga-{precision}-1thread")
        if two and one and two.threads > 1:
            gain = statistics.median(paired(two, one))
            print(f"\nuwaga-{precision}: {two.threads} threads are {gain:.2f} times as fast as one", end="")
    print()
    return missed


def best(figures: dict[str, Figures], family: str) -> str | None:
    """The fastest system of a family, if any of it ran."""
    names = [name for name in figures if SYSTEMS[name].family == family]
    return max(names, key=lambda name: figures[name].median, default=None)


def paired(ours: Figures, theirs: Figures) -> list[float]:
    """Ratios round by round: the two were measured within minutes of each other."""
    return [a / b for a, b in zip(ours.speeds, theirs.speeds, strict=True)]


def write_json(
    path: Path,
    host: dict[str, Any],
    arguments: argparse.Namespace,
    prepared: Prepared,
    figures: dict[str, Figures],
) -> None:
    training = prepared.settings.training
    values = {
        "machine": host,
        "corpus": {"name": prepared.name, **prepared.facts},
        "rounds": arguments.rounds,
        "updates": arguments.updates,
        "warmup": arguments.warmup,
        "batch_tokens": training.batch_tokens,
        "accumulate": training.accumulate,
        "peer_malloc": arguments.peer_malloc,
        "tokens": prepared.tokens,
        "model": prepared.settings.model.model_dump(mode="json"),
        "systems": {
            name: {**asdict(SYSTEMS[name]), **asdict(f), "median": f.median} for name, f in figures.items()
        },
        "ratios": {
            family: statistics.median(paired(figures[ours], figures[theirs]))
            for family in BARS
            if (ours := best(figures, "uwaga")) and (theirs := best(figures, family))
        },
    }
    partial = path.with_suffix(path.suffix + ".partial")
    partial.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


if __name__ == "__main__":
    main()

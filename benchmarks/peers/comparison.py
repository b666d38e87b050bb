"""Code shared by the comparisons of training speed: rounds that alternate between systems, and the report."""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from peers.corpus import PreparedCorpus, prepare
from peers.environments import python_of
from peers.machine import machine, show_machine

import uwaga

FOLDER = Path(__file__).parents[1]
PEERS = Path(os.environ.get("UWAGA_BENCHMARK_PEERS", FOLDER / ".peers"))
RECIPES = FOLDER.parent / "recipes"
# What uwaga does with mallopt, as glibc's environment variables.
KEEP_FREED_MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
    "MALLOC_TOP_PAD_": str(64 * 2**20),
}


@dataclass(frozen=True)
class System:
    """A system that trains.

    ``threads`` is the number of threads of all its processes together; 0 means the number in ``--threads``.
    """

    family: str
    worker: str
    precision: str
    attention: str = ""
    threads: int = 0
    parallel: bool = False  # a process for each thread
    recipe: str = "multi30k-tiny"  # model and training settings, of those in recipes/


@dataclass
class Figures:
    """The results of the rounds of one system."""

    speeds: list[float] = field(default_factory=list)  # target tokens per second
    weights: int = 0
    peak_mib: int = 0
    threads: int = 0
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.speeds)


@dataclass(frozen=True)
class Comparison:
    """The systems to compare.

    ``extra`` systems run only if they are requested; ``bars`` are the minimum ratios of the fastest system of
    one family to the fastest of another.
    """

    title: str
    systems: Mapping[str, System]
    extra: Sequence[str]
    bars: Sequence[tuple[str, str, float]]


def parse_arguments(comparison: Comparison) -> argparse.Namespace:
    systems, extra = comparison.systems, comparison.extra
    parser = argparse.ArgumentParser(
        description=comparison.title, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--corpus",
        nargs=2,
        type=Path,
        metavar=("SOURCE", "TARGET"),
        help="aligned files; default: generated files",
    )
    add("--rounds", type=int, default=3, help="rounds over all systems (default %(default)s)")
    add("--updates", type=int, default=3, help="timed updates per round (default %(default)s)")
    add("--warmup", type=int, default=1, help="updates before the timed ones (default %(default)s)")
    add("--threads", type=int, default=2, help="threads of each system (default %(default)s)")
    add("--batch-tokens", type=int, help="tokens of a batch, padding included (default: the recipe's)")
    add("--accumulate", type=int, help="batches per update (default: the recipe's)")
    add(
        "--systems",
        nargs="+",
        choices=systems,
        metavar="SYSTEM",
        default=[name for name in systems if name not in extra],
        help=f"which to run, of {', '.join(systems)} (default: all but {', '.join(extra)})",
    )
    add(
        "--peer-malloc",
        action="store_true",
        help="give the peers, through the environment, the memory allocator settings that uwaga sets itself",
    )
    add(
        "--cpu-time",
        action="store_true",
        help="count the CPU seconds of a process, all its threads together, instead of seconds: for a busy "
        "machine, with --threads 1",
    )
    add("--json", type=Path, metavar="FILE", help="file to write all figures to")
    add("--check", action="store_true", help="exit with status 1 if a bar is missed")
    arguments = parser.parse_args()
    for name in ("rounds", "updates", "warmup", "threads"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} must be at least 1")
    return arguments


def run(comparison: Comparison) -> None:
    """Run the complete comparison, as the command line requests."""
    arguments = parse_arguments(comparison)
    host = machine()
    show_machine(host)
    systems = {name: comparison.systems[name] for name in arguments.systems}
    pythons = {
        worker: Path(sys.executable) if worker == "uwaga" else python_of(worker, PEERS)
        for worker in {system.worker for system in systems.values()}
    }
    prepared = prepare_corpora(systems, arguments)
    figures = {name: Figures() for name in systems}
    for number in range(arguments.rounds):
        names = list(systems)
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:  # each round begins with another one
            system = systems[name]
            measure(name, system, pythons[system.worker], prepared[system.recipe], arguments, figures[name])
            print(f"round {number + 1}  {name:24} {figures[name].speeds[-1]:8,.0f} tokens/s", flush=True)
    missed = report(comparison, figures)
    if arguments.json:
        write_json(arguments.json, host, arguments, comparison, prepared, figures)
    if arguments.check and missed:
        raise SystemExit(1)


def prepare_corpora(
    systems: Mapping[str, System], arguments: argparse.Namespace
) -> dict[str, PreparedCorpus]:
    """Return the batches of each recipe, which are the same for all systems, after printing a summary."""
    changes = {"batch_tokens": arguments.batch_tokens, "accumulate": arguments.accumulate}
    corpora: dict[str, PreparedCorpus] = {}
    for recipe in dict.fromkeys(system.recipe for system in systems.values()):
        corpora[recipe] = prepared = prepare(
            PEERS,
            RECIPES / f"{recipe}.yaml",
            tuple(arguments.corpus) if arguments.corpus else None,
            arguments.warmup + arguments.updates,
            {name: value for name, value in changes.items() if value},
        )
        uneven = prepared.settings.training.accumulate % arguments.threads
        if uneven and any(system.parallel for system in systems.values()):
            raise SystemExit(
                f"{arguments.threads} processes cannot share {prepared.settings.training.accumulate} batches "
                "an update evenly: choose another --accumulate or --threads, or leave out parallel --systems"
            )
        training, facts = prepared.settings.training, prepared.facts
        mean = statistics.mean(prepared.tokens[arguments.warmup :])
        print(
            f"recipe   {recipe}\n"
            f"corpus   {prepared.name}; {facts['mean_source']:.1f} and {facts['mean_target']:.1f} subwords\n"
            f"update   {training.accumulate} batches of at most {training.batch_tokens} tokens a side, "
            f"together {mean:,.0f} target tokens, and {facts['padding']:.1%} padding",
        )
    print(
        f"rounds   {arguments.rounds} of {arguments.warmup} + {arguments.updates} updates a system, "
        f"{arguments.threads} threads\n",
        flush=True,
    )
    return corpora


def measure(
    name: str,
    system: System,
    python: Path,
    prepared: PreparedCorpus,
    arguments: argparse.Namespace,
    figures: Figures,
) -> None:
    """Run one round of one system in a new process."""
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
            "cpu_time": arguments.cpu_time,
        }
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        run_worker(name, system, python, folder, arguments)
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
    """Return the number of threads of each process, and the number of processes."""
    total = system.threads or arguments.threads
    return (1, total) if system.parallel else (total, 1)


def run_worker(name: str, system: System, python: Path, folder: Path, arguments: argparse.Namespace) -> None:
    """Run a system in a child process, and wait for its end."""
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
    command = [str(python), *launcher, str(FOLDER / "peers" / f"{system.worker}_worker.py")]
    process = subprocess.run(
        [*command, str(folder / "job.json")], env=environment, capture_output=True, text=True, cwd=folder
    )
    if process.returncode or not (folder / "result.json").exists():
        raise SystemExit(f"{name} failed with exit code {process.returncode}:\n{process.stderr[-3000:]}")


def report(comparison: Comparison, figures: Mapping[str, Figures]) -> bool:
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
    missed = False
    for our_family, family, bar in comparison.bars:
        uwaga_figures, peer_figures = best(comparison, figures, our_family), best(comparison, figures, family)
        if not uwaga_figures or not peer_figures:
            continue
        ratios = paired_ratios(figures[uwaga_figures], figures[peer_figures])
        ratio = statistics.median(ratios)
        missed |= ratio < bar
        print(
            f"\n{uwaga_figures} is {ratio:.2f} times as fast as {peer_figures}, the best of {family} "
            f"({min(ratios):.2f} to {max(ratios):.2f} in single rounds); the bar is {bar}: "
            f"{'met' if ratio >= bar else 'MISSED'}",
            end="",
        )
    for name, two_threads in figures.items():
        one_thread = figures.get(f"{name}-1thread")
        if one_thread and two_threads.threads > 1:
            gain = statistics.median(paired_ratios(two_threads, one_thread))
            print(f"\n{name}: {two_threads.threads} threads are {gain:.2f} times as fast as one", end="")
    print()
    return missed


def best(comparison: Comparison, figures: Mapping[str, Figures], family: str) -> str | None:
    """Return the name of the fastest system of a family, or None if none of them ran."""
    names = [name for name in figures if comparison.systems[name].family == family]
    return max(names, key=lambda name: figures[name].median, default=None)


def paired_ratios(uwaga_figures: Figures, peer_figures: Figures) -> list[float]:
    """Return the ratio of each round; both systems of a round were measured within minutes."""
    return [a / b for a, b in zip(uwaga_figures.speeds, peer_figures.speeds, strict=True)]


def write_json(
    path: Path,
    host: dict[str, Any],
    arguments: argparse.Namespace,
    comparison: Comparison,
    prepared: Mapping[str, PreparedCorpus],
    figures: Mapping[str, Figures],
) -> None:
    values = {
        "machine": host,
        "rounds": arguments.rounds,
        "updates": arguments.updates,
        "warmup": arguments.warmup,
        "peer_malloc": arguments.peer_malloc,
        "cpu_time": arguments.cpu_time,
        "recipes": {
            recipe: {
                "corpus": {"name": corpus.name, **corpus.facts},
                "batch_tokens": corpus.settings.training.batch_tokens,
                "accumulate": corpus.settings.training.accumulate,
                "tokens": corpus.tokens,
                "model": corpus.settings.model.model_dump(mode="json"),
            }
            for recipe, corpus in prepared.items()
        },
        "systems": {
            name: {**asdict(comparison.systems[name]), **asdict(f), "median": f.median}
            for name, f in figures.items()
        },
        "ratios": {
            f"{our_family} / {family}": statistics.median(
                paired_ratios(figures[uwaga_figures], figures[peer_figures])
            )
            for our_family, family, _ in comparison.bars
            if (uwaga_figures := best(comparison, figures, our_family))
            and (peer_figures := best(comparison, figures, family))
        },
    }
    partial = path.with_suffix(path.suffix + ".partial")
    partial.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)

"""Compare the engine, commands and the server of this checkout with those of another, such as an earlier one.

    git worktree add ../uwaga-before 6b48eedf && make -C ../uwaga-before demo
    python benchmarks/against.py ../uwaga-before --check
    python benchmarks/against.py ../uwaga-before --dtypes --command "translate --model $FIREFOX < $LINES"
    python benchmarks/against.py ../uwaga-before --dtypes --serve $MODEL

Each checkout runs in its own ``.venv``, in processes that take turns. The engine translates 1, 8 and 64
sentences of 26 tokens to 12 tokens each, greedily on one thread, with random weights of an OPUS-MT model's
size. The cold start is ``uwaga translate`` of a sentence with the bundled model. A ``--command`` is measured
from its start to its end, in an empty folder. ``--serve`` measures a server that answers 500 requests by 8
clients, without the clients. The output contains medians of the processor time, and the median ratio of pairs
of runs: above 1, this checkout is faster. As the addresses of its memory make a process faster or slower, new
pairs of processes are started ``--processes`` times. All run on the same processor (Linux only), because the
processors of a machine may differ in speed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import signal
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from peers.http_load import post, run, run_clients
from peers.machine import machine, show_machine
from peers.opus_size import write_marian
from peers.processes import wait_for
from serve import body, free_port, sentences

ROOT = Path(__file__).parents[1]
WORKER = Path(__file__).parent / "peers" / "against_worker.py"
SOURCE, TARGET, BATCHES = 26, 12, (1, 8, 64)
REQUESTS, CLIENTS = 500, 8
BAR = 0.99
TEXT = "I want to buy a car."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="a checkout in which `make demo` has run")
    parser.add_argument("--dtypes", nargs="*", default=["int8", "float32"])
    parser.add_argument("--processes", type=int, default=5, help="pairs of processes of each dtype")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="seconds of each pair of processes and batch size"
    )
    parser.add_argument("--starts", type=int, default=40, help="number of cold starts of each checkout")
    parser.add_argument(
        "--command", action="append", default=[], help="arguments of `uwaga`, for a shell; repeatable"
    )
    parser.add_argument("--serve", type=Path, metavar="MODEL", help="folder of a model for the server")
    parser.add_argument("--runs", type=int, default=5, help="number of runs of each command and server")
    parser.add_argument("--check", action="store_true", help=f"fail if a ratio is below {BAR}")
    arguments = parser.parse_args()
    pythons = [checkout / ".venv/bin/python" for checkout in (arguments.other.resolve(), ROOT)]
    for python in pythons:
        if not python.exists():
            raise SystemExit(f"{python} does not exist; run `make demo` in {python.parents[2]}")
    show_machine(machine())
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(f"{'':24} {'other':>10} {'this':>10} {'ratio':>7}")
    measures = [("cold start, s", partial(command_seconds, command=f"translate '{TEXT}'"), arguments.starts)]
    measures += [(each, partial(command_seconds, command=each), arguments.runs) for each in arguments.command]
    if arguments.serve:
        serve = partial(server_seconds, model=arguments.serve.resolve())
        measures.append((f"{REQUESTS} requests, s", serve, arguments.runs))
    ratios = []
    for name, measure, runs in measures:
        if runs:
            pairs = alternate([partial(measure, python) for python in pythons], runs)
            ratios.append(show(name, pairs))
    with tempfile.TemporaryDirectory() as scratch:
        folder, lines = Path(scratch, "model"), Path(scratch, "sentences.txt")
        write_marian(folder)
        lines.write_text("\n".join(random_sentences(folder)), encoding="utf-8")
        for dtype in arguments.dtypes:
            samples: dict[int, list[tuple[float, float]]] = {batch: [] for batch in BATCHES}
            for turn in range(arguments.processes):
                order = -1 if turn % 2 else 1
                measured = engine_pairs(pythons[::order], folder, lines, dtype, arguments.seconds)
                for batch, pairs in measured.items():
                    samples[batch] += [pair[::order] for pair in pairs]
            ratios += [show(f"{dtype}, batch {batch}, ms", pairs, 1000) for batch, pairs in samples.items()]
    if arguments.check and min(ratios) < BAR:
        raise SystemExit(f"a ratio is below {BAR}")


def alternate(measures: Iterable[Callable[[], float]], count: int) -> list[tuple[float, float]]:
    """Run two measurements in turn, ``count`` times each, and return the pairs of results.

    The second measurement runs first in every other turn.
    """
    folders, pairs = list(measures), []
    for turn in range(count):
        first, second = (measure() for measure in (folders if turn % 2 else folders[::-1]))
        pairs.append((first, second) if turn % 2 else (second, first))
    return pairs


def command_seconds(python: Path, command: str) -> float:
    """Return the processor time of a command of ``uwaga`` in an empty folder, from its start to its end."""
    line = f"{python} -m uwaga {command}"
    with tempfile.TemporaryDirectory() as folder, used_seconds() as seconds:
        completed = subprocess.run(line, shell=True, capture_output=True, text=True, cwd=folder)
    if completed.returncode:
        raise SystemExit(f"{line}: exit status {completed.returncode}\n{completed.stderr}")
    return seconds[0]


def server_seconds(python: Path, model: Path) -> float:
    """Return the processor time of a server that answers ``REQUESTS`` requests, from its start to its end."""
    port = free_port()
    command = [str(python), "-m", "uwaga", "serve", "--model", str(model), "--port", str(port)]
    requests = [post("/translate", body(text)) for text in sentences(None, REQUESTS)]
    with (
        used_seconds() as seconds,
        subprocess.Popen([*command, "--threads", "1"], stderr=subprocess.DEVNULL) as server,
    ):
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(url)
            load = run(run_clients(url, requests, CLIENTS))
        finally:
            server.send_signal(signal.SIGTERM)
    assert set(load.statuses) == {200}, load.statuses
    return seconds[0]


@contextlib.contextmanager
def used_seconds() -> Iterator[list[float]]:
    """Yield a list, to which the processor time of the processes that ended within the block is added."""
    seconds: list[float] = []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    yield seconds
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def engine_pairs(
    pythons: list[Path], folder: Path, sentences: Path, dtype: str, seconds: float
) -> dict[int, list[tuple[float, float]]]:
    """Translate in turn in a new process of each checkout; return the seconds by batch size."""
    workers: list[Worker] = []
    try:
        workers += (Worker(python, folder, dtype, sentences) for python in pythons)
        results = {}
        for batch in BATCHES:
            round_seconds = sum(worker.seconds(batch) for worker in workers)
            turns = max(2, round(seconds / round_seconds))
            results[batch] = alternate([partial(worker.seconds, batch) for worker in workers], turns)
        return results
    finally:
        for worker in workers:
            worker.close()


class Worker:
    """A process that translates batches; see ``peers/against_worker.py``."""

    def __init__(self, python: Path, folder: Path, dtype: str, sentences: Path) -> None:
        command = [str(python), str(WORKER), str(folder), dtype, str(sentences), str(TARGET)]
        self._python = python
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=python.parents[2],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self._read()

    def seconds(self, batch: int) -> float:
        """Return the processor time of translating a batch of ``batch`` sentences."""
        assert self._process.stdin is not None
        print(batch, file=self._process.stdin, flush=True)
        return float(self._read())

    def close(self) -> None:
        self._process.communicate()

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the worker of {self._python} failed")
        return line


def random_sentences(folder: Path) -> list[str]:
    """Return random sentences of whole words, each of which is one token."""
    pieces = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    words = [piece[1:] for piece in pieces if piece[0] == "\u2581" and piece[1:].isalpha()]
    rng = np.random.default_rng(1)
    return [" ".join(rng.choice(words, SOURCE - 1)) for _ in range(max(BATCHES))]


def show(name: str, pairs: list[tuple[float, float]], factor: float = 1) -> float:
    """Print one line of the results, and return the median ratio."""
    other, this = (factor * statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(first / second for first, second in pairs)
    print(f"{name:24} {other:10.3f} {this:10.3f} {ratio:7.3f}", flush=True)
    return ratio


if __name__ == "__main__":
    main()

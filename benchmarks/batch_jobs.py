"""Measure the cost of a batch job over `uwaga translate`, the gain from a second worker, and memory by rows.

    python benchmarks/batch_jobs.py
    python benchmarks/batch_jobs.py --lines 40000 --memory --folder /tmp/batch --ways plain batch
    python benchmarks/batch_jobs.py --lines 40000 --memory --folder /tmp/batch --ways workers_1 workers_2
    python benchmarks/batch_jobs.py --lines 1000000 --memory --tiny --ways plain ray --kill 2
    python benchmarks/batch_jobs.py --lines 0 --memory 1000000 3000000 10000000 --tiny
    python benchmarks/batch_jobs.py --lines 0 --memory --ceiling 200000

The lines are generated from about fifty words and are all different. Each measurement is of a new process.
Seconds are wall-clock time. CPU seconds are those of the process and its descendants, so that they do not
depend on the load of the machine. Memory is the peak of the largest of these processes (``ru_maxrss``). The
actors of a Ray cluster are not descendants of the job, so its CPU seconds are those of reading and writing.

``plain`` is `uwaga translate`, ``batch`` a job in one process, ``workers_1`` and ``workers_2`` one and two
processes with one core each, ``ray`` two nodes on loopback, one of which is killed ``--kill`` times. The
joined parts of every job are compared with the output of `uwaga translate`. With ``--folder``, the methods
may be run in several calls. ``--tiny`` translates short lines into at most four tokens with a random model of
width 16, so that the time is mainly that of the job; it needs torch to create the model.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

LINES_PER_BLOCK = 50_000  # lines written at one time
STEMS = ("small", "red", "old", "young", "happy", "quiet", "little", "green", "tall", "brown")
NOUNS = "man dog woman girl boy child car house street ball water park"
WORDS = [*(f"{stem}{end}" for stem in STEMS for end in ("", "er", "est", "ly")), *NOUNS.split()]
METHODS = {
    "batch": ["--threads", 1],
    "workers_1": ["--workers", 1, "--threads", 1],
    "workers_2": ["--workers", 2, "--threads", 1],
}


def write_lines(path: Path, count: int, short: bool) -> None:
    """Write ``count`` lines of 8 to 16 words, or of two words if ``short``.

    Each line contains its number, so that all lines differ.
    """
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, count, LINES_PER_BLOCK):
            lines = []
            for number in range(start, min(count, start + LINES_PER_BLOCK)):
                draw = number * 2654435761 % 2**32
                picked = [
                    WORDS[(draw >> shift) % len(WORDS)] for shift in range(1 if short else 4 + draw % 8)
                ]
                text = " ".join(picked)
                lines.append(f"{text} {number}\n" if short else f"The {text} is number {number} .\n")
            file.writelines(lines)


WATCH = """
import json, os, resource, subprocess, sys, time
process, own = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL), 0
while process.poll() is None:
    try:
        fields = open(f"/proc/{process.pid}/stat").read().rpartition(")")[2].split()
        own = max(own, int(fields[11]) + int(fields[12]))  # without what it began
    except OSError:
        pass
    time.sleep(0.05)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
own /= os.sysconf("SC_CLK_TCK")
print(json.dumps([process.returncode, used.ru_utime + used.ru_stime, own, used.ru_maxrss]))
"""
"""Runs a command from a small process, because a child process inherits the peak memory of its parent."""


def measure_command(command: list[str], label: str) -> dict[str, float]:
    """Run a command, and return its seconds, its CPU seconds and its peak memory in bytes.

    ``own`` are the CPU seconds of the first process alone.
    """
    started = time.perf_counter()
    watched = [sys.executable, "-c", WATCH, *command]
    process = subprocess.run(watched, check=True, stdout=subprocess.PIPE)
    seconds = time.perf_counter() - started
    status, cpu, own_cpu, kilobytes = json.loads(process.stdout)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {status}")
    print(
        f"{label:>24} {seconds:8.1f} s {cpu:8.1f} CPU s, {own_cpu:8.1f} of them the first process's "
        f"{kilobytes / 1000:8.1f} MB",
        flush=True,
    )
    return {"seconds": seconds, "cpu": cpu, "own": own_cpu, "bytes": kilobytes * 1024}


def uwaga(*words: object) -> list[str]:
    """Return the arguments of a command of uwaga."""
    return [sys.executable, "-m", "uwaga", *map(str, words)]


class Passes:
    """Translations of the same lines by ``uwaga translate`` and by jobs; the results are kept in a folder."""

    def __init__(self, folder: Path, arguments: argparse.Namespace, options: list[str]) -> None:
        self.folder, self.options = folder, options
        self.lines, self.part_rows, self.kills = arguments.lines, arguments.part_rows, arguments.kill
        self.source = folder / "in.txt"
        self.plain = folder / "plain.txt"
        self.results_path = folder / "passes.json"
        self.results: dict[str, Any] = {"lines": self.lines}
        if self.results_path.is_file():
            self.results = json.loads(self.results_path.read_text(encoding="utf-8"))
        else:
            write_lines(self.source, self.lines, arguments.tiny)
        if self.results["lines"] != self.lines:
            raise SystemExit(
                f"{folder} has {self.results['lines']} lines; give the same --lines, or another --folder"
            )

    def run(self, method: str) -> None:
        """Run one method, and check that its rows equal those of ``uwaga translate``."""
        if method == "plain":
            words = ["--input", self.source, "--output", self.plain, "--threads", 1, *self.options]
            self.results[method] = measure_command(uwaga("translate", *words), method)
        else:
            shutil.rmtree(self.folder / method, ignore_errors=True)
            self.results[method] = self._on_cluster() if method == "ray" else self._job(method)
            self.results[method]["equal"] = self._equal(self.folder / method)
            print(f"{method:>24} row for row equal: {self.results[method]['equal']}", flush=True)
        self.results_path.write_text(json.dumps(self.results, indent=1) + "\n", encoding="utf-8")

    def ratios(self) -> None:
        """Print the ratio of the time of a job to that of ``uwaga translate``, and the gain from a second
        worker.
        """
        seconds = {
            method: figures["seconds"]
            for method, figures in self.results.items()
            if isinstance(figures, dict)
        }
        if {"plain", "batch"} <= set(seconds):
            print(f"overhead of batch: {seconds['batch'] / seconds['plain'] - 1:+.1%}")
        if {"workers_1", "workers_2"} <= set(seconds):
            print(f"two workers: {seconds['workers_1'] / seconds['workers_2'] / 2:.3f} of linear")

    def _job(self, method: str) -> dict[str, Any]:
        words = [
            self.source,
            self.folder / method,
            "--part-rows",
            self.part_rows,
            *METHODS[method],
            *self.options,
        ]
        return measure_command(uwaga("batch", *words), method)

    def _on_cluster(self) -> dict[str, Any]:
        """Run a job on two nodes with one core each, one of which is killed several times.

        The kills are distributed evenly over the parts.
        """
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
        out = self.folder / "ray"
        words = [self.source, out, "--part-rows", self.part_rows, "--workers", 2, *self.options]
        parts, killed = -(-self.lines // self.part_rows), 0
        try:
            with ThreadPoolExecutor(1) as executor:  # nodes can be begun in the first thread alone
                job = executor.submit(
                    measure_command, uwaga("batch", *words, "--ray", cluster.address), "ray"
                )
                while not job.done():
                    time.sleep(0.05)
                    part_count = len(list(out.glob("part-*")))
                    if killed < self.kills and part_count >= parts * (killed + 1) // (self.kills + 1):
                        cluster.remove_node(nodes.pop(0), allow_graceful=False)
                        nodes.append(cluster.add_node(num_cpus=1))
                        killed += 1
                        print(
                            f"{'ray':>24} a node was killed after {part_count} of {parts} parts", flush=True
                        )
        finally:
            cluster.shutdown()
        return {**job.result(), "kills": killed}

    def _equal(self, folder: Path) -> bool:
        """Return True if the joined parts of a job equal the output of ``uwaga translate``."""
        joined = self.folder / "joined.txt"
        with joined.open("wb") as file:
            for part in sorted(folder.glob("part-*"), key=lambda path: (len(path.name), path.name)):
                with part.open("rb") as content:
                    shutil.copyfileobj(content, file)
        return filecmp.cmp(joined, self.plain, shallow=False)


def memory(folder: Path, arguments: argparse.Namespace, options: list[str]) -> list[dict[str, float]]:
    """Return the time and peak memory of a job in one process, by number of rows.

    A single process also includes the reading and writing.
    """
    results = []
    for size in arguments.memory:
        source, out = folder / f"in-{size}.txt", folder / f"out-{size}"
        write_lines(source, size, arguments.tiny)
        words = [source, out, "--part-rows", arguments.part_rows, "--threads", 1, *options]
        results.append({"lines": size, **measure_command(uwaga("batch", *words), f"{size:,} lines")})
        shutil.rmtree(out)
        source.unlink()
    for small, large in pairwise(results):
        times = {
            quantity: large[quantity] / small[quantity] for quantity in ("lines", "seconds", "cpu", "bytes")
        }
        print(
            f"x {times['lines']:.2f} lines: x {times['seconds']:.2f} time, x {times['cpu']:.2f} CPU time, "
            f"x {times['bytes']:.2f} memory"
        )
    return results


def ceiling(folder: Path, rows: int) -> dict[str, float]:
    """Return the rows per second that one process reads and writes with workers that return each text."""
    from uwaga_corpora.jobs.engine import PartRecord, run_job
    from uwaga_corpora.jobs.table import batch_job
    from uwaga_corpora.jobs.table_formats import Columns, TextColumn
    from uwaga_corpora.jobs.translation import Task, TranslatedText, TranslationSpec, WorkerFingerprint
    from uwaga_corpora.jobs.workers import WorkerPool, Workers

    class Echo:
        def __init__(self, fingerprint: WorkerFingerprint) -> None:
            self.fingerprint = fingerprint

        def load(self) -> WorkerFingerprint:
            return self.fingerprint

        def translate(self, task: Task) -> list[TranslatedText]:
            return [TranslatedText(text, -1.0) for text in task.texts]

        def close(self) -> None:
            pass

    class EchoWorkers(Workers):
        def pool(self, spec: TranslationSpec, fingerprint: WorkerFingerprint) -> WorkerPool:
            return WorkerPool(lambda: Echo(fingerprint), 2, fingerprint)

    class Silent:
        def start(self, rows: int, share: float, total: int | None) -> None: ...

        def finish_part(self, name: str, record: PartRecord, share: float) -> None: ...

    speeds = {}
    for kind in ("text", "jsonl", "parquet"):
        source, columns = table_of(folder, kind, rows), Columns((), False)
        if kind != "text":
            columns = Columns((TextColumn("text", "de"),), score=True)
        job = batch_job(str(source), str(folder / f"echo-{kind}"), TranslationSpec(), columns)
        started = time.process_time()
        run_job(job, EchoWorkers(), Silent())
        speeds[kind] = rows / (time.process_time() - started)
        print(f"{kind:>24} {speeds[kind]:10,.0f} rows read and written a CPU second", flush=True)
    return speeds


def table_of(folder: Path, kind: str, rows: int) -> Path:
    """Write lines as a text, JSON Lines or Parquet file, with their numbers in another column."""
    text, other = folder / "ceiling.txt", folder / f"ceiling.{kind}"
    write_lines(text, rows, False)
    if kind == "jsonl":
        with text.open(encoding="utf-8") as lines, other.open("w", encoding="utf-8") as file:
            file.writelines(
                json.dumps({"id": index, "text": line}) + "\n" for index, line in enumerate(lines)
            )
    if kind == "parquet":
        import pyarrow
        import pyarrow.parquet

        lines = text.read_text(encoding="utf-8").splitlines()
        pyarrow.parquet.write_table(pyarrow.table({"id": range(rows), "text": lines}), other)
    return text if kind == "text" else other


def tiny_model(folder: Path) -> Path:
    """Write a random model of width 16, whose translations have at most four tokens."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    from tiny_models import TINY, tokeniser, transformer

    from uwaga.checkpoints.formats.uwaga.folder import FolderContents, save_model
    from uwaga.settings import DecodingSettings

    shared, short = tokeniser(), DecodingSettings(beam=1, max_length=4)
    model = transformer(TINY, shared, shared)
    save_model(
        folder / "tiny",
        model,
        FolderContents(TINY, short, shared, shared, ("qaa", "qab"), "made for a measurement"),
    )
    return folder / "tiny"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--ways", nargs="*", choices=("plain", *METHODS, "ray"), default=["plain", *METHODS])
    parser.add_argument("--memory", type=int, nargs="*", default=[20_000, 60_000])
    parser.add_argument("--ceiling", type=int, default=0)
    parser.add_argument("--part-rows", type=int, default=2_000)
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--kill", type=int, default=2)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results: dict[str, Any] = {"load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        tiny = folder / "tiny"
        if arguments.tiny and not tiny.is_dir():
            tiny_model(folder)
        options = ["--beam", "1", "--model", str(tiny) if arguments.tiny else arguments.model]
        if arguments.lines:
            passes = Passes(folder, arguments, options)
            for method in arguments.ways:
                passes.run(method)
            passes.ratios()
            results["passes"] = passes.results
        results["memory"] = memory(folder, arguments, options)
        if arguments.ceiling:
            results["ceiling"] = ceiling(folder, arguments.ceiling)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Measure the writes per second to the server's database by 1, 2 and 4 processes.

    python benchmarks/server_store.py [--seconds 2] [--folder DIR]

``usage``: one statement per request of a client with a limit. ``limits``: requests and characters per minute
in the memory-mapped file, the only thing that every request writes. ``documents``: progress of a document.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from uwaga_server.auth import Client
from uwaga_server.limits import RateLimiter
from uwaga_server.store.database import DOCUMENTS, open_database
from uwaga_server.store.database_usage import DatabaseUsage
from uwaga_server.store.documents import DocumentStore

PLENTY = 10**12


def usage(folder: Path, worker: int) -> Callable[[], object]:
    table = DatabaseUsage(open_database(folder, None))
    return lambda: table.add(f"client {worker % 2}", 20, 0, PLENTY)


def limits(folder: Path, worker: int) -> Callable[[], object]:
    limiter = RateLimiter(folder / "buckets")
    client = Client(f"client {worker % 2}", PLENTY, PLENTY)
    return lambda: (limiter.consume(client), limiter.consume(client, 20))


def documents(folder: Path, worker: int) -> Callable[[], object]:
    engine = open_database(folder, None)
    store, row = DocumentStore(engine, folder / "documents"), {"owner": "", "spec": "", "state": "running"}
    with engine.begin() as connection:
        connection.execute(DOCUMENTS.insert().values(id=f"{worker}", created=0.0, **row))
    return lambda: store.update(f"{worker}", done=7)


def work(kind: str, folder: Path, worker: int, seconds: float, barrier: Any, results: Any) -> None:
    write = {"usage": usage, "limits": limits, "documents": documents}[kind](folder, worker)
    write()
    barrier.wait()
    started, count, longest = time.perf_counter(), 0, 0.0
    while (time_now := time.perf_counter()) - started < seconds:
        write()
        count, longest = count + 1, max(longest, time.perf_counter() - time_now)
    results.put((count / (time.perf_counter() - started), longest))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--folder", type=Path, help="a folder on the disk to measure")
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    for kind in ("usage", "limits", "documents"):
        for workers in (1, 2, 4):
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                barrier, results = context.Barrier(workers), context.Queue()
                common = (arguments.seconds, barrier, results)
                processes = [
                    context.Process(target=work, args=(kind, Path(folder), number, *common))
                    for number in range(workers)
                ]
                for process in processes:
                    process.start()
                figures = [results.get() for _ in processes]
                for process in processes:
                    process.join()
            rate, longest = sum(figure for figure, _ in figures), max(figure for _, figure in figures)
            print(
                f"{kind:10} {workers} processes {rate:9.0f}/s, longest {1000 * longest:6.1f} ms", flush=True
            )


if __name__ == "__main__":
    main()

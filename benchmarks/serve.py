"""Measure the server under load: requests per second, latency and memory, and against LibreTranslate.

    python benchmarks/serve.py speed
    python benchmarks/serve.py speed --workers 2 --threads 1 --clients 1 32
    python benchmarks/serve.py speed --peer libretranslate/bin/python    # the Python of its venv
    python benchmarks/serve.py speed --model opus-size --precision int8 --max-length 24
    python benchmarks/serve.py lone          # half load beside a lone request; long texts beside short ones

Each request is one sentence to ``/translate``; a client sends the next one as soon as the last is answered.
``--lines`` is a file of sentences (those of Multi30k for the figures of the documentation); without it,
sentences are generated. The clients run on the same cores as the server; "clients' ms" is their processor
time per request.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from peers.http_load import Connection, post, run, run_at, run_clients
from peers.processes import PeakMemory, cpu, wait_for

WORDS = [
    "two",
    "men",
    "and",
    "a",
    "small",
    "dog",
    "are",
    "playing",
    "with",
    "the",
    "red",
    "ball",
    "in",
    "green",
    "grass",
    "near",
    "old",
    "house",
    "while",
    "it",
    "rains",
]
FOLDER = Path(__file__).resolve().parent
CLIENTS = (1, 8, 32, 64)


def sentences(lines: Path | None, count: int) -> list[str]:
    """Return the sentences of a file, or generated ones of 6 to 16 words."""
    if lines is not None:
        texts = [line.strip() for line in lines.read_text(encoding="utf-8").splitlines() if line.strip()]
        return (texts * (count // len(texts) + 1))[:count]
    draw = random.Random(1)
    return [" ".join(draw.choices(WORDS, k=draw.randint(6, 16))).capitalize() + "." for _ in range(count)]


def body(text: str) -> bytes:
    return json.dumps({"q": text, "source": "en", "target": "de"}).encode()


def translating(text: str, arguments: argparse.Namespace) -> bytes:
    """Return a request for a translation, with a fixed number of tokens for a model with random weights."""
    if arguments.max_length is None:
        return post("/translate", body(text))
    payload = {"text": text, "source": "en", "target": "de", "max_length": arguments.max_length}
    return post("/v1/translate", json.dumps(payload).encode())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def uwaga_server(arguments: argparse.Namespace, **settings: object) -> Iterator[tuple[str, int]]:
    """Run a server of uwaga within the block; yield its URL and process id."""
    import yaml

    port = free_port()
    values = {
        "port": port,
        "models": [
            {"name": arguments.model, "precision": arguments.precision, "source": "en", "target": "de"}
        ],
        "workers": arguments.workers,
        "threads": arguments.threads,
        "log_level": "warning",
        **settings,
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "server.yaml"
        file.write_text(yaml.safe_dump(values))
        process = subprocess.Popen([sys.executable, "-m", "uwaga", "serve", "--settings", str(file)])
        url = f"http://127.0.0.1:{port}"
        try:
            wait_for(url)
            yield url, process.pid
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


@contextlib.contextmanager
def peer_server(python: str, threads: int) -> Iterator[tuple[str, int]]:
    """Run LibreTranslate, which must be installed, within the block; yield its URL and process id."""
    from peers.argos_package import write_package

    port, folder = free_port(), Path(tempfile.mkdtemp(prefix="argos-"))
    write_package(folder / "packages")
    environment = {
        **os.environ,
        "ARGOS_PACKAGES_DIR": str(folder / "packages"),
        "ARGOS_INTRA_THREADS": str(threads),
        "OMP_NUM_THREADS": str(threads),
        "XDG_DATA_HOME": str(folder),
    }
    arguments = [
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--disable-web-ui",
        "--load-only",
        "en,de",
        "--char-limit",
        "-1",
    ]
    command = [python, str(FOLDER / "peers" / "libretranslate_worker.py"), *arguments]
    process = subprocess.Popen(
        command, env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(url)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def measure(url: str, pid: int, requests: list[bytes], clients: int, seconds: float) -> dict[str, float]:
    """Measure requests by a number of clients, after a warm-up."""
    run(run_clients(url, requests[: 2 * clients], clients))
    with PeakMemory(pid) as peak:
        before, own_before = cpu(pid), time.process_time()
        load = run(run_clients(url, requests, clients, seconds=seconds))
        used, own = cpu(pid) - before, time.process_time() - own_before
    errors = {status: count for status, count in load.statuses.items() if status != 200}
    if errors:
        print(f"  not answered: {errors}")
    milliseconds = 1000 / max(1, len(load.seconds))
    processor = {"cpu_ms": used * milliseconds, "client_ms": own * milliseconds}
    return {**load.figures(), "peak_mib": peak.mib, **processor}


def as_a_file(arguments: argparse.Namespace, texts: list[str]) -> float:
    """Return the sentences per second of ``uwaga translate`` for the lines as a file, without loading."""
    threads = arguments.threads * arguments.workers or len(os.sched_getaffinity(0))
    seconds = []
    for part in (texts[:64], texts):
        started = time.perf_counter()
        command = [
            sys.executable,
            "-m",
            "uwaga",
            "translate",
            "--model",
            arguments.model,
            "--threads",
            str(threads),
        ]
        subprocess.run(
            command,
            input="\n".join(part),
            text=True,
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        seconds.append(time.perf_counter() - started)
    return (len(texts) - 64) / (seconds[1] - seconds[0])


def speed(arguments: argparse.Namespace) -> None:
    """Measure requests per second and latency by number of clients."""
    texts = sentences(arguments.lines, arguments.count)
    requests = [translating(text, arguments) for text in texts]
    results: dict[str, dict[str, dict[str, float]]] = {}
    servers = {"uwaga": lambda: uwaga_server(arguments)}
    if arguments.peer:
        servers["LibreTranslate"] = lambda: peer_server(arguments.peer, arguments.threads or 2)
    for name, serve in servers.items():
        with serve() as (url, pid):
            results[name] = {}
            print(f"{name:16} clients   req/s   p50 ms   p95 ms   p99 ms  peak MiB  CPU ms  clients' ms")
            for clients in arguments.clients:
                figures = results[name][str(clients)] = measure(
                    url, pid, requests, clients, arguments.seconds
                )
                print(
                    f"{'':16} {clients:7} {figures['requests_per_s']:7.1f} {figures['p50']:8.1f} "
                    f"{figures['p95']:8.1f} {figures['p99']:8.1f} "
                    f"{figures['peak_mib']:9.0f} {figures['cpu_ms']:7.2f} {figures['client_ms']:12.2f}"
                )
    if arguments.file:
        rate = as_a_file(arguments, texts)
        best = max(figures["requests_per_s"] for figures in results["uwaga"].values())
        print(
            f"uwaga translate on the same lines: {rate:.1f} sentences/s; the server {best / rate:.2f} of it"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


def lone(arguments: argparse.Namespace) -> None:
    """Measure latency at half load against that of single requests, and of short texts beside long ones."""
    texts = sentences(arguments.lines, arguments.count)
    requests = [post("/translate", body(text)) for text in texts]
    long = post("/translate", body(" ".join(texts)[:3000]))
    with uwaga_server(arguments) as (url, _):
        run(run_clients(url, requests[:64], 32))
        idle = run(run_clients(url, requests, 1, seconds=arguments.seconds)).figures()
        full = run(run_clients(url, requests, 32, seconds=arguments.seconds)).figures()
        rate = full["requests_per_s"] / 2
        half = run(run_at(url, requests, rate, arguments.seconds)).figures()

        async def concurrent() -> dict[str, float]:
            stop = asyncio.Event()

            async def longs() -> None:
                connection = Connection(url)
                while not stop.is_set():
                    await connection.ask(long)
                connection.close()

            task = asyncio.ensure_future(longs())
            result = await run_at(url, requests, rate, arguments.seconds)
            stop.set()
            await task
            return result.figures()

        mixed = run(concurrent())
    print(f"alone: p95 {idle['p95']:.1f} ms; 32 clients: {full['requests_per_s']:.1f} requests/s")
    print(f"half load ({rate:.0f}/s): p95 {half['p95']:.1f} ms, {half['p95'] / idle['p95']:.2f} of alone")
    print(
        f"the same beside 500 words: p95 {mixed['p95']:.1f} ms, {mixed['p95'] / half['p95']:.2f} of without"
    )


def common_arguments() -> argparse.ArgumentParser:
    """Return a parser of the arguments that all measurements of a server have."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--model", default="bundled")
    common.add_argument("--precision", default="auto")
    common.add_argument("--lines", type=Path)
    common.add_argument("--workers", type=int, default=1)
    common.add_argument("--threads", type=int, default=0)
    common.add_argument("--count", type=int, default=2000)
    common.add_argument("--seconds", type=float, default=10.0)
    common.add_argument("--json", type=Path)
    return common


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    common = common_arguments()
    verbs = parser.add_subparsers(required=True)
    command = verbs.add_parser("speed", parents=[common])
    command.add_argument("--clients", type=int, nargs="+", default=list(CLIENTS))
    command.add_argument(
        "--max-length",
        type=int,
        help="length limit for a model with random weights, which generates no end symbol",
    )
    command.add_argument("--peer", help="Python of the environment in which LibreTranslate is installed")
    command.add_argument("--file", action="store_true", help="also compare with uwaga translate")
    command.set_defaults(run=speed)
    verbs.add_parser("lone", parents=[common], help=lone.__doc__).set_defaults(run=lone)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()

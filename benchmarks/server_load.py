"""Test the server under overload, slow clients, long operation, killed workers and malformed requests.

    python benchmarks/server_load.py overload --seconds 120    # ten times what it can answer
    python benchmarks/server_load.py crowd                     # 5,000 open connections, slow ones, deaf ones
    python benchmarks/server_load.py soak --count 200000
    python benchmarks/server_load.py kill --seconds 120
    python benchmarks/server_load.py hostile --count 200       # texts that slow scanners are slow on
    python benchmarks/server_load.py described --count 10000   # Schemathesis over the server's OpenAPI

See ``benchmarks/serve.py`` for the speed of the server, and for the arguments.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from peers.http_load import Crowd, Load, cancelled, post, run, run_at, run_clients
from peers.processes import PeakMemory, command_line, handles, memory, tree
from serve import body, common_arguments, sentences, uwaga_server

ROOT = Path(__file__).resolve().parents[1]


def overload(arguments: argparse.Namespace) -> None:
    """Send ten times the load that the server can sustain.

    Each request must have the same answer as alone, or be refused with a reason.
    """
    texts = sentences(arguments.lines, 200)
    requests = [post("/translate", body(text)) for text in texts]
    expected: dict[int, bytes] = {}
    failures = 0

    def check(number: int, answer: tuple[int, bytes]) -> None:
        nonlocal failures
        status, content = answer
        if status == 200:
            failures += content != expected.setdefault(number, content)
        else:
            failures += status not in (429, 503, 504) or b'"error"' not in content

    with uwaga_server(arguments, limits={"waiting": 128, "deadline": 30}) as (url, pid):
        run(run_clients(url, requests, 1, check))  # what each gets alone
        sustained = run(run_clients(url, requests, 32, check, seconds=10)).figures()["requests_per_s"]
        run(run_clients(url, requests, 256, check, seconds=10))  # a full queue has its memory
        before = memory(pid)
        with PeakMemory(pid, every=1.0) as peak:
            load = run(run_at(url, requests, 10 * sustained, arguments.seconds, check))
        after = memory(pid)
        started = time.perf_counter()
        second = run(run_clients(url, requests[:32], 8, check))
        recovered = time.perf_counter() - started
    print(f"sustained {sustained:.0f}/s; offered {10 * sustained:.0f}/s for {arguments.seconds:.0f} s")
    print(f"by status: {load.statuses}; wrong or without a reason: {failures}; broken: {load.broken}")
    figures = load.figures()
    print(f"answered in p50 {figures['p50']:.0f} ms, p95 {figures['p95']:.0f} ms")
    parts = [f"{value:.0f} ({100 * (value / before - 1):+.1f}%)" for value in (peak.mib, after)]
    print(f"memory {before:.0f} MiB with a full queue before, at most {parts[0]}, after {parts[1]}")
    print(f"then 32 requests in {recovered:.2f} s: {second.statuses}")


def crowd(arguments: argparse.Namespace) -> None:
    """Measure the latency of eight clients beside slow and silent connections."""
    requests = [post("/translate", body(text)) for text in sentences(arguments.lines, 200)]
    crowds = [
        {},
        {"silent": arguments.connections},
        {"slow": 200},
        {"deaf": 50},
        {"silent": arguments.connections, "slow": 200, "deaf": 50},
        {},
    ]
    with uwaga_server(arguments) as (url, pid):
        run(run_clients(url, requests, 8))
        print("in the way                                     req/s   p50 ms   p95 ms     MiB  files")

        async def run_concurrently(**clients: int) -> None:
            async with Crowd(url, requests[0], **clients):
                load = await run_clients(url, requests, 8, seconds=arguments.seconds)
                sizes = f"{memory(pid):7.0f} {handles(pid)[0]:6}"
            figures = load.figures()
            named = ", ".join(f"{count} {name}" for name, count in clients.items()) or "nobody"
            print(
                f"{named:44} {figures['requests_per_s']:7.1f} {figures['p50']:8.1f} "
                f"{figures['p95']:8.1f} {sizes}"
            )
            if set(load.statuses) != {200}:
                print(f"  not answered: {load.statuses} {load.broken}")

        for extra in crowds:
            run(run_concurrently(**extra))


def soak(arguments: argparse.Namespace) -> None:
    """Check that memory and open files stay constant under mixed requests.

    Some requests are cancelled, malformed or huge.
    """
    draw = random.Random(3)
    texts = sentences(arguments.lines, 500)
    valid = [post("/translate", body(text)) for text in texts]
    short = [post("/translate", body(text[: draw.randint(1, 12)])) for text in texts]
    payloads = [{"text": text, "source": "en", "target": "de"} for text in texts[:50]]
    v1_requests = [
        post("/v1/translate", json.dumps({**payload, **more}).encode())
        for payload in payloads
        for more in ({"stream": True}, {"nbest": 2}, {"alignment": True, "attention": True, "scores": True})
    ]
    marked = [
        {"q": f"<p>{text}</p>", "source": "auto", "target": "de", "format": "html"} for text in texts[:50]
    ]
    html = [post("/translate", json.dumps(payload).encode()) for payload in marked]
    invalid = [post("/translate", b"{"), post("/v1/translate", b'{"text": 3}'), post("/nowhere", b"x")]
    huge = [post("/translate", body("a " * 1_500_000)), post("/translate", body(" ".join(texts)[:3000]))]
    kinds, weights = [valid, short, v1_requests, html, invalid, huge], [40, 20, 4, 3, 30, 0.1]
    requests = [draw.choice(draw.choices(kinds, weights=weights)[0]) for _ in range(5000)]
    with uwaga_server(arguments) as (url, pid):
        run(run_clients(url, requests[:500], 16))
        idle = handles(pid)
        completed, marks, statuses = 0, [], {}
        while completed < arguments.count:
            load = run(run_clients(url, requests, 16))
            run(cancelled(url, valid[:50]))
            completed += sum(load.statuses.values()) + 50
            statuses = {status: statuses.get(status, 0) + n for status, n in load.statuses.items()}
            time.sleep(1)
            marks.append((completed, memory(pid), *handles(pid)))
            print(
                f"{completed} requests: {marks[-1][1]:.1f} MiB, {marks[-1][2]} files, {marks[-1][3]} threads",
                flush=True,
            )
        tenth = next(mark for mark in marks if mark[0] >= arguments.count / 10)
        print(f"by status: {statuses}; files and threads at first {idle}, at last {marks[-1][2:]}")
        print(f"from 10% to the end: {100 * (marks[-1][1] / tenth[1] - 1):+.1f}% memory")


def kill(arguments: argparse.Namespace) -> None:
    """Kill a worker every ten seconds; clients retry, and the translation of documents must continue."""
    import httpx

    texts = sentences(arguments.lines, 300)
    requests = [post("/translate", body(text)) for text in texts]
    arguments.workers = max(2, arguments.workers)
    with tempfile.TemporaryDirectory() as folder, uwaga_server(arguments, state=folder) as (url, pid):
        over = threading.Event()
        killed: list[int] = []

        def killer() -> None:
            while not over.wait(10):
                workers = [worker for worker in tree(pid)[1:] if "spawn_main" in command_line(worker)]
                os.kill(draw.choice(workers), signal.SIGKILL)
                killed.append(1)

        def call(method: str, path: str, **parameters: object) -> httpx.Response:
            """Once more where the worker that has it is killed."""
            for _ in range(20):
                with contextlib.suppress(httpx.TransportError):
                    return httpx.request(method, f"{url}/v1/documents{path}", timeout=60, **parameters)
                time.sleep(0.1)
            raise SystemExit("no worker answers")

        draw = random.Random(7)
        document = "\n\n".join(draw.choice(texts) for _ in range(arguments.count)).encode()
        form = {"files": {"file": ("long.txt", document)}, "data": {"source": "en", "target": "de"}}
        jobs = [call("POST", "", **form).json()["id"] for _ in range(2)]
        thread = threading.Thread(target=killer)
        thread.start()
        load = run(run_clients(url, requests, 16, seconds=arguments.seconds, retries=3))
        over.set()
        thread.join()
        states = [call("GET", f"/{job}").json() for job in jobs]
        print(f"{len(killed)} killed; documents when the load ends: {states}")
        while any(state["state"] in ("queued", "running") for state in states):
            time.sleep(0.5)
            states = [call("GET", f"/{job}").json() for job in jobs]
        results = {call("GET", f"/{job}/result").content for job in jobs}
    print(f"answers by status (0: broken, and again): {load.statuses}; tried again: {load.retried}")
    print(f"documents: {[state['state'] for state in states]}, results alike: {len(results) == 1}")


def hostile(arguments: argparse.Namespace) -> None:
    """Measure the latency of ``/health`` beside 16 clients whose texts are slow to scan."""
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from hostile_texts import HTML, MARKDOWN, PLACEHOLDERS, SENTENCES, XML

    tables = {"text": PLACEHOLDERS + SENTENCES, "html": HTML, "xml": XML, "markdown": MARKDOWN}
    cases = [(kind, make(arguments.size)) for kind, table in tables.items() for make in table]
    random.Random(11).shuffle(cases)
    languages = {"source": "en", "target": "de"}
    requests = [
        post("/v1/translate", json.dumps({**languages, "text": content, "format": kind}).encode())
        for kind, content in cases[: arguments.count]
    ]
    health = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
    limits = {"deadline": arguments.deadline, "characters": 2 * arguments.size}
    with uwaga_server(arguments, limits=limits) as (url, pid):
        idle = run(run_at(url, [health], 20, 5)).figures()

        async def run_both() -> tuple[Load, Load]:
            loads = asyncio.ensure_future(run_clients(url, requests, arguments.clients))
            parts = [await run_at(url, [health], 20, 1)]
            while not loads.done():
                parts.append(await run_at(url, [health], 20, 1))
            total = Load([second for part in parts for second in part.seconds])
            total.statuses = {200: len(total.seconds), 0: sum(part.statuses.get(0, 0) for part in parts)}
            return await loads, total

        with PeakMemory(pid) as peak:
            load, health_load = run(run_both())
    slowest = max(health_load.seconds)
    figures = health_load.figures()
    print(f"{len(requests)} texts of {arguments.size} characters by {arguments.clients} clients")
    print(
        f"{load.wall:.0f} s; answers by status: {load.statuses}; broken: {load.broken}; peak {peak.mib:.0f} MiB"  # noqa: E501
    )
    print(f"/health alone: p50 {idle['p50']:.1f} ms, p99 {idle['p99']:.1f} ms")
    print(
        f"/health beside them, {health_load.statuses}: p50 {figures['p50']:.1f} ms, "
        f"p95 {figures['p95']:.1f} ms, p99 {figures['p99']:.1f} ms, at most {1000 * slowest:.0f} ms"
    )


def described(arguments: argparse.Namespace) -> None:
    """Send requests generated from the server's OpenAPI description.

    The server must not answer with 5xx, or in a way that the description does not contain.
    """
    import httpx

    from uwaga_server.settings import DIALECTS

    main = "import sys; from schemathesis.cli import schemathesis; sys.exit(schemathesis())"
    with tempfile.TemporaryDirectory() as folder:
        settings: dict[str, object] = {name: str(Path(folder) / name) for name in ("suggestions", "state")}
        settings["dialects"] = list(DIALECTS)
        with uwaga_server(arguments, limits={"characters": 2000, "deadline": 60}, **settings) as (url, _):
            paths = httpx.get(f"{url}/openapi.json").json()["paths"]
            count = -(-arguments.count * 11 // (10 * sum(map(len, paths.values()))))  # some make fewer
            options = [
                "--max-examples",
                str(count),
                "--request-timeout",
                "120",
                "--generation-database",
                "none",
            ]
            command = [sys.executable, "-c", main, "--config-file", str(ROOT / "schemathesis.toml"), "run"]
            subprocess.run([*command, f"{url}/openapi.json", "--no-color", *options], cwd=folder, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    common = common_arguments()
    verbs = parser.add_subparsers(required=True)
    for verb in (overload, crowd, soak, kill, hostile, described):
        command = verbs.add_parser(verb.__name__, parents=[common], help=verb.__doc__)
        command.set_defaults(run=verb)
        if verb is crowd:
            command.add_argument("--connections", type=int, default=5000)
        if verb is hostile:
            command.set_defaults(count=200)
            command.add_argument("--clients", type=int, default=16)
            command.add_argument("--size", type=int, default=50_000, help="number of characters of a text")
            command.add_argument("--deadline", type=float, default=60.0, help="maximum seconds of a request")
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()

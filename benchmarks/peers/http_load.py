"""HTTP clients that send requests over persistent connections, with little overhead."""

from __future__ import annotations

import asyncio
import contextlib
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

Answer = tuple[int, bytes]
"""Status and body; if the connection broke, 0 and the reason."""


@dataclass
class Load:
    """The results of a load.

    These are the seconds of each successful request, the number of requests by status, and the reasons why
    connections broke.
    """

    seconds: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    broken: dict[str, int] = field(default_factory=dict)
    wall: float = 0.0
    retried: int = 0

    def add(self, answer: Answer, seconds: float) -> None:
        """Record an answer and its duration."""
        self.statuses[answer[0]] = self.statuses.get(answer[0], 0) + 1
        if answer[0] == 200:
            self.seconds.append(seconds)
        elif answer[0] == 0:
            reason = answer[1].decode()
            self.broken[reason] = self.broken.get(reason, 0) + 1

    def figures(self) -> dict[str, float]:
        """Return the successful requests per second, and their latencies in milliseconds."""
        times = sorted(self.seconds) or [float("nan")]
        parts = statistics.quantiles(times, n=100, method="inclusive") if len(times) > 1 else times * 99
        named = {"p50": parts[49], "p95": parts[94], "p99": parts[98]}
        return {
            "requests_per_s": len(self.seconds) / self.wall if self.wall else 0.0,
            **{name: 1000 * value for name, value in named.items()},
        }


class Connection:
    """A persistent HTTP connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes, timeout: float = 120.0) -> Answer:
        """Send a request and return its answer; a broken connection is reopened for the next request."""
        try:
            async with asyncio.timeout(timeout):
                if self._streams is None:
                    self._streams = await asyncio.open_connection(self.host, self.port, limit=1 << 22)
                reader, writer = self._streams
                writer.write(request)
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                if b"transfer-encoding: chunked" in head:
                    body = await reader.readuntil(b"0\r\n\r\n")
                else:
                    length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0] or 0)
                    body = await reader.readexactly(length)
                if b"connection: close" in head:
                    self.close()
                return int(head.split(b" ", 2)[1]), body
        except (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError) as error:
            self.close()
            return 0, f"{type(error).__name__}: {error}".encode()

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


def post(path: str, body: bytes, kind: str = "application/json") -> bytes:
    """Return the bytes of a complete POST request."""
    lines = [
        f"POST {path} HTTP/1.1",
        "host: localhost",
        f"content-type: {kind}",
        f"content-length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def run_clients(
    url: str,
    requests: Sequence[bytes],
    clients: int,
    check: Callable[[int, Answer], None] | None = None,
    seconds: float | None = None,
    retries: int = 0,
) -> Load:
    """Send requests by several clients; each sends its next request when the last one is answered.

    Args:
        url: the URL of the server.
        requests: the requests, which are sent once, or repeatedly for ``seconds`` seconds if given.
        clients: number of clients.
        check: called with the number and the answer of each request.
        seconds: duration; None to send each request once.
        retries: how often a request is sent again if its connection broke.
    """
    load, started = Load(), time.perf_counter()
    left = iter(range(len(requests))) if seconds is None else _cycle_until(len(requests), started + seconds)

    async def client() -> None:
        connection = Connection(url)
        for number in left:
            start = time.perf_counter()
            answer = await connection.ask(requests[number])
            for _ in range(retries if answer[0] == 0 else 0):
                load.retried += 1
                answer = await connection.ask(requests[number])
                if answer[0]:
                    break
            load.add(answer, time.perf_counter() - start)
            if check is not None:
                check(number, answer)
            if answer[0] in (0, 429, 503):
                await asyncio.sleep(0.02)
        connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    load.wall = time.perf_counter() - started
    return load


async def run_at(
    url: str,
    requests: Sequence[bytes],
    rate: float,
    seconds: float,
    check: Callable[[int, Answer], None] | None = None,
) -> Load:
    """Send requests at a fixed rate, independently of the answers; see :func:`run_clients`."""
    load, started, draw = Load(), time.perf_counter(), random.Random(5)
    free: list[Connection] = []
    running: set[asyncio.Task[None]] = set()

    async def send(number: int, start: float) -> None:
        connection = free.pop() if free else Connection(url)
        answer = await connection.ask(requests[number])
        load.add(answer, time.perf_counter() - start)
        if check is not None:
            check(number, answer)
        free.append(connection)

    scheduled, number = started, 0
    while scheduled < started + seconds:
        await asyncio.sleep(max(0.0, scheduled - time.perf_counter()))
        task = asyncio.ensure_future(send(number % len(requests), max(scheduled, time.perf_counter())))
        running.add(task)
        task.add_done_callback(running.discard)
        scheduled, number = scheduled + draw.expovariate(rate), number + 1
    if running:
        await asyncio.wait(running)
    for connection in free:
        connection.close()
    load.wall = time.perf_counter() - started
    return load


async def cancelled(url: str, requests: Sequence[bytes]) -> None:
    """Send requests, and close the connections before they are answered."""
    parts = urlsplit(url)
    for request in requests:
        _, writer = await asyncio.open_connection(parts.hostname, parts.port)
        writer.write(request)
        await writer.drain()
        writer.close()


class Crowd:
    """Connections that burden a server: ``async with Crowd(url, silent=..., ...)``.

    Args:
        url: the URL of the server.
        request: the request that they send, completely or in part.
        silent: number of connections that send nothing.
        slow: number of connections that send a byte of the request every half second.
        deaf: number of connections that request much and read none of it.
    """

    def __init__(self, url: str, request: bytes, silent: int = 0, slow: int = 0, deaf: int = 0) -> None:
        parts = urlsplit(url)
        self._address = parts.hostname, parts.port
        self._request, self._counts = request, (silent, slow, deaf)
        self._writers: list[asyncio.StreamWriter] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Crowd:
        silent, slow, deaf = self._counts
        for number in range(silent + slow + deaf):
            _, writer = await asyncio.open_connection(*self._address, limit=1024)
            self._writers.append(writer)
            if number < deaf:
                writer.write(b"GET /openapi.json HTTP/1.1\r\nhost: h\r\n\r\n" * 60)
            elif number < deaf + slow:
                self._tasks.append(asyncio.ensure_future(self._drip(writer)))
        return self

    async def _drip(self, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            for index in range(len(self._request)):
                writer.write(self._request[index : index + 1])
                await writer.drain()
                await asyncio.sleep(0.5)

    async def __aexit__(self, *problem: object) -> None:
        for task in self._tasks:
            task.cancel()
        for writer in self._writers:
            writer.close()


def _cycle_until(count: int, end: float) -> Any:
    number = 0
    while time.perf_counter() < end:
        yield number % count
        number += 1


def run(work: Any) -> Any:
    """Run a coroutine, on uvloop if it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)

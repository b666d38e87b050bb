"""Clients that send requests over kept connections, as cheaply as Python can."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

Answer = tuple[int, bytes]
"""Status and body; 0 and nothing where the connection broke."""


@dataclass
class Load:
    """What came of a load: seconds of each request that was answered well, and how many by each status."""

    seconds: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    wall: float = 0.0

    def figures(self) -> dict[str, float]:
        """Requests answered in a second, and how long they took, in milliseconds."""
        times = sorted(self.seconds) or [float("nan")]
        parts = statistics.quantiles(times, n=100, method="inclusive") if len(times) > 1 else times * 99
        named = {"p50": parts[49], "p95": parts[94], "p99": parts[98]}
        return {
            "requests_per_s": len(self.seconds) / self.wall if self.wall else 0.0,
            **{name: 1000 * value for name, value in named.items()},
        }


class Connection:
    """One kept connection."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "127.0.0.1", parts.port or 80
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes, timeout: float = 120.0) -> Answer:
        """Send a request and read its answer; a broken connection is opened again for the next."""
        try:
            async with asyncio.timeout(timeout):
                if self._streams is None:
                    self._streams = await asyncio.open_connection(self.host, self.port, limit=1 << 22)
                reader, writer = self._streams
                writer.write(request)
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0] or 0)
                body = await reader.readexactly(length)
                if b"connection: close" in head:
                    self.close()
                return int(head.split(b" ", 2)[1]), body
        except (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError):
            self.close()
            return 0, b""

    def close(self) -> None:
        """Let it go."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


def post(path: str, body: bytes, kind: str = "application/json") -> bytes:
    """A whole request."""
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
) -> Load:
    """Send requests by so many clients, each the next one as soon as its last is answered.

    Args:
        url: of the server.
        requests: each once; or again and again, where ``seconds`` are given.
        clients: how many.
        check: told each request's number and its answer.
        seconds: how long.
    """
    load, began = Load(), time.perf_counter()
    left = iter(range(len(requests))) if seconds is None else _again(len(requests), began + seconds)

    async def client() -> None:
        connection = Connection(url)
        for number in left:
            start = time.perf_counter()
            answer = await connection.ask(requests[number])
            load.statuses[answer[0]] = load.statuses.get(answer[0], 0) + 1
            if answer[0] == 200:
                load.seconds.append(time.perf_counter() - start)
            if check is not None:
                check(number, answer)
            if answer[0] in (0, 429, 503):
                await asyncio.sleep(0.02)
        connection.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    load.wall = time.perf_counter() - began
    return load


def _again(count: int, until: float) -> Any:
    number = 0
    while time.perf_counter() < until:
        yield number % count
        number += 1


def run(work: Any) -> Any:
    """Run a coroutine on uvloop where it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    return uvloop.run(work)

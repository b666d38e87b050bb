"""Clients that stand still, or never come to an end: their connection is given up, others' is not."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from running_server import RunningServer, running_server
from uvicorn.server import ServerState

from uwaga.server.connection import HEAD_BYTES, MOST_AHEAD, WatchedConnection

HEAD = b"POST /translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
JSON = {"content-type": "application/json"}
BODY = b'{"q": "A dog.", "source": "en", "target": "de"}'


class Clock:
    """A loop that only remembers what it is to call later, and does it when told."""

    def __init__(self) -> None:
        self.later: list[Callable[[], None]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        self.later.append(call)
        return asyncio.TimerHandle(0.0, call, (), self)  # type: ignore[arg-type]

    def create_task(self, work: Any, context: object = None) -> asyncio.Future[None]:
        work.close()  # the answer never comes
        return asyncio.Future(loop=asyncio.new_event_loop())

    def _timer_handle_cancelled(self, handle: object) -> None: ...

    def get_debug(self) -> bool:
        return False


class Wire:
    """A transport that remembers what becomes of it."""

    def __init__(self) -> None:
        self.written, self.state, self.unread = b"", "open", 0

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.state = "closing"

    def abort(self) -> None:
        self.state = "aborted"

    def is_closing(self) -> bool:
        return self.state != "open"

    def get_write_buffer_size(self) -> int:
        return self.unread

    def get_extra_info(self, name: str) -> None:
        return None

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def answer_nothing(scope: object, receive: object, send: object) -> None: ...


def connected() -> tuple[WatchedConnection, Wire, Callable[[], None]]:
    """A connection, its wire, and what looks at it again."""
    clock, wire = Clock(), Wire()
    config = uvicorn.Config(answer_nothing, http=WatchedConnection, ws="none", log_config=None)
    made = WatchedConnection(config, ServerState(), {}, 1.0, clock)  # type: ignore[arg-type]
    made.connection_made(wire)  # type: ignore[arg-type]

    def look() -> None:
        later, clock.later = clock.later, []
        for call in later:
            call()

    return made, wire, look


def test_one_that_sends_nothing_is_closed():
    _, wire, look = connected()
    look()
    assert (wire.state, wire.written) == ("closing", b"")
    look()
    look()
    assert wire.state == "aborted"  # it has not read the end either


def test_a_head_that_does_not_end_is_refused():
    connection, wire, look = connected()
    connection.data_received(HEAD)
    look()
    assert wire.state == "open"
    connection.data_received(b"x-more: 1\r\n")  # a byte now and then is no end
    look()
    assert (wire.state, wire.written.split(b"\r\n")[0]) == ("closing", b"HTTP/1.1 408 Request Timeout")


def test_a_request_that_is_being_answered_is_waited_for():
    connection, wire, look = connected()
    connection.data_received(HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY)
    for _ in range(10):
        look()
    assert wire.state == "open"


def test_who_reads_slowly_is_kept_and_who_does_not_read_is_not():
    connection, wire, look = connected()
    connection.data_received(HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY)
    connection.pause_writing()
    for wire.unread in (500_000, 400_000, 300_000, 299_999):
        look()
        assert wire.state == "open"
    look()
    assert wire.state == "aborted"


def test_a_body_after_its_answer_must_end():
    connection, wire, look = connected()
    connection.data_received(HEAD + b"content-length: 1000000\r\n\r\n")
    connection.cycle.response_complete = True  # refused before it had come
    connection.data_received(b"x" * 1000)
    look()
    connection.data_received(b"x" * 1000)
    look()
    assert wire.state == "aborted"


@pytest.mark.parametrize("endless", [b"x" * 1000, b"x-y: 1\r\n" * 100])
def test_a_head_has_a_bound(endless: bytes):
    connection, wire, _ = connected()
    connection.data_received(HEAD + b"x-z: ")
    sent = 0
    while wire.state == "open":
        connection.data_received(endless)
        sent += len(endless)
        assert sent <= HEAD_BYTES + 2 * len(endless)
    assert wire.written.startswith(b"HTTP/1.1 431 ")


def test_what_follows_a_body_is_no_head_and_has_a_bound():
    connection, wire, _ = connected()
    connection.data_received(HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-key: a\r\n")
    assert b"x-key" not in dict(connection.scope["headers"])
    while wire.state == "open":
        connection.data_received(b"x-key: a\r\n" * 100)
    assert wire.state == "aborted"


def test_a_body_in_the_smallest_chunks_is_taken():
    connection, wire, _ = connected()
    connection.data_received(HEAD + b"transfer-encoding: chunked\r\n\r\n")
    for _ in range(100):
        connection.data_received(b"1\r\nx\r\n" * 1000)
    connection.data_received(b"0\r\n\r\n")
    assert (wire.state, len(connection.cycle.body)) == ("open", 100_000)


def test_requests_ahead_of_their_answers_have_a_bound():
    connection, wire, _ = connected()
    one = HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
    connection.data_received(one * MOST_AHEAD)
    assert wire.state == "open"
    connection.data_received(one * 1000)
    assert (wire.state, wire.written) == ("aborted", b"")
    assert len(connection.pipeline) == MOST_AHEAD


def test_nothing_of_an_answered_request_stays():
    connection, wire, _ = connected()
    for _ in range(2):
        connection.data_received(HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY)
        assert dict(connection.scope["headers"])[b"host"] == b"localhost"
        connection.cycle.response_complete = True
        connection.on_response_complete()
        assert (connection.scope, connection.headers, connection.cycle.scope) == ({}, [], {})
    assert wire.state == "open"


def test_every_request_of_a_client_that_goes_is_told():
    connection, _, _ = connected()
    told = []
    for _ in range(3):
        connection.data_received(HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY)
        told.append(connection.cycle)
    connection.connection_lost(None)
    assert [(one.disconnected, one.message_event.is_set()) for one in told] == [(True, True)] * 3


def dial(server: RunningServer) -> socket.socket:
    parts = urlsplit(server.url)
    return socket.create_connection((parts.hostname, parts.port), timeout=60)


def sockets(server: RunningServer) -> int:
    """Sockets that the server has open."""
    found = Path(f"/proc/{server.process.pid}/fd").iterdir()
    return sum("socket" in str(one.readlink()) for one in found if one.is_symlink())


def test_no_socket_stays_of_clients_that_stand_still(tmp_path: Path):
    with running_server(tmp_path, limits={"body_seconds": 0.5}) as server:
        wanted = b"HTTP/1.1 200"
        with dial(server) as warm:
            warm.sendall(HEAD + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY)
            assert warm.recv(100).startswith(wanted)
        usual = 0
        until = time.monotonic() + 60
        while time.monotonic() < until:  # the one above and those that waited for the start go
            before, usual = usual, sockets(server)
            if before == usual:
                break
            time.sleep(1)
        silent = [dial(server) for _ in range(50)]
        heads = [dial(server) for _ in range(50)]
        deaf = dial(server)
        for one in heads:
            one.sendall(HEAD)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 60)
        assert all(one.recv(100) == b"" for one in silent)
        assert all(one.recv(100).startswith(b"HTTP/1.1 408 ") for one in heads)
        until = time.monotonic() + 60
        while sockets(server) > usual and time.monotonic() < until:
            time.sleep(0.1)
        assert sockets(server) == usual
        assert httpx.post(f"{server.url}/translate", content=BODY, headers=JSON).status_code == 200
        for one in (*silent, *heads, deaf):
            one.close()


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nhost: localhost\r\nx: %s\r\n\r\n" % (b"x" * HEAD_BYTES),
        b"GET / HTTP/1.1\r\nhost: localhost\r\n%s\r\n" % (b"x: 0123456789\r\n" * (HEAD_BYTES // 11)),
        b"GET /?%s HTTP/1.1\r\nhost: localhost\r\n\r\n" % (b"x" * HEAD_BYTES),
        b"GET / HTTP/1.1\r\n%s: x\r\n\r\n" % (b"x" * HEAD_BYTES),
    ],
    ids=["a long header", "many headers", "a long query", "a long name"],
)
def test_a_long_head_is_refused_though_it_arrives_at_once(head: bytes):
    connection, wire, _ = connected()
    connection.data_received(head)
    assert (wire.state, wire.written.split(b"\r\n")[0]) == (
        "closing",
        b"HTTP/1.1 431 Request Header Fields Too Large",
    )
    assert connection.cycle is None


@pytest.mark.parametrize("hosts", [b"", b"host: a\r\nhost: a\r\n", b"host: a\r\nHOST: b\r\n"])
def test_a_request_has_one_host(hosts: bytes):
    connection, wire, _ = connected()
    connection.data_received(b"GET / HTTP/1.1\r\n" + hosts + b"\r\n")
    assert (wire.state, wire.written.split(b"\r\n")[0]) == ("closing", b"HTTP/1.1 400 Bad Request")
    assert connection.cycle is None


def test_a_request_of_http_1_0_needs_no_host():
    connection, _, _ = connected()
    connection.data_received(b"GET / HTTP/1.0\r\n\r\n")
    assert connection.cycle is not None

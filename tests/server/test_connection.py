"""Connections of stalled clients are closed, and other connections are not affected."""

import asyncio
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from running_server import RunningServer, running_server
from uvicorn.server import ServerState

from uwaga_server.connection import MAX_HEAD_BYTES, MAX_PIPELINED, WatchedConnection

HEAD = b"POST /translate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
JSON_HEADERS = {"content-type": "application/json"}
BODY = b'{"q": "A dog.", "source": "en", "target": "de"}'


class FakeLoop:
    """An event loop that records delayed calls and runs them on demand."""

    def __init__(self) -> None:
        self.later: list[Callable[[], None]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        self.later.append(call)
        return asyncio.TimerHandle(0.0, call, (), self)  # type: ignore[arg-type]

    def create_task(self, coroutine: Any, context: object = None) -> asyncio.Future[None]:
        coroutine.close()  # there is never a response
        return asyncio.Future(loop=asyncio.new_event_loop())

    def _timer_handle_cancelled(self, handle: object) -> None: ...

    def get_debug(self) -> bool:
        return False


class FakeTransport:
    """A transport that records its state."""

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


async def silent_app(scope: object, receive: object, send: object) -> None: ...


def connect() -> tuple[WatchedConnection, FakeTransport, Callable[[], None]]:
    """Return a connection, its transport, and a function that runs the connection's next check."""
    loop, transport = FakeLoop(), FakeTransport()
    config = uvicorn.Config(silent_app, http=WatchedConnection, ws="none", log_config=None)
    connection = WatchedConnection(config, ServerState(), {}, 1.0, loop)  # type: ignore[arg-type]
    connection.connection_made(transport)  # type: ignore[arg-type]

    def check() -> None:
        later, loop.later = loop.later, []
        for call in later:
            call()

    return connection, transport, check


def test_connection_of_a_silent_client_is_closed():
    _, transport, check = connect()
    check()
    assert (transport.state, transport.written) == ("closing", b"")
    check()
    check()
    assert transport.state == "aborted"  # the client has not closed it either


def test_unfinished_request_head_times_out():
    connection, transport, check = connect()
    connection.data_received(HEAD)
    check()
    assert transport.state == "open"
    connection.data_received(b"x-more: 1\r\n")  # further bytes do not extend the time
    check()
    assert (transport.state, transport.written.split(b"\r\n")[0]) == (
        "closing",
        b"HTTP/1.1 408 Request Timeout",
    )


def test_connection_with_a_running_request_is_not_closed():
    connection, transport, check = connect()
    connection.data_received(HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY)
    for _ in range(10):
        check()
    assert transport.state == "open"


def test_slow_client_is_served_and_stalled_client_is_disconnected():
    connection, transport, check = connect()
    connection.data_received(HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY)
    connection.pause_writing()
    for transport.unread in (500_000, 400_000, 300_000, 299_999):
        check()
        assert transport.state == "open"
    check()
    assert transport.state == "aborted"


def test_connection_is_aborted_if_the_body_is_unfinished_after_the_response():
    connection, transport, check = connect()
    connection.data_received(HEAD + b"content-length: 1000000\r\n\r\n")
    connection.cycle.response_complete = True  # refused before it is complete
    connection.data_received(b"x" * 1000)
    check()
    connection.data_received(b"x" * 1000)
    check()
    assert transport.state == "aborted"


@pytest.mark.parametrize("endless", [b"x" * 1000, b"x-y: 1\r\n" * 100])
def test_request_head_size_is_limited(endless: bytes):
    connection, transport, _ = connect()
    connection.data_received(HEAD + b"x-z: ")
    sent = 0
    while transport.state == "open":
        connection.data_received(endless)
        sent += len(endless)
        assert sent <= MAX_HEAD_BYTES + 2 * len(endless)
    assert transport.written.startswith(b"HTTP/1.1 431 ")


def test_size_of_trailer_headers_is_limited():
    connection, transport, _ = connect()
    connection.data_received(HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-key: a\r\n")
    assert b"x-key" not in dict(connection.scope["headers"])
    while transport.state == "open":
        connection.data_received(b"x-key: a\r\n" * 100)
    assert transport.state == "aborted"


def test_body_in_one_byte_chunks_is_accepted():
    connection, transport, _ = connect()
    connection.data_received(HEAD + b"transfer-encoding: chunked\r\n\r\n")
    for _ in range(100):
        connection.data_received(b"1\r\nx\r\n" * 1000)
    connection.data_received(b"0\r\n\r\n")
    assert (transport.state, len(connection.cycle.body)) == ("open", 100_000)


def test_number_of_pipelined_requests_is_limited():
    connection, transport, _ = connect()
    request = HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
    connection.data_received(request * MAX_PIPELINED)
    assert transport.state == "open"
    connection.data_received(request * 1000)
    assert (transport.state, transport.written) == ("aborted", b"")
    assert len(connection.pipeline) == MAX_PIPELINED


def test_connection_releases_finished_requests():
    connection, transport, _ = connect()
    for _ in range(2):
        connection.data_received(HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY)
        assert dict(connection.scope["headers"])[b"host"] == b"localhost"
        connection.cycle.response_complete = True
        connection.on_response_complete()
        assert (connection.scope, connection.headers, connection.cycle.scope) == ({}, [], {})
    assert transport.state == "open"


def test_disconnection_is_reported_to_all_pipelined_requests():
    connection, _, _ = connect()
    cycles = []
    for _ in range(3):
        connection.data_received(HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY)
        cycles.append(connection.cycle)
    connection.connection_lost(None)
    assert [(cycle.disconnected, cycle.message_event.is_set()) for cycle in cycles] == [(True, True)] * 3


def open_connection(server: RunningServer) -> socket.socket:
    parts = urlsplit(server.url)
    return socket.create_connection((parts.hostname, parts.port), timeout=60)


def count_sockets(server: RunningServer) -> int:
    """Return the number of open sockets of the server."""
    descriptors = Path(f"/proc/{server.process.pid}/fd").iterdir()
    return sum(
        "socket" in str(descriptor.readlink()) for descriptor in descriptors if descriptor.is_symlink()
    )


@pytest.mark.slow
def test_sockets_of_stalled_clients_are_closed(tmp_path: Path):
    with running_server(tmp_path, limits={"body_seconds": 0.5}) as server:
        expected = b"HTTP/1.1 200"
        with open_connection(server) as first:
            first.sendall(HEAD + b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(BODY) + BODY)
            assert first.recv(100).startswith(expected)
        baseline = 0
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:  # wait until earlier connections are closed
            previous, baseline = baseline, count_sockets(server)
            if previous == baseline:
                break
            time.sleep(1)
        silent = [open_connection(server) for _ in range(50)]
        unfinished = [open_connection(server) for _ in range(50)]
        nonreader = open_connection(server)
        for client in unfinished:
            client.sendall(HEAD)
        nonreader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        nonreader.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 60)
        assert all(client.recv(100) == b"" for client in silent)
        assert all(client.recv(100).startswith(b"HTTP/1.1 408 ") for client in unfinished)
        deadline = time.monotonic() + 60
        while count_sockets(server) > baseline and time.monotonic() < deadline:
            time.sleep(0.1)
        assert count_sockets(server) == baseline
        assert server.post("/translate", content=BODY, headers=JSON_HEADERS).status_code == 200
        for client in (*silent, *unfinished, nonreader):
            client.close()


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nhost: localhost\r\nx: %s\r\n\r\n" % (b"x" * MAX_HEAD_BYTES),
        b"GET / HTTP/1.1\r\nhost: localhost\r\n%s\r\n" % (b"x: 0123456789\r\n" * (MAX_HEAD_BYTES // 11)),
        b"GET /?%s HTTP/1.1\r\nhost: localhost\r\n\r\n" % (b"x" * MAX_HEAD_BYTES),
        b"GET / HTTP/1.1\r\n%s: x\r\n\r\n" % (b"x" * MAX_HEAD_BYTES),
    ],
    ids=["a long header", "many headers", "a long query", "a long name"],
)
def test_overlong_request_head_received_in_one_read_is_refused(head: bytes):
    connection, transport, _ = connect()
    connection.data_received(head)
    assert (transport.state, transport.written.split(b"\r\n")[0]) == (
        "closing",
        b"HTTP/1.1 431 Request Header Fields Too Large",
    )
    assert connection.cycle is None


@pytest.mark.parametrize("hosts", [b"", b"host: a\r\nhost: a\r\n", b"host: a\r\nHOST: b\r\n"])
def test_missing_or_repeated_host_header_is_refused(hosts: bytes):
    connection, transport, _ = connect()
    connection.data_received(b"GET / HTTP/1.1\r\n" + hosts + b"\r\n")
    assert (transport.state, transport.written.split(b"\r\n")[0]) == ("closing", b"HTTP/1.1 400 Bad Request")
    assert connection.cycle is None


def test_http_1_0_requests_do_not_require_a_host_header():
    connection, _, _ = connect()
    connection.data_received(b"GET / HTTP/1.0\r\n\r\n")
    assert connection.cycle is not None

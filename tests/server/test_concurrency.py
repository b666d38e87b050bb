"""The limit on concurrent requests, and responses to requests above it."""

import asyncio
import logging
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from uwaga_server.api_errors import ApiError
from uwaga_server.metrics import Metrics
from uwaga_server.middleware import RequestMiddleware
from uwaga_server.settings import LimitSettings

pytestmark = pytest.mark.anyio

Message = dict[str, Any]


def render(path: str, problem: ApiError, request_id: str) -> Response:
    return Response(problem.code, problem.status, problem.headers)


class Client:
    """A request whose body parts are sent on demand."""

    def __init__(self, middleware: RequestMiddleware, headers: dict[str, str] | None = None) -> None:
        self.parts: asyncio.Queue[Message] = asyncio.Queue()
        self.sent: list[Message] = []
        self.reads = 0  # number of reads of its body
        request_headers = {"content-length": "3"} if headers is None else headers
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/",
            "headers": [(a.encode(), b.encode()) for a, b in request_headers.items()],
        }
        self.task = asyncio.ensure_future(middleware(scope, self._receive, self._send))

    def send(self, body: bytes, more: bool = False) -> "Client":
        self.parts.put_nowait({"type": "http.request", "body": body, "more_body": more})
        return self

    async def _receive(self) -> Message:
        self.reads += 1
        return await self.parts.get()

    async def _send(self, message: Message) -> None:
        self.sent.append(message)

    async def status(self) -> int:
        await self.task
        return int(self.sent[0]["status"])


class BlockedApp:
    """An application that responds only after it is released."""

    def __init__(self) -> None:
        self.released, self.started = asyncio.Event(), 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await Request(scope, receive).body()
        self.started += 1
        await self.released.wait()
        await Response("done")(scope, receive, send)


def make_middleware(app: Any, max_concurrent: int = 2) -> RequestMiddleware:
    return RequestMiddleware(app, LimitSettings(), Metrics(), render, max_concurrent)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_request_above_the_concurrency_limit_is_refused_before_its_body_is_read():
    app = BlockedApp()
    middleware = make_middleware(app)
    first = [Client(middleware).send(b"abc") for _ in range(2)]
    await settle()
    excess = Client(middleware)
    assert (await excess.status(), excess.reads) == (503, 0)
    assert int(dict(excess.sent[0]["headers"])[b"retry-after"]) >= 1
    app.released.set()
    assert [await client.status() for client in first] == [200, 200]
    assert await Client(middleware).send(b"abc").status() == 200
    assert app.started == 3


async def test_slow_request_bodies_do_not_block_other_requests():
    app = BlockedApp()
    app.released.set()
    middleware = make_middleware(app)
    slow = [Client(middleware).send(b"a", more=True) for _ in range(50)]
    await settle()
    assert await Client(middleware).send(b"abc").status() == 200
    assert [await client.send(b"bc").status() for client in slow] == [200] * 50


async def test_concurrency_limit_applies_to_requests_whose_bodies_finish_together():
    app = BlockedApp()
    middleware = make_middleware(app)
    clients = [Client(middleware).send(b"a", more=True) for _ in range(10)]
    await settle()
    for client in clients:
        client.send(b"bc")
    await settle()
    app.released.set()
    assert sorted([await client.status() for client in clients]) == [200] * 2 + [503] * 8


async def test_clients_that_stop_reading_do_not_block_other_requests():
    app = BlockedApp()
    app.released.set()
    middleware, resume = make_middleware(app), asyncio.Event()

    class StalledReader(Client):
        async def _send(self, message: Message) -> None:
            await super()._send(message)
            if message["type"] == "http.response.body":
                await resume.wait()

    clients = [StalledReader(middleware).send(b"abc") for _ in range(2)]
    await settle()
    assert await Client(middleware).send(b"abc").status() == 200
    resume.set()
    assert [await client.status() for client in clients] == [200, 200]


async def test_requests_without_a_body_do_not_count_towards_the_concurrency_limit():
    app = BlockedApp()
    middleware = make_middleware(app)
    clients = [Client(middleware, {}).send(b"") for _ in range(5)]
    await settle()
    assert app.started == 5
    app.released.set()
    assert [await client.status() for client in clients] == [200] * 5


async def test_client_disconnecting_while_sending_its_body_is_not_logged_as_an_error(caplog):
    async def app(scope: Any, receive: Any, send: Any) -> None:
        with pytest.raises(ClientDisconnect):
            await Request(scope, receive).body()
        raise ClientDisconnect

    with caplog.at_level(logging.INFO, "uwaga_server"):
        client = Client(make_middleware(app)).send(b"a", more=True)
        client.parts.put_nowait({"type": "http.disconnect"})
        await client.task
    assert client.sent == []
    assert [record.levelname for record in caplog.records if record.levelno > logging.INFO] == []

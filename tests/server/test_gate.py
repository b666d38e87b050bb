"""How many requests are answered at once, and what is said to the others."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from uwaga.server.api_errors import ApiError
from uwaga.server.metrics import Metrics
from uwaga.server.middleware import RequestMiddleware
from uwaga.server.settings import LimitSettings

Message = dict[str, Any]


def told(path: str, problem: ApiError, number: str) -> Response:
    return Response(problem.code, problem.status, problem.headers)


class Client:
    """One request: its body comes when it is sent, in one piece each."""

    def __init__(self, gate: RequestMiddleware, headers: dict[str, str] | None = None) -> None:
        self.parts: asyncio.Queue[Message] = asyncio.Queue()
        self.sent: list[Message] = []
        self.asked = 0  # times that somebody waited for its body
        given = {"content-length": "3"} if headers is None else headers
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/",
            "headers": [(a.encode(), b.encode()) for a, b in given.items()],
        }
        self.task = asyncio.ensure_future(gate(scope, self._receive, self._send))

    def send(self, body: bytes, more: bool = False) -> Client:
        self.parts.put_nowait({"type": "http.request", "body": body, "more_body": more})
        return self

    async def _receive(self) -> Message:
        self.asked += 1
        return await self.parts.get()

    async def _send(self, message: Message) -> None:
        self.sent.append(message)

    async def status(self) -> int:
        await self.task
        return int(self.sent[0]["status"])


class Held:
    """An application that answers when it is let go on."""

    def __init__(self) -> None:
        self.go, self.begun = asyncio.Event(), 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await Request(scope, receive).body()
        self.begun += 1
        await self.go.wait()
        await Response("done")(scope, receive, send)


def gate(app: Any, most: int = 2) -> RequestMiddleware:
    return RequestMiddleware(app, LimitSettings(), Metrics(), told, most)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_one_too_many_is_refused_before_its_body_is_read_and_room_comes_back():
    async def law() -> None:
        app = Held()
        door = gate(app)
        first = [Client(door).send(b"abc") for _ in range(2)]
        await settle()
        late = Client(door)
        assert (await late.status(), late.asked) == (503, 0)
        assert int(dict(late.sent[0]["headers"])[b"retry-after"]) >= 1
        app.go.set()
        assert [await one.status() for one in first] == [200, 200]
        assert await Client(door).send(b"abc").status() == 200
        assert app.begun == 3

    asyncio.run(law())


def test_bodies_that_come_slowly_keep_nobody_out():
    async def law() -> None:
        app = Held()
        app.go.set()
        door = gate(app)
        slow = [Client(door).send(b"a", more=True) for _ in range(50)]
        await settle()
        assert await Client(door).send(b"abc").status() == 200
        assert [await one.send(b"bc").status() for one in slow] == [200] * 50

    asyncio.run(law())


def test_those_whose_bodies_end_together_are_no_more_than_may_be():
    async def law() -> None:
        app = Held()
        door = gate(app)
        clients = [Client(door).send(b"a", more=True) for _ in range(10)]
        await settle()
        for one in clients:
            one.send(b"bc")
        await settle()
        app.go.set()
        assert sorted([await one.status() for one in clients]) == [200] * 2 + [503] * 8

    asyncio.run(law())


def test_who_does_not_read_the_answer_keeps_nobody_out():
    async def law() -> None:
        app = Held()
        app.go.set()
        door, deaf = gate(app), asyncio.Event()

        class Deaf(Client):
            async def _send(self, message: Message) -> None:
                await super()._send(message)
                if message["type"] == "http.response.body":
                    await deaf.wait()

        those = [Deaf(door).send(b"abc") for _ in range(2)]
        await settle()
        assert await Client(door).send(b"abc").status() == 200
        deaf.set()
        assert [await one.status() for one in those] == [200, 200]

    asyncio.run(law())


def test_what_has_no_body_is_not_counted():
    async def law() -> None:
        app = Held()
        door = gate(app)
        those = [Client(door, {}).send(b"") for _ in range(5)]
        await settle()
        assert app.begun == 5
        app.go.set()
        assert [await one.status() for one in those] == [200] * 5

    asyncio.run(law())


def test_a_client_that_goes_in_the_middle_of_its_body_is_no_mistake(caplog: pytest.LogCaptureFixture):
    async def law() -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            with pytest.raises(ClientDisconnect):
                await Request(scope, receive).body()
            raise ClientDisconnect

        door = gate(app)
        gone = Client(door).send(b"a", more=True)
        gone.parts.put_nowait({"type": "http.disconnect"})
        await gone.task
        assert gone.sent == []

    with caplog.at_level(logging.INFO, "uwaga.server"):
        asyncio.run(law())
    assert [record.levelname for record in caplog.records if record.levelno > logging.INFO] == []

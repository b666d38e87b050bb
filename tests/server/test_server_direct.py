"""Routes that are reached the short way answer as by FastAPI's own, to the byte."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from uwaga.server import app as application
from uwaga.server.direct import direct_routes
from uwaga.server.http import EventStream
from uwaga.server.models import ModelPool, loader
from uwaga.server.served_models import read_served_models
from uwaga.server.service import Service
from uwaga.server.settings import ServerSettings

JSON = "application/json"
GOOD = {"q": "A dog runs.", "source": "en", "target": "de"}
OWN = {"text": ["A dog runs.", "A cat sleeps."], "source": "en", "target": "de", "tokens": True}
REQUESTS = [
    ("POST", "/translate", JSON, json.dumps(GOOD)),
    ("POST", "/translate", JSON, json.dumps({**GOOD, "target": "xx"})),
    ("POST", "/translate", JSON, "{"),
    ("POST", "/translate", JSON, "[1]"),
    ("POST", "/translate", "application/x-www-form-urlencoded", "q=A+dog+runs.&source=en&target=de"),
    ("POST", "/translate", "multipart/form-data; boundary=x", "no form"),
    ("GET", "/translate", JSON, ""),
    ("POST", "/translate/", JSON, json.dumps(GOOD)),
    ("POST", "/v1/translate", JSON, json.dumps(OWN)),
    ("POST", "/v1/translate", JSON, json.dumps({**OWN, "beam": "wide"})),
    ("POST", "/v1/translate", "text/plain", "A dog runs."),
    (
        "POST",
        "/v1/translate",
        JSON,
        json.dumps({**OWN, "text": "A dog runs.", "stream": True, "tokens": False}),
    ),
    ("HEAD", "/v1/languages", JSON, ""),
    ("GET", "/v1/languages", JSON, ""),
    ("GET", "/v2/languages", JSON, ""),
    ("POST", "/v2/translate", JSON, json.dumps({"text": ["A dog runs."], "target_lang": "DE"})),
    ("POST", "/nowhere", JSON, "{}"),
]


def answers(settings: ServerSettings) -> list[tuple[int, dict[str, str], bytes]]:
    """What an application makes of the requests, one after the other."""

    async def ask() -> list[tuple[int, dict[str, str], bytes]]:
        store = ModelPool(loader(1, False))
        service = Service(read_served_models(settings.models), store)
        app = application.create_app(service, settings)
        await service.start()
        made = []
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            for method, path, kind, body in REQUESTS:
                headers = {"content-type": kind, "x-request-id": "the-same"}
                one = await client.request(method, path, content=body, headers=headers)
                made.append((one.status_code, dict(one.headers), one.content))
        await service.close()
        return made

    return asyncio.run(ask())


def test_the_short_way_answers_alike(monkeypatch: pytest.MonkeyPatch):
    settings = ServerSettings()
    made = answers(settings)
    reached = []

    def none(routes: object) -> dict[object, object]:
        reached.append(True)
        return {}

    monkeypatch.setattr(application, "direct_routes", none)
    law = answers(settings)
    assert reached
    assert [one[0] for one in made[:3]] == [200, 400, 400]
    for (method, path, *_), one, other in zip(REQUESTS, made, law, strict=True):
        assert one == other, (method, path)


def test_a_route_is_reached_the_short_way_by_what_its_function_takes():
    routes = APIRouter()

    @routes.get("/short")
    async def short(request: Request) -> Response:
        return Response()

    @routes.get("/named")
    async def named(asked: Request) -> EventStream:
        raise NotImplementedError

    @routes.get("/parameter")
    async def parameter(q: str) -> Response:
        return Response(q)

    @routes.get("/rendered")
    async def rendered(request: Request) -> dict[str, str]:
        return {}

    @routes.get("/untold", response_model=None)
    async def untold(request):  # type: ignore[no-untyped-def]
        return Response()

    assert set(direct_routes(routes.routes)) == {("GET", "/short"), ("GET", "/named")}

"""API keys are required on all routes of the application, including future ones."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from uwaga_server.app import Application, create_app
from uwaga_server.auth import add_key
from uwaga_server.context import ServerContext
from uwaga_server.metrics import Metrics
from uwaga_server.routing import Route
from uwaga_server.serve import open_service
from uwaga_server.settings import DIALECTS, server_settings

OPEN_PATHS = {
    "/", "/docs", "/openapi.json", "/spec", "/health", "/metrics", "/languages",
    "/frontend/settings", "/deeplx", "/download_file/{filename}",
}  # fmt: skip
"""Paths that need no key, besides files of the page; downloads need the secret in their URL."""
FIELDS = {
    "q": "A dog.", "text": "A dog.", "s": "Ein Hund.", "source": "en", "target": "de", "from": "en",
    "to": "de", "source_lang": "EN", "target_lang": "DE", "text_list": ["A dog."], "input": "A dog.",
    "name": "terms", "entries": "dog\tHund", "entries_format": "tsv",
    "messages": [{"role": "user", "content": "A dog."}],
    "model": "en-de", "document_key": "0" * 64,
}  # fmt: skip


class Attempt(NamedTuple):
    """An invalid way to send a key: headers, query and body fields, in which KEY is the valid key."""

    headers: dict[str, str] = {}  # noqa: RUF012
    query: dict[str, str] = {}  # noqa: RUF012
    fields: dict[str, object] = {}  # noqa: RUF012


WRONG = "uwk-00000000-" + "a" * 43
ATTEMPTS = {
    "no key": Attempt(),
    "empty": Attempt({"authorization": "Bearer "}),
    "wrong bearer": Attempt({"authorization": f"Bearer {WRONG}"}),
    "wrong DeepL key": Attempt({"authorization": f"DeepL-Auth-Key {WRONG}"}),
    "wrong header": Attempt({"x-goog-api-key": WRONG}),
    "wrong query": Attempt(query={"key": WRONG, "api_key": WRONG, "token": WRONG, "auth_key": WRONG}),
    "wrong fields": Attempt(fields={"key": WRONG, "api_key": WRONG, "token": WRONG, "auth_key": WRONG}),
    "fields of other types": Attempt(fields={"key": ["KEY"], "api_key": ["KEY"], "token": {"KEY": 1}}),
    "longer": Attempt({"authorization": "Bearer KEYa"}, {"key": "KEYa"}, {"api_key": "KEYa"}),
    "upper case": Attempt({"authorization": "Bearer UPPER"}, {"key": "UPPER"}, {"api_key": "UPPER"}),
    "another scheme": Attempt({"authorization": "Basic KEY"}),
    "other headers": Attempt({"cookie": "key=KEY", "x-api-key": "KEY", "proxy-authorization": "Bearer KEY"}),
    "its name": Attempt({"authorization": "Bearer ann"}, {"of": "ann", "key": "ann"}, {"api_key": "ann"}),
}  # fmt: skip


def needs_key(route: Route) -> bool:
    return route.path not in OPEN_PATHS and not route.path.startswith("/page/")


def make_app(folder: Path, **changes: object) -> tuple[Application, str]:
    keys = folder / "keys.json"
    key = add_key(keys, "ann")
    dialects = list(DIALECTS)
    values = {"keys": keys, "dialects": dialects, "state": folder / "state", "suggestions": folder / "lines"}
    settings = server_settings({**values, **changes}, "the test")
    metrics = Metrics()
    return create_app(open_service(settings, metrics), settings, metrics), key


class RunningApp(NamedTuple):
    """The application, a valid key, and a client with its event loop."""

    application: Application
    key: str
    client: httpx.AsyncClient
    runner: asyncio.Runner


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApp]:
    application, key = make_app(tmp_path_factory.mktemp("server"))
    with asyncio.Runner() as runner:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://localhost")
        yield RunningApp(application, key, client, runner)
        runner.run(client.aclose())


def send(app: RunningApp, route: Route, attempt: Attempt, **content: Any) -> httpx.Response:
    """Send a request of an attempt to a route."""

    def fill(values: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(values).replace("KEY", app.key).replace("UPPER", app.key.upper())
        return json.loads(text)

    path = route.path.replace("{token}", WRONG).replace("{document_id}", "0" * 32)
    path = path.replace("{", "").replace("}", "")
    request = app.client.request(
        route.method, path, headers=fill(attempt.headers), params=fill(attempt.query), **content
    )
    return app.runner.run(request)


def bodies(attempt: Attempt, key: str) -> list[dict[str, Any]]:
    """Return request bodies of all kinds: JSON, a form, a form with a file, and none.

    Where an attempt has no key in the body, its kind does not matter.
    """
    fields = json.loads(json.dumps(FIELDS | attempt.fields).replace("KEY", key).replace("UPPER", key.upper()))
    form = {name: value for name, value in fields.items() if isinstance(value, str)}
    if not attempt.fields and attempt != Attempt():
        return [{"json": fields}]
    return [{"json": fields}, {"data": form}, {"data": form, "files": {"file": ("a.txt", b"A dog.")}}, {}]


@pytest.mark.parametrize("name", ATTEMPTS)
def test_all_protected_routes_refuse_invalid_keys(app: RunningApp, name: str):
    routes = list(filter(needs_key, app.application.routes))
    assert len(routes) > 60
    for route in routes:
        for content in bodies(ATTEMPTS[name], app.key):
            response = send(app, route, ATTEMPTS[name], **content)
            assert response.status_code in (400, 401, 403), (route.method, route.path, content)


def test_public_routes_do_not_require_a_key(app: RunningApp):
    routes = app.application.routes
    assert {route.path for route in routes} >= OPEN_PATHS
    for route in routes:
        if not needs_key(route) and route.path != "/download_file/{filename}":
            assert send(app, route, Attempt()).status_code in (200, 503)


@pytest.mark.parametrize(
    "name", ["wrong bearer", "wrong DeepL key", "wrong header", "wrong query", "another scheme"]
)
def test_request_with_a_wrong_key_is_refused_before_its_body_is_read(app: RunningApp, name: str):
    read_paths: list[str] = []
    for route in filter(needs_key, app.application.routes):

        async def body(path: str = route.path):
            read_paths.append(path)
            yield b"{}"

        response = send(app, route, ATTEMPTS[name], content=body())
        assert response.status_code in (400, 401, 403)
    only_in_body = {"/translate", "/detect", "/suggest", "/translate_file"}
    google = {path for path in read_paths if path.startswith("/language/translate/v2")}
    assert set(read_paths) <= only_in_body | google


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("192.0.2.7", "192.0.2.7"), ("2001:db8:1:2::7", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2:ffff::1%eth0", "2001:db8:1:2::/64"), ("2001:db8:1:3::7", "2001:db8:1:3::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"), ("unix:", "unix:"), ("", ""),
    ],
)  # fmt: skip
def test_clients_of_an_ipv6_network_share_rate_limits(address: str, name: str):
    context = ServerContext(server_settings({"limits": {"requests_per_minute": 5}}, "the test"), None)  # type: ignore[arg-type]
    assert (
        context.anonymous_client(address).name,
        context.anonymous_client(address).requests_per_minute,
    ) == (name, 5)

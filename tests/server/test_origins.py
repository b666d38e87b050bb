"""Web pages of other sites cannot use a server that trusts all clients on its machine."""

import asyncio
from typing import Any

import httpx
import pytest
from starlette.responses import Response

from uwaga_server.api_errors import ApiError
from uwaga_server.origins import OriginCheck, check_origins
from uwaga_server.settings import ServerSettings, server_settings


async def done_app(scope: Any, receive: Any, send: Any) -> None:
    await Response("done")(scope, receive, send)


def settings(**values: Any) -> ServerSettings:
    return server_settings(values, "the test")


def status(headers: dict[str, str], **values: Any) -> int:
    """Return the status of a request with the given headers to a server with the given settings."""
    app = check_origins(done_app, settings(**values))

    async def send() -> int:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:5000") as client:
            try:
                return (await client.post("/", headers=headers)).status_code
            except ApiError as error:
                return error.status

    return asyncio.run(send())


HOSTS = {
    "localhost": 200,
    "localhost:5000": 200,
    "LOCALHOST:80": 200,
    "uwaga.localhost:5000": 200,
    "127.0.0.1:5000": 200,
    "127.1.2.3": 200,
    "[::1]:5000": 200,
    "192.168.1.7:5000": 200,  # an IP address, which needs no DNS
    "": 200,
    "evil.example": 421,
    "evil.example:5000": 421,
    "localhost.evil.example": 421,
    "evillocalhost": 421,
    "127.0.0.1.evil.example": 421,
    "[evil.example]": 421,
    "translate.example": 421,
}


@pytest.mark.parametrize("host", HOSTS)
def test_only_requests_with_accepted_hosts_are_served(host: str):
    assert status({"host": host}) == HOSTS[host]


ORIGINS = {
    "http://localhost:5000": 200,
    "http://LOCALHOST:5000": 200,
    "chrome-extension://abcdefgh": 200,
    "moz-extension://0123-4567": 200,
    "app://obsidian.md": 200,
    "http://localhost:3000": 403,  # another program's page
    "http://127.0.0.1:5000": 403,
    "http://evil.example": 403,
    "https://evil.example": 403,
    "http://evil.example:5000": 403,
    "http://[": 403,
    "null": 403,
    "NULL": 403,
}


@pytest.mark.parametrize("origin", ORIGINS)
def test_only_requests_with_accepted_origins_are_served(origin: str):
    assert status({"host": "localhost:5000", "origin": origin}) == ORIGINS[origin]


def test_hosts_and_origins_in_settings_are_accepted():
    public = {"public_url": "https://translate.example/uwaga"}
    assert status({"host": "translate.example", "origin": "https://translate.example"}, **public) == 200
    assert status({"host": "localhost:5000", "origin": "https://translate.example"}, **public) == 200
    assert status({"host": "evil.example"}, **public) == 421
    page = {"host": "localhost:5000", "origin": "http://page.example"}
    assert status(page, cors=["http://page.example"]) == 200
    assert status(page, cors=["http://other.example"]) == 403


@pytest.mark.parametrize(
    "values", [{"host": "0.0.0.0"}, {"host": "translate.example"}, {"keys": "keys.json"}, {"cors": ["*"]}]
)
def test_origins_are_not_checked_on_servers_that_are_public_or_require_keys(values: dict[str, Any]):
    assert not isinstance(check_origins(done_app, settings(**values)), OriginCheck)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_origins_are_checked_on_loopback_servers_without_keys(host: str):
    assert isinstance(check_origins(done_app, settings(host=host)), OriginCheck)

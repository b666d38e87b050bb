"""MCP over HTTP: keys, limits, hosts and origins, invalid messages."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from running_server import RunningServer, running_server

from uwaga_server.auth import add_key

pytest.importorskip("mcp")
from mcp_client import connect_http

LIST_REQUEST = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    file = tmp_path_factory.mktemp("keys") / "keys.json"
    created = {name: add_key(file, name) for name in ("ann", "bob")}
    created["poor"] = add_key(file, "poor", characters=20)
    created["slow"] = add_key(file, "slow", characters_per_minute=10)
    return {**created, "file": str(file)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, keys: dict[str, str]) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "named").mkdir()
    (folder / "named" / "page.txt").write_text("A man and a woman sleep in the park.")
    (folder / "named" / "large.txt").write_text("A man sleeps.\n\n" * 10_000)
    command = ("mcp", "--http", "--folder", str(folder / "named"))
    limits = {"document_bytes": 100_000, "body_bytes": 50_000}
    with running_server(folder, command, keys=keys["file"], limits=limits) as running:
        yield running


def post(server: RunningServer, body: bytes, key: str, **headers: str) -> httpx.Response:
    request_headers = {**HEADERS, **({"authorization": f"Bearer {key}"} if key else {}), **headers}
    return server.post("/mcp", content=body, headers=request_headers)


def test_mcp_sessions_require_the_key_of_their_owner(server: RunningServer, keys: dict[str, str]):
    missing, wrong = post(server, LIST_REQUEST, ""), post(server, LIST_REQUEST, "wrong")
    assert missing.status_code == 401 and missing.headers["www-authenticate"] == "Bearer"
    assert wrong.status_code == 403 and "wrong" in wrong.json()["error"]["message"]
    params = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    opened = post(server, json.dumps(hello).encode(), keys["ann"])
    session = {"mcp-session-id": opened.headers["mcp-session-id"]}
    started = b'{"jsonrpc": "2.0", "method": "notifications/initialized"}'
    assert post(server, started, keys["ann"], **session).status_code == 202
    assert "translate_file" in post(server, LIST_REQUEST, keys["ann"], **session).text
    assert post(server, LIST_REQUEST, keys["bob"], **session).status_code == 404


def test_number_of_characters_is_limited_per_client(server: RunningServer, keys: dict[str, str]):
    languages = {"source": "en", "target": "de"}
    with connect_http(server.url, keys["poor"]) as poor:
        poor.ok("translate", text="A man sleeps.", **languages)
        assert "characters left" in poor.refused("translate", text="A woman sleeps.", **languages)
        assert "characters left" in poor.refused("translate_file", document="page.txt", **languages)
        poor.ok("translate", text="A dog.", **languages)  # failed calls are not counted
    with connect_http(server.url, keys["slow"]) as slow:
        slow.ok("translate", text="A dog runs", **languages)
        assert "try again" in slow.refused("translate", text="A dog runs", **languages)


def test_request_and_document_sizes_are_limited(server: RunningServer, keys: dict[str, str]):
    assert post(server, b" " * 60_000, keys["ann"]).status_code == 413
    with connect_http(server.url, keys["ann"]) as client:
        message = client.refused("translate_file", document="large.txt", target="de")
        assert message == "'large.txt': has 150000 bytes; at most 100000 are allowed"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421), ({"host": "127.0.0.1.evil.example:80"}, 421),
        ({"origin": "http://evil.example"}, 403), ({"origin": "null"}, 403),
        ({"content-type": "text/plain"}, 400), ({"accept": "text/html"}, 406),
        ({"mcp-session-id": "unknown"}, 404),
    ],
)  # fmt: skip
def test_untrusted_origins_and_invalid_headers_are_refused(server, keys, headers, status):
    assert post(server, LIST_REQUEST, keys["ann"], **headers).status_code == status


@pytest.mark.parametrize("body", [b"", b"\xff\x00", b"[" * 10_000, b"{}", b"[]", b'"x"', b'{"a": "\\ud800"}'])
def test_invalid_messages_are_refused(server: RunningServer, keys: dict[str, str], body: bytes):
    assert post(server, body, keys["ann"]).status_code == 400


def test_texts_and_paths_are_not_logged(server: RunningServer, keys: dict[str, str]):
    with connect_http(server.url, keys["bob"]) as client:
        client.ok("translate", text="A quokka sleeps.", source="en", target="de")
        client.refused("translate", text="quokka", target="quokka", quokka=1)
        client.refused("translate_file", document="/quokka.txt", target="de")
    post(server, b'{"jsonrpc": "2.0", "id": 1, "method": "quokka"}', keys["bob"])
    assert "quokka" not in server.log.read_text(encoding="utf-8")


@pytest.mark.slow
def test_open_sessions_do_not_delay_shutdown(tmp_path: Path):
    with running_server(tmp_path, ("mcp", "--http")) as server, connect_http(server.url) as client:
        assert client.tools()
        deadline = time.monotonic() + 20  # uvicorn waits 30 s for streams that do not end
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(25)
        assert time.monotonic() < deadline

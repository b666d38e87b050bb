"""Limits on the size of request bodies, and on the memory use of all bodies being received."""

import contextlib
import json
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from running_server import RunningServer, running_server
from starlette.requests import Request
from starlette.responses import Response
from test_concurrency import Client, render, settle

from uwaga.errors import SettingsError
from uwaga_server.api_errors import ApiError
from uwaga_server.metrics import Metrics
from uwaga_server.middleware import BodyMemory, RequestMiddleware, RequestState
from uwaga_server.settings import LimitSettings, server_settings

pytestmark = pytest.mark.anyio

MEBIBYTE = 1 << 20
BODY = json.dumps({"q": "A dog.", "source": "en", "target": "de"}).encode()
JSON_HEADER = "content-type: application/json"


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5), st.sampled_from(["add", "replace", "finish", "free"]), st.integers(0, 300)
        )
    )
)
def test_memory_use_of_request_bodies_is_limited(actions: list[tuple[int, str, int]]):
    memory = BodyMemory(1000)
    states = [RequestState(str(number), memory) for number in range(6)]
    for number, action, size in actions:
        state = states[number]
        if action in ("finish", "free"):
            getattr(memory, action)(state)
        elif not state.is_refused:
            with contextlib.suppress(ApiError):
                getattr(memory, action)(state, size)
        assert memory._used == sum(state.body_bytes for state in states) <= 1000
    for state in states:
        memory.free(state)
    assert (memory._used, memory._unfinished) == (0, {})


def middleware(total_bytes: int) -> RequestMiddleware:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await Request(scope, receive).body()
        await Response("done")(scope, receive, send)

    limits = LimitSettings(body_bytes=1000, document_bytes=1000, total_body_bytes=total_bytes)
    return RequestMiddleware(app, limits, Metrics(), render, 1000)


@given(st.lists(st.integers(1, 900), min_size=1, max_size=40))
async def test_unfinished_bodies_do_not_block_complete_ones(sizes: list[int]):
    app = middleware(3000)
    unfinished = [Client(app).send(bytes(size), more=True) for size in sizes]
    await settle()
    assert app._body_memory._used <= 3000
    assert await Client(app, {"content-length": "900"}).send(bytes(900)).status() == 200
    statuses = [await client.send(b"").status() for client in unfinished]
    assert set(statuses) <= {200, 503}
    assert statuses == sorted(statuses, reverse=True)  # the oldest ones were refused
    assert app._body_memory._used == 0


async def test_unfinished_body_is_refused_to_make_room_for_a_complete_one():
    app = middleware(1000)
    first = Client(app).send(bytes(600), more=True)
    await settle()
    assert await Client(app).send(bytes(800)).status() == 200
    assert await first.status() == 503
    assert int(dict(first.sent[0]["headers"])[b"retry-after"]) >= 1


def test_total_body_limit_must_allow_the_largest_body():
    with pytest.raises(SettingsError, match="total_body_bytes"):
        server_settings({"limits": {"total_body_bytes": MEBIBYTE}}, "the test")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("server")
    limits = {"total_body_bytes": 8 * MEBIBYTE, "document_bytes": 4 * MEBIBYTE, "body_bytes": MEBIBYTE}
    with running_server(folder, limits=limits, state=str(folder / "state")) as running:
        yield running


def start_request(server: RunningServer, head: str, length: int, body: bytes) -> socket.socket:
    """Send the first part of a request."""
    url = urlsplit(server.url)
    client = socket.create_connection((url.hostname, url.port or 80), timeout=10)
    head = f"POST {head}\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n"
    client.sendall(head.encode() + body)
    return client


def resident_bytes(server: RunningServer) -> int:
    """Return the resident memory of the server in bytes."""
    pages = Path(f"/proc/{server.process.pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * 4096


def test_memory_use_of_unfinished_bodies_is_limited(server: RunningServer):
    before = resident_bytes(server)
    body = BODY[:-1] + b" " * (MEBIBYTE - 1000)
    clients = [
        start_request(server, f"/translate HTTP/1.1\r\n{JSON_HEADER}", MEBIBYTE, body) for _ in range(40)
    ]
    response = server.post("/translate", content=BODY, headers={"content-type": "application/json"})
    assert response.status_code == 200
    assert resident_bytes(server) - before < 30 * MEBIBYTE
    refused = 0
    for client in clients:
        client.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            refused += client.recv(100).startswith(b"HTTP/1.1 503")
        client.close()
    assert refused >= 30


@pytest.mark.parametrize("kind", ["multipart/form-data; boundary=x", "application/x-www-form-urlencoded"])
@pytest.mark.parametrize("path", ["/translate", "/detect", "/suggest", "/v2/translate", "/v1/translate"])
def test_form_without_a_file_has_the_usual_size_limit(server: RunningServer, path: str, kind: str):
    with start_request(server, f"{path} HTTP/1.1\r\ncontent-type: {kind}", 2 * MEBIBYTE, b"q=") as client:
        assert b" 413 " in client.recv(100) or path == "/v1/translate"


@pytest.mark.parametrize("path", ["/v1/documents", "/v2/document", "/translate_file"])
def test_document_uploads_may_exceed_the_usual_size_limit(server: RunningServer, path: str):
    fields = {"source": "en", "target": "de"}
    if path == "/v2/document":
        fields = {f"{name}_lang": code.upper() for name, code in fields.items()}
    text = b"A dog." + b" " * (2 * MEBIBYTE)
    response = server.post(path, data=fields, files={"file": ("a.txt", text)})
    assert response.status_code < 300


@pytest.mark.parametrize("path", ["/v2/glossaries", "/v3/glossaries"])
def test_only_multipart_glossary_uploads_may_exceed_the_usual_size_limit(server: RunningServer, path: str):
    entries = "".join(f"term {number}\tBegriff {number} {'x' * 500}\n" for number in range(4000))
    fields = {"name": "terms", "source_lang": "en", "target_lang": "de", "entries": entries}
    fields["entries_format"] = "tsv"
    if path == "/v3/glossaries":
        dictionary = {f"dictionaries[0].{name}": text for name, text in fields.items() if name != "name"}
        fields = {"name": "terms", **dictionary}
    headers = {"authorization": "DeepL-Auth-Key any"}
    parts = {name: (None, text) for name, text in fields.items()}
    assert sum(map(len, fields.values())) > MEBIBYTE
    created = server.post(path, files=parts, headers=headers)
    assert created.status_code == 201
    refused = server.post(path, data=fields, headers=headers)
    assert refused.status_code == 413


@pytest.mark.parametrize(
    "charset", ["punycode", "idna", "undefined", "utf-7", "utf-16", "latin-1", "rot13", ""]
)
@pytest.mark.parametrize(
    "path", ["/translate", "/translate_file", "/v1/documents", "/v2/document", "/v2/translate"]
)
def test_forms_with_a_charset_other_than_utf_8_are_refused(server: RunningServer, path: str, charset: str):
    field = '--x\r\nContent-Disposition: form-data; name="q-"\r\n\r\n' + "x" * 2000 + "-\r\n--x--\r\n"
    headers = {"content-type": f"multipart/form-data; boundary=x; charset={charset}"}
    response = server.post(path, content=field.encode(), headers=headers, timeout=10)
    assert response.status_code in (400, 415)
    assert "UTF-8" in response.text


def test_form_with_charset_utf_8_is_accepted(server: RunningServer):
    fields = {"q": "A dog.", "source": "en", "target": "de"}
    content = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'
        for name, text in fields.items()
    )
    headers = {"content-type": "multipart/form-data; boundary=x; charset=UTF-8"}
    response = server.post("/translate", content=f"{content}--x--\r\n", headers=headers)
    assert response.status_code == 200

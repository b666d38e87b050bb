"""Who reaches a stored document: its owner, with the document's own key where it has one, and nobody else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import httpx
import pytest
from running_server import RunningServer, running_server
from waiting import eventually

from uwaga.server.auth import add_key
from uwaga.server.settings import DialectName

TEXT = "A man sleeps."
TRANSLATION = "Ein Mann schläft."
WRONG = "0" * 64


@dataclass(frozen=True)
class Stored:
    """A translated document: its id, its own key (empty if it has none), and the request that reads it."""

    id: str
    key: str
    read: httpx.Request


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    file = tmp_path_factory.mktemp("keys") / "keys.json"
    return {"file": str(file), **{name: add_key(file, name) for name in ("ann", "bob")}}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, keys: dict[str, str]) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("server")
    settings = {"dialects": list(get_args(DialectName)), "log_level": "debug", "state": str(folder / "state")}
    with running_server(folder, keys=keys["file"], **settings) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


def headers(dialect: str, key: str) -> dict[str, str]:
    return {"authorization": f"{'DeepL-Auth-Key' if dialect == 'deepl' else 'Bearer'} {key}"}


def store_v1(client: httpx.Client, key: str) -> Stored:
    form = {"source": "en", "target": "de"}
    stored = client.post("/v1/documents", data=form, files=upload(), headers=headers("v1", key)).json()["id"]
    result = client.build_request("GET", f"/v1/documents/{stored}/result", headers=headers("v1", key))
    return Stored(stored, "", result)


def store_deepl(client: httpx.Client, key: str) -> Stored:
    form = {"source_lang": "EN", "target_lang": "DE"}
    answer = client.post("/v2/document", data=form, files=upload(), headers=headers("deepl", key)).json()
    stored, own = answer["document_id"], answer["document_key"]
    path = f"/v2/document/{stored}/result"
    result = client.build_request("POST", path, json={"document_key": own}, headers=headers("deepl", key))
    return Stored(stored, own, result)


def store_libretranslate(client: httpx.Client, key: str) -> Stored:
    form = {"source": "en", "target": "de", "api_key": key}
    url = client.post("/translate_file", data=form, files=upload()).json()["translatedFileUrl"]
    match = re.fullmatch(r".*/download_file/([0-9a-f]{32})-([0-9a-f]{64})\.secret\.txt", url)
    assert match is not None, url
    return Stored(match[1], match[2], client.build_request("GET", url))


DIALECTS = {"v1": store_v1, "deepl": store_deepl, "libretranslate": store_libretranslate}


def upload() -> dict[str, tuple[str, bytes]]:
    return {"file": ("secret.txt", TEXT.encode())}


def store(client: httpx.Client, dialect: str, key: str) -> Stored:
    stored = DIALECTS[dialect](client, key)
    for _ in range(200):
        if client.send(stored.read).text == TRANSLATION:
            return stored
    raise AssertionError("the document is not translated")


def routes(client: httpx.Client) -> list[tuple[str, str]]:
    """Methods and paths with a parameter, as the server lists them."""
    paths = client.get("/openapi.json").json()["paths"]
    return [(method.upper(), path) for path in paths if "{" in path for method in paths[path]]


def attempts(client: httpx.Client, document: Stored, key: str | None) -> Iterator[httpx.Request]:
    """Requests of every route for a document, without its own key or with a wrong one."""
    names = list({document.id, document.id.lower()})
    names += [f"{document.id.lower()}{more}.secret.txt" for more in ("", "-", f"-{WRONG}", f"-{document.id}")]
    for method, path in routes(client):
        for name in names:
            url = re.sub(r"{\w+}", name, path)
            for own in ({}, {"document_key": WRONG}):
                query = {"of": "ann", **({"api_key": key, "key": key} if key else {}), **own}
                body = {"json": own} if method not in ("GET", "DELETE") else {}
                for scheme in ("v1", "deepl") if key else ("v1",):
                    sent = headers(scheme, key) if key else {}
                    yield client.build_request(method, url, params=query, headers=sent, **body)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ["nobody", "bob"])
def test_no_route_reaches_the_document_of_another(client: httpx.Client, keys, dialect: str, name: str):
    document = store(client, dialect, keys["ann"])
    for request in attempts(client, document, keys.get(name)):
        answer = client.send(request)
        assert answer.status_code >= 400, (request.method, request.url, answer.text)
    assert client.send(document.read).text == TRANSLATION


@pytest.mark.parametrize("dialect", ["v1", "deepl"])
def test_the_document_of_another_is_not_found(client: httpx.Client, keys, dialect: str):
    request = store(client, dialect, keys["ann"]).read
    request.headers.update(headers(dialect, keys["bob"]))
    assert client.send(request).status_code == 404


@pytest.mark.parametrize("dialect", ["deepl", "libretranslate"])
def test_a_document_with_a_key_of_its_own_needs_it_from_its_owner_too(client, keys, dialect: str):
    document = store(client, dialect, keys["ann"])
    for request in attempts(client, document, keys["ann"]):
        if (request.method, request.url.path.partition("/v1/documents")[0]) != ("DELETE", ""):
            assert client.send(request).status_code >= 400, (request.method, request.url)
    assert client.send(document.read).text == TRANSLATION


@pytest.mark.parametrize("dialect", ["v1", "deepl"])
def test_the_url_of_a_download_reaches_only_what_translate_file_stored(client, keys, dialect: str):
    document = store(client, dialect, keys["ann"])
    for key in {document.key, document.key.lower(), WRONG}:
        url = f"/download_file/{document.id.lower()}-{key}.secret.txt"
        assert client.get(url).status_code == client.delete(url).status_code == 404
    assert client.send(document.read).text == TRANSLATION


def test_an_owner_deletes_the_document_of_each_dialect(client: httpx.Client, keys):
    for dialect in DIALECTS:
        document = store(client, dialect, keys["ann"])
        url = str(document.read.url).removesuffix("/result")
        query = {"document_key": document.key} if dialect == "deepl" else {}
        sent = headers(dialect, keys["ann"])
        assert client.delete(url, params=query, headers=sent).status_code == 204
        assert client.send(document.read).status_code == 404


def test_the_log_has_no_id_and_no_key(client: httpx.Client, server: RunningServer, keys, tmp_path: Path):
    stored = [store(client, dialect, keys["ann"]) for dialect in DIALECTS]
    form = {"source": "en", "target": "de"}
    broken = {"file": ("broken.docx", b"no zip")}
    failed = client.post("/v1/documents", data=form, files=broken, headers=headers("v1", keys["ann"]))

    def log() -> str:
        return server.log.read_text(encoding="utf-8").lower()

    eventually(lambda: '"document refused"' in log() and '"document done"' in log())
    told = log() + client.get("/metrics").text
    for secret in [failed.json()["id"], *(part for one in stored for part in (one.id, one.key) if part)]:
        assert secret.lower() not in told

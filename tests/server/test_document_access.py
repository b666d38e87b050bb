"""Stored documents are accessible only to their owner, with the document key if they have one."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
from running_server import RunningServer, running_server
from waiting import eventually

from uwaga_server.auth import add_key
from uwaga_server.settings import DIALECTS

TEXT = "A man sleeps."
TRANSLATION = "Ein Mann schläft."
WRONG_KEY = "0" * 64


@dataclass(frozen=True)
class StoredDocument:
    """A translated document: its id, its key (empty if it has none), and its download request."""

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
    settings = {"dialects": list(DIALECTS), "log_level": "debug", "state": str(folder / "state")}
    with running_server(folder, keys=keys["file"], **settings) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


def headers(dialect: str, key: str) -> dict[str, str]:
    return {"authorization": f"{'DeepL-Auth-Key' if dialect == 'deepl' else 'Bearer'} {key}"}


def store_v1(client: httpx.Client, key: str) -> StoredDocument:
    form = {"source": "en", "target": "de"}
    document_id = client.post("/v1/documents", data=form, files=upload(), headers=headers("v1", key)).json()[
        "id"
    ]
    result = client.build_request("GET", f"/v1/documents/{document_id}/result", headers=headers("v1", key))
    return StoredDocument(document_id, "", result)


def store_deepl(client: httpx.Client, key: str) -> StoredDocument:
    form = {"source_lang": "EN", "target_lang": "DE"}
    response = client.post("/v2/document", data=form, files=upload(), headers=headers("deepl", key)).json()
    document_id, document_key = response["document_id"], response["document_key"]
    path = f"/v2/document/{document_id}/result"
    result = client.build_request(
        "POST", path, json={"document_key": document_key}, headers=headers("deepl", key)
    )
    return StoredDocument(document_id, document_key, result)


def store_libretranslate(client: httpx.Client, key: str) -> StoredDocument:
    form = {"source": "en", "target": "de", "api_key": key}
    url = client.post("/translate_file", data=form, files=upload()).json()["translatedFileUrl"]
    match = re.fullmatch(r".*/download_file/([0-9a-f]{32})-([0-9a-f]{64})\.secret\.txt", url)
    assert match is not None, url
    return StoredDocument(match[1], match[2], client.build_request("GET", url))


STORES = {"v1": store_v1, "deepl": store_deepl, "libretranslate": store_libretranslate}


def upload() -> dict[str, tuple[str, bytes]]:
    return {"file": ("secret.txt", TEXT.encode())}


def store(client: httpx.Client, dialect: str, key: str) -> StoredDocument:
    stored = STORES[dialect](client, key)
    eventually(lambda: client.send(stored.read).text == TRANSLATION)
    return stored


def routes(client: httpx.Client) -> list[tuple[str, str]]:
    """Return the methods and paths with a parameter that the server lists."""
    paths = client.get("/openapi.json").json()["paths"]
    return [(method.upper(), path) for path in paths if "{" in path for method in paths[path]]


def access_attempts(
    client: httpx.Client, document: StoredDocument, key: str | None
) -> Iterator[httpx.Request]:
    """Yield requests of all routes for a document, without the document key or with a wrong one."""
    names = list({document.id, document.id.lower()})
    names += [
        f"{document.id.lower()}{suffix}.secret.txt"
        for suffix in ("", "-", f"-{WRONG_KEY}", f"-{document.id}")
    ]
    for method, path in routes(client):
        for name in names:
            url = re.sub(r"{\w+}", name, path)
            for document_key in ({}, {"document_key": WRONG_KEY}):
                query = {"of": "ann", **({"api_key": key, "key": key} if key else {}), **document_key}
                body = {"json": document_key} if method not in ("GET", "DELETE") else {}
                for scheme in ("v1", "deepl") if key else ("v1",):
                    request_headers = headers(scheme, key) if key else {}
                    yield client.build_request(method, url, params=query, headers=request_headers, **body)


@pytest.mark.parametrize("dialect", STORES)
@pytest.mark.parametrize("name", ["nobody", "bob"])
def test_no_route_gives_access_to_another_owners_document(client, keys, dialect, name):
    document = store(client, dialect, keys["ann"])
    for request in access_attempts(client, document, keys.get(name)):
        response = client.send(request)
        assert response.status_code >= 400, (request.method, request.url, response.text)
    assert client.send(document.read).text == TRANSLATION


@pytest.mark.parametrize("dialect", ["v1", "deepl"])
def test_document_of_another_owner_is_not_found(client: httpx.Client, keys, dialect: str):
    request = store(client, dialect, keys["ann"]).read
    request.headers.update(headers(dialect, keys["bob"]))
    assert client.send(request).status_code == 404


@pytest.mark.parametrize("dialect", ["deepl", "libretranslate"])
def test_document_owner_must_send_the_document_key(client, keys, dialect: str):
    document = store(client, dialect, keys["ann"])
    for request in access_attempts(client, document, keys["ann"]):
        if (request.method, request.url.path.partition("/v1/documents")[0]) != ("DELETE", ""):
            assert client.send(request).status_code >= 400, (request.method, request.url)
    assert client.send(document.read).text == TRANSLATION


@pytest.mark.parametrize("dialect", ["v1", "deepl"])
def test_download_url_works_only_for_documents_from_translate_file(client, keys, dialect: str):
    document = store(client, dialect, keys["ann"])
    for key in {document.key, document.key.lower(), WRONG_KEY}:
        url = f"/download_file/{document.id.lower()}-{key}.secret.txt"
        assert client.get(url).status_code == client.delete(url).status_code == 404
    assert client.send(document.read).text == TRANSLATION


def test_owner_can_delete_documents_through_each_dialect(client: httpx.Client, keys):
    for dialect in STORES:
        document = store(client, dialect, keys["ann"])
        url = str(document.read.url).removesuffix("/result")
        query = {"document_key": document.key} if dialect == "deepl" else {}
        request_headers = headers(dialect, keys["ann"])
        assert client.delete(url, params=query, headers=request_headers).status_code == 204
        assert client.send(document.read).status_code == 404


def test_log_and_metrics_contain_no_document_ids_or_keys(client, server, keys, tmp_path):
    documents = [store(client, dialect, keys["ann"]) for dialect in STORES]
    form = {"source": "en", "target": "de"}
    broken = {"file": ("broken.docx", b"no zip")}
    failed = client.post("/v1/documents", data=form, files=broken, headers=headers("v1", keys["ann"]))

    def log() -> str:
        return server.log.read_text(encoding="utf-8").lower()

    eventually(lambda: '"document refused"' in log() and '"document done"' in log())
    output = log() + client.get("/metrics").text
    for secret in [
        failed.json()["id"],
        *(part for document in documents for part in (document.id, document.key) if part),
    ]:
        assert secret.lower() not in output

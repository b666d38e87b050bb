"""Stored glossaries and documents in the v1 API of the server."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from running_server import RunningServer, running_server

import uwaga
from uwaga_server.auth import add_key

WORDS = {"name": "Words", "dictionaries": [{"source": "en", "target": "de", "entries": {"car": "Karosse"}}]}
LINES = ["A man sleeps.", "The weather is nice today.", "I want to buy a car."]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("server")
    keys = {name: add_key(folder / "keys.json", name) for name in ("ann", "bob")}
    keys["poor"] = add_key(folder / "keys.json", "poor", characters=20)
    (folder / "issued").write_text("\n".join(keys.values()))
    settings = {"state": str(folder / "state")}
    with running_server(folder, keys=str(folder / "keys.json"), **settings) as running:
        yield running


@pytest.fixture(scope="module")
def clients(server: RunningServer) -> Iterator[list[httpx.Client]]:
    issued = (server.log.parent / "issued").read_text().split()
    opened = [
        httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {key}"}, timeout=60)
        for key in issued
    ]
    yield opened
    for client in opened:
        client.close()


def test_glossary_is_created_changed_and_deleted(clients: list[httpx.Client]):
    ann, bob, _ = clients
    created = ann.post("/v1/glossaries", json=WORDS)
    assert created.status_code == 201
    path = f"/v1/glossaries/{created.json()['id']}"
    [dictionary] = ann.get(path).json()["dictionaries"]
    assert dictionary == {"source": "en", "target": "de", "count": 1, "entries": {"car": "Karosse"}}
    changes = {
        "name": "Other",
        "dictionaries": [{**WORDS["dictionaries"][0], "entries": {"man": ["Kerl", "Mann"]}}],
    }
    assert ann.patch(path, json=changes).json()["name"] == "Other"
    assert ann.get(path).json()["dictionaries"][0]["entries"] == {"man": ["Kerl", "Mann"]}
    assert [glossary["id"] for glossary in ann.get("/v1/glossaries").json()["glossaries"]] == [
        created.json()["id"]
    ]
    assert bob.get(path).status_code == bob.delete(path).status_code == 404
    assert bob.get("/v1/glossaries").json() == {"glossaries": []}
    assert ann.delete(path).status_code == 204
    assert ann.get(path).json()["error"]["code"] == "not_found"


def test_stored_glossary_is_applied_for_its_owner(clients: list[httpx.Client]):
    ann, bob, _ = clients
    glossary_id = ann.post("/v1/glossaries", json=WORDS).json()["id"]
    body = {"text": LINES[2], "source": "en", "target": "de", "glossary_id": glossary_id}
    assert "Karosse" in ann.post("/v1/translate", json=body).json()["translations"][0]["text"]
    assert bob.post("/v1/translate", json=body).status_code == 404
    for invalid in ({"source": "auto"}, {"glossary": {"a": "b"}}, {"glossary_id": "../x"}):
        assert ann.post("/v1/translate", json={**body, **invalid}).status_code in (400, 404)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"name": "", "dictionaries": WORDS["dictionaries"]}, 422, "invalid_request"),
        ({"name": "x", "dictionaries": []}, 422, "invalid_request"),
        ({**WORDS, "name": "a\tb"}, 400, "invalid_text"),
        ({"name": "x", "dictionaries": [{"source": "en", "target": "en", "entries": {"a": "b"}}]}, 400, None),
        ({"name": "x", "dictionaries": [{"source": "../", "target": "de", "entries": {"a": "b"}}]}, 400,
         None),
        ({"name": "x", "dictionaries": [{"source": "en", "target": "de", "entries": {" ": "b"}}]}, 400, None),
        ({"name": "x", "dictionaries": [{"source": "en", "target": "de", "entries": {"a": []}}]}, 400, None),
    ],
)  # fmt: skip
def test_invalid_glossaries_are_refused(clients: list[httpx.Client], body, status: int, code: str | None):
    response = clients[0].post("/v1/glossaries", json=body)
    assert response.status_code == status
    assert code in (None, response.json()["error"]["code"])


def wait_until_ended(client: httpx.Client, path: str) -> dict[str, object]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        status = client.get(path).json()
        if status["state"] in ("done", "failed"):
            return status
        time.sleep(0.05)
    raise AssertionError("the document was not done in time")


def test_untranslated_texts_of_documents_are_counted_by_reason(clients: list[httpx.Client]):
    files = {"file": ("a.html", "<p>Two men are running.</p><pre>code here</pre>")}
    created = clients[0].post("/v1/documents", data={"source": "en", "target": "de"}, files=files)
    status = wait_until_ended(clients[0], f"/v1/documents/{created.json()['id']}")
    assert (status["of"], status["untranslated"]) == (1, {"code and forms": 1})


@pytest.mark.parametrize(
    ("name", "content", "status", "code"),
    [
        ("a.txt", "The dog is small, and the weather is nice.", 200, "en"),
        ("a.html", "<title>1</title><p>The dog is small,</p><p>and the weather is nice.</p>", 200, "en"),
        ("a.txt", "1, 2, 3", 200, None),
        ("a.docx", "no archive", 200, None),
        ("a.json", "{no", 200, None),
        ("a.png", "The dog is small.", 400, "unsupported_format"),
    ],
)
def test_language_of_a_document_is_detected_without_storing_it(
    clients: list[httpx.Client], name: str, content: str, status: int, code: str | None
):
    answer = clients[0].post("/v1/documents/detect", files={"file": (name, content)})
    assert answer.status_code == status
    if status != 200:
        assert answer.json()["error"]["code"] == code
        return
    [detection] = answer.json()["detections"]
    assert (detection and detection["code"]) == code
    if name == "a.txt":
        [same] = clients[0].post("/v1/detect", json={"text": content}).json()["detections"]
        assert detection == same


def test_damaged_documents_are_distinguished_from_documents_with_invalid_texts(clients: list[httpx.Client]):
    for name, content, code in (("a.docx", "no archive", "damaged_file"), ("a.json", "{no", "invalid_text")):
        created = clients[0].post("/v1/documents", data={"target": "de"}, files={"file": (name, content)})
        status = wait_until_ended(clients[0], f"/v1/documents/{created.json()['id']}")
        assert (status["state"], status["error"]["code"]) == ("failed", code)


def test_document_is_uploaded_translated_and_deleted(clients: list[httpx.Client]):
    ann, bob, _ = clients
    glossary = ann.post("/v1/glossaries", json=WORDS).json()["id"]
    fields = {"source": "en", "target": "de", "glossary_id": glossary}
    created = ann.post("/v1/documents", data=fields, files={"file": ("ä/../letter.txt", "\n\n".join(LINES))})
    assert created.status_code == 202
    path = f"/v1/documents/{created.json()['id']}"
    status = wait_until_ended(ann, path)
    assert (status["state"], status["done"], status["of"], status["characters"]) == (
        "done", 3, 3, sum(map(len, LINES)),
    )  # fmt: skip
    assert status["untranslated"] == {}
    result = ann.get(f"{path}/result")
    expected = uwaga.Translator.load(threads=1).translate(LINES, glossary={"car": "Karosse"})
    assert result.text == "\n\n".join(translation.text for translation in expected)
    assert "letter.txt" in result.headers["content-disposition"]
    assert bob.get(path).status_code == bob.get(f"{path}/result").status_code == 404
    assert ann.delete(path).status_code == 204
    assert ann.get(path).status_code == 404


@pytest.mark.parametrize("source", ["en", "fr"])
def test_glossary_applies_to_a_document_whose_language_is_detected(clients: list[httpx.Client], source: str):
    ann = clients[0]
    words = {"name": "Words", "dictionaries": [{**WORDS["dictionaries"][0], "source": source}]}
    fields = {"target": "de", "glossary_id": ann.post("/v1/glossaries", json=words).json()["id"]}
    created = ann.post("/v1/documents", data=fields, files={"file": ("letter.txt", "\n\n".join(LINES))})
    path = f"/v1/documents/{created.json()['id']}"
    assert wait_until_ended(ann, path)["state"] == "done"
    assert ("Karosse" in ann.get(f"{path}/result").text) == (source == "en")


def test_deepl_document_can_be_deleted_through_either_api(clients: list[httpx.Client]):
    ann, bob, _ = clients
    deepl = {"authorization": ann.headers["authorization"].replace("Bearer", "DeepL-Auth-Key")}
    for by_v1 in (True, False):
        file = {"file": ("letter.txt", "A man sleeps.")}
        created = ann.post("/v2/document", data={"target_lang": "DE"}, files=file, headers=deepl).json()
        path, key = f"/v2/document/{created['document_id']}", {"document_key": created["document_key"]}
        assert bob.delete(f"/v1/documents/{created['document_id']}").status_code == 404
        assert ann.delete(path, params={"document_key": "0"}, headers=deepl).status_code == 404
        if by_v1:
            assert ann.delete(f"/v1/documents/{created['document_id']}").status_code == 204
        else:
            assert ann.delete(path, params=key, headers=deepl).status_code == 204
        assert ann.post(path, json=key, headers=deepl).status_code == 404


@pytest.mark.parametrize(
    ("fields", "name", "status", "code"),
    [
        ({"target": "de"}, "x.exe", 400, "unsupported_format"),
        ({"target": "de"}, "", 400, None),
        ({"target": "tlh"}, "x.txt", 400, "unsupported_language"),
        ({"source": "de", "target": "en"}, "x.txt", 400, "unsupported_languages"),
        ({"source": "de", "target": "de"}, "x.txt", 400, "equal_languages"),
        ({"target": "de", "glossary_id": "x"}, "x.txt", 404, "not_found"),
        ({"source": "en", "target": "de", "glossary_id": "x"}, "x.txt", 404, "not_found"),
        ({"target": "de", "more": "x"}, "x.txt", 400, "invalid_request"),
        ({}, "x.txt", 400, "invalid_request"),
    ],
)
def test_invalid_documents_are_refused(clients: list[httpx.Client], fields, name, status, code):
    response = clients[0].post("/v1/documents", data=fields, files={"file": (name, b"A man.")})
    assert response.status_code == status
    assert code in (None, response.json()["error"]["code"])


def test_documents_and_texts_beyond_the_quota_are_refused(clients: list[httpx.Client]):
    poor = clients[2]
    created = poor.post("/v1/documents", data={"target": "de"}, files={"file": ("x.txt", "\n\n".join(LINES))})
    assert created.json()["error"]["code"] == "quota_exceeded", created.text
    body = {"text": ["A man sleeps."], "target_lang": "DE", "source_lang": "EN"}
    key = {"authorization": poor.headers["authorization"].replace("Bearer", "DeepL-Auth-Key")}
    assert poor.post("/v2/translate", json=body, headers=key).status_code == 200
    refused = poor.post("/v2/translate", json=body, headers=key)
    assert (refused.status_code, refused.json()["message"][:14]) == (456, "Quota exceeded")
    assert poor.get("/v2/usage", headers=key).json()["character_count"] == 13
    assert poor.post("/v2/translate", json={**body, "text": ["1234567"]}, headers=key).status_code == 200
    file = {"file": ("x.txt", b"A man.")}
    assert poor.post("/v2/document", data={"target_lang": "DE"}, files=file, headers=key).status_code == 456


def test_missing_or_wrong_api_keys_are_refused_in_deepl_requests(server: RunningServer):
    body = {"text": ["A man."], "target_lang": "DE"}
    for headers in ({}, {"authorization": "DeepL-Auth-Key wrong"}, {"authorization": "Bearer wrong"}):
        response = server.post("/v2/translate", json=body, headers=headers)
        assert response.status_code == 403
        assert set(response.json()) == {"message", "code"}
    assert response.headers["x-trace-id"] == response.headers["x-request-id"]


def test_local_server_stores_documents_until_it_stops(tmp_path: Path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    with running_server(tmp_path) as server, httpx.Client(base_url=server.url) as client:
        glossary = client.post("/v1/glossaries", json=WORDS).json()["id"]
        data = {"source": "en", "target": "de", "glossary_id": glossary}
        created = client.post("/v1/documents", data=data, files={"file": ("x.txt", LINES[2])})
        path = f"/v1/documents/{created.json()['id']}"
        assert wait_until_ended(client, path)["state"] == "done"
        assert "Karosse" in client.get(f"{path}/result").text
        [folder] = temporary.glob("uwaga-state-*")
        assert folder.stat().st_mode & 0o077 == 0
        server.stop()
    assert not folder.exists()


@pytest.mark.slow
def test_public_server_without_a_state_folder_stores_nothing(tmp_path: Path):
    with running_server(tmp_path, host="0.0.0.0") as server:
        assert server.get("/v1/glossaries").status_code == 501
        assert server.get("/v2/glossaries").status_code == 400
        response = server.post("/v1/documents", data={"target": "de"}, files={"file": ("x.txt", "A.")})
        assert (response.status_code, response.json()["error"]["code"]) == (501, "not_available")
        assert "--state FOLDER" in response.json()["error"]["message"]
        response = server.post("/translate_file", files={"file": ("x.txt", "A.")})
        assert response.status_code == 403
        assert response.json() == {"error": "Files translation are disabled on this server."}


@pytest.mark.slow
def test_document_is_resumed_after_the_server_is_killed(tmp_path: Path):
    settings = {"state": str(tmp_path / "state")}
    lines = [f"{line} {number}" for number in range(300) for line in LINES]
    with running_server(tmp_path, **settings) as server:
        created = server.post(
            "/v1/documents",
            data={"source": "en", "target": "de"},
            files={"file": ("long.txt", "\n\n".join(lines))},
        )
        path = f"/v1/documents/{created.json()['id']}"
        deadline = time.monotonic() + 60
        while not httpx.get(server.url + path).json()["done"] and time.monotonic() < deadline:
            time.sleep(0.02)
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    with running_server(tmp_path, **settings) as server:
        status = httpx.get(server.url + path).json()
        assert (status["state"], status["done"] > 0) == ("running", True)
        with httpx.Client(base_url=server.url) as client:
            assert wait_until_ended(client, path)["state"] == "done"
            translations = client.get(f"{path}/result").text.split("\n\n")
        assert len(translations) == len(lines)
        assert translations[: len(LINES)] == [
            translation.text
            for translation in uwaga.Translator.load(threads=1).translate(lines[: len(LINES)])
        ]

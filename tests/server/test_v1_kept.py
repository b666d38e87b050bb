"""What the server keeps for clients of its own dialect: glossaries, documents."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from running_server import RunningServer, running_server

import uwaga
from uwaga.server.auth import add_key

WORDS = {"name": "Words", "dictionaries": [{"source": "en", "target": "de", "entries": {"car": "Karosse"}}]}
LINES = ["A man sleeps.", "The weather is nice today.", "I want to buy a car."]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("server")
    keys = {name: add_key(folder / "keys.json", name) for name in ("ann", "bob")}
    keys["poor"] = add_key(folder / "keys.json", "poor", characters=20)
    (folder / "issued").write_text("\n".join(keys.values()))
    kept = {"state": str(folder / "state")}
    with running_server(folder, keys=str(folder / "keys.json"), **kept) as running:
        yield running


@pytest.fixture(scope="module")
def clients(server: RunningServer) -> Iterator[list[httpx.Client]]:
    issued = (server.log.parent / "issued").read_text().split()
    made = [
        httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {key}"}, timeout=60)
        for key in issued
    ]
    yield made
    for one in made:
        one.close()


def test_a_glossary_is_made_told_changed_and_deleted(clients: list[httpx.Client]):
    ann, bob, _ = clients
    made = ann.post("/v1/glossaries", json=WORDS)
    assert made.status_code == 201
    place = f"/v1/glossaries/{made.json()['id']}"
    [told] = ann.get(place).json()["dictionaries"]
    assert told == {"source": "en", "target": "de", "count": 1, "entries": {"car": "Karosse"}}
    changed = {
        "name": "Other",
        "dictionaries": [{**WORDS["dictionaries"][0], "entries": {"man": ["Kerl", "Mann"]}}],
    }
    assert ann.patch(place, json=changed).json()["name"] == "Other"
    assert ann.get(place).json()["dictionaries"][0]["entries"] == {"man": ["Kerl", "Mann"]}
    assert [one["id"] for one in ann.get("/v1/glossaries").json()["glossaries"]] == [made.json()["id"]]
    assert bob.get(place).status_code == bob.delete(place).status_code == 404
    assert bob.get("/v1/glossaries").json() == {"glossaries": []}
    assert ann.delete(place).status_code == 204
    assert ann.get(place).json()["error"]["code"] == "not_found"


def test_texts_hold_to_a_glossary_that_is_kept(clients: list[httpx.Client]):
    ann, bob, _ = clients
    kept = ann.post("/v1/glossaries", json=WORDS).json()["id"]
    body = {"text": LINES[2], "source": "en", "target": "de", "glossary_id": kept}
    assert "Karosse" in ann.post("/v1/translate", json=body).json()["translations"][0]["text"]
    assert bob.post("/v1/translate", json=body).status_code == 404
    for wrong in ({"source": "auto"}, {"glossary": {"a": "b"}}, {"glossary_id": "../x"}):
        assert ann.post("/v1/translate", json={**body, **wrong}).status_code in (400, 404)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"name": "", "dictionaries": WORDS["dictionaries"]}, 422, "invalid_request"),
        ({"name": "x", "dictionaries": []}, 422, "invalid_request"),
        ({**WORDS, "name": "a\tb"}, 400, "invalid_text"),
        ({"name": "x", "dictionaries": [{"source": "en", "target": "en", "entries": {"a": "b"}}]}, 400, None),
        (
            {"name": "x", "dictionaries": [{"source": "../", "target": "de", "entries": {"a": "b"}}]},
            400,
            None,
        ),
        ({"name": "x", "dictionaries": [{"source": "en", "target": "de", "entries": {" ": "b"}}]}, 400, None),
        ({"name": "x", "dictionaries": [{"source": "en", "target": "de", "entries": {"a": []}}]}, 400, None),
    ],
)
def test_glossaries_that_cannot_be_are_refused(
    clients: list[httpx.Client], body, status: int, code: str | None
):
    answer = clients[0].post("/v1/glossaries", json=body)
    assert answer.status_code == status
    assert code in (None, answer.json()["error"]["code"])


def wait_until_ended(client: httpx.Client, place: str) -> dict[str, object]:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        told = client.get(place).json()
        if told["state"] in ("done", "failed"):
            return told
        time.sleep(0.05)
    raise AssertionError("the document was not done in time")


def test_a_document_is_translated_told_of_and_deleted(clients: list[httpx.Client]):
    ann, bob, _ = clients
    glossary = ann.post("/v1/glossaries", json=WORDS).json()["id"]
    said = {"source": "en", "target": "de", "glossary_id": glossary}
    sent = ann.post("/v1/documents", data=said, files={"file": ("ä/../letter.txt", "\n\n".join(LINES))})
    assert sent.status_code == 202
    place = f"/v1/documents/{sent.json()['id']}"
    told = wait_until_ended(ann, place)
    assert (told["state"], told["done"], told["of"], told["characters"]) == (
        "done",
        3,
        3,
        sum(map(len, LINES)),
    )
    result = ann.get(f"{place}/result")
    own = uwaga.Translator.load(threads=1).translate(LINES, glossary={"car": "Karosse"})
    assert result.text == "\n\n".join(one.text for one in own)
    assert "letter.txt" in result.headers["content-disposition"]
    assert bob.get(place).status_code == bob.get(f"{place}/result").status_code == 404
    assert ann.delete(place).status_code == 204
    assert ann.get(place).status_code == 404


def test_a_document_of_deepls_api_is_deleted_there_or_by_v1(clients: list[httpx.Client]):
    ann, bob, _ = clients
    deepl = {"authorization": ann.headers["authorization"].replace("Bearer", "DeepL-Auth-Key")}
    for by_v1 in (True, False):
        file = {"file": ("letter.txt", "A man sleeps.")}
        sent = ann.post("/v2/document", data={"target_lang": "DE"}, files=file, headers=deepl).json()
        place, key = f"/v2/document/{sent['document_id']}", {"document_key": sent["document_key"]}
        assert bob.delete(f"/v1/documents/{sent['document_id']}").status_code == 404
        assert ann.delete(place, params={"document_key": "0"}, headers=deepl).status_code == 404
        if by_v1:
            assert ann.delete(f"/v1/documents/{sent['document_id']}").status_code == 204
        else:
            assert ann.delete(place, params=key, headers=deepl).status_code == 204
        assert ann.post(place, json=key, headers=deepl).status_code == 404


@pytest.mark.parametrize(
    ("said", "name", "status", "code"),
    [
        ({"target": "de"}, "x.exe", 400, "unsupported_format"),
        ({"target": "de"}, "", 400, None),
        ({"target": "tlh"}, "x.txt", 400, "unsupported_language"),
        ({"source": "de", "target": "en"}, "x.txt", 400, "unsupported_languages"),
        ({"target": "de", "glossary_id": "x"}, "x.txt", 400, "source_missing"),
        ({"source": "en", "target": "de", "glossary_id": "x"}, "x.txt", 404, "not_found"),
        ({"target": "de", "more": "x"}, "x.txt", 400, "invalid_request"),
        ({}, "x.txt", 400, "invalid_request"),
    ],
)
def test_documents_that_cannot_be_are_refused(clients: list[httpx.Client], said, name, status, code):
    answer = clients[0].post("/v1/documents", data=said, files={"file": (name, b"A man.")})
    assert answer.status_code == status
    assert code in (None, answer.json()["error"]["code"])


def test_a_document_beyond_what_the_key_may_use_is_not_translated(clients: list[httpx.Client]):
    poor = clients[2]
    sent = poor.post("/v1/documents", data={"target": "de"}, files={"file": ("x.txt", "\n\n".join(LINES))})
    told = wait_until_ended(poor, f"/v1/documents/{sent.json()['id']}")
    assert (told["state"], told["error"]["code"]) == ("failed", "quota_exceeded")
    body = {"text": ["A man sleeps."], "target_lang": "DE", "source_lang": "EN"}
    key = {"authorization": poor.headers["authorization"].replace("Bearer", "DeepL-Auth-Key")}
    assert poor.post("/v2/translate", json=body, headers=key).status_code == 200
    refused = poor.post("/v2/translate", json=body, headers=key)
    assert (refused.status_code, refused.json()["message"][:14]) == (456, "Quota exceeded")
    assert poor.get("/v2/usage", headers=key).json()["character_count"] == 13
    assert poor.post("/v2/translate", json={**body, "text": ["1234567"]}, headers=key).status_code == 200
    file = {"file": ("x.txt", b"A man.")}
    assert poor.post("/v2/document", data={"target_lang": "DE"}, files=file, headers=key).status_code == 456


def test_keys_of_deepl(server: RunningServer):
    body = {"text": ["A man."], "target_lang": "DE"}
    for headers in ({}, {"authorization": "DeepL-Auth-Key wrong"}, {"authorization": "Bearer wrong"}):
        answer = httpx.post(f"{server.url}/v2/translate", json=body, headers=headers)
        assert answer.status_code == 403
        assert set(answer.json()) == {"message", "code"}
    assert answer.headers["x-trace-id"] == answer.headers["x-request-id"]


def test_a_server_that_keeps_nothing_says_so(tmp_path: Path):
    with running_server(tmp_path) as server:
        assert httpx.get(f"{server.url}/v1/glossaries").status_code == 501
        assert httpx.get(f"{server.url}/v2/glossaries").status_code == 400
        answer = httpx.post(
            f"{server.url}/v1/documents", data={"target": "de"}, files={"file": ("x.txt", "A.")}
        )
        assert (answer.status_code, answer.json()["error"]["code"]) == (501, "not_available")


@pytest.mark.slow
def test_a_document_outlives_its_server(tmp_path: Path):
    kept = {"state": str(tmp_path / "state")}
    lines = [f"{one} {number}" for number in range(600) for one in LINES]
    with running_server(tmp_path, **kept) as server:
        sent = httpx.post(
            f"{server.url}/v1/documents",
            data={"source": "en", "target": "de"},
            files={"file": ("long.txt", "\n\n".join(lines))},
        )
        place = f"/v1/documents/{sent.json()['id']}"
        until = time.monotonic() + 60
        while not httpx.get(server.url + place).json()["done"] and time.monotonic() < until:
            time.sleep(0.02)
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    with running_server(tmp_path, **kept) as server:
        begun = httpx.get(server.url + place).json()
        assert (begun["state"], begun["done"] > 0) == ("running", True)
        with httpx.Client(base_url=server.url) as client:
            assert wait_until_ended(client, place)["state"] == "done"
            made = client.get(f"{place}/result").text.split("\n\n")
        assert len(made) == len(lines)
        assert made[: len(LINES)] == [
            one.text for one in uwaga.Translator.load(threads=1).translate(lines[: len(LINES)])
        ]

"""The server's own dialect, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from running_server import RunningServer, running_server

import uwaga

TEXTS = ["The weather is nice today.", "I want to buy a car.", "A man sleeps."]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def translator() -> uwaga.Translator:
    return uwaga.Translator.load(threads=1)


def test_texts_are_the_translators_own(server: RunningServer, translator: uwaga.Translator):
    answer = httpx.post(f"{server.url}/v1/translate", json={"text": TEXTS, "source": "en", "target": "de"})
    assert answer.status_code == 200
    made = answer.json()["translations"]
    assert [one["text"] for one in made] == [one.text for one in translator.translate(TEXTS)]
    assert answer.json()["model"] == "bundled"


def test_one_text_that_is_no_list(server: RunningServer, translator: uwaga.Translator):
    answer = httpx.post(f"{server.url}/v1/translate", json={"text": TEXTS[0], "target": "de"}).json()
    assert answer["translations"][0]["text"] == translator.translate(TEXTS[0]).text
    assert answer["translations"][0]["detected_source"]["code"] == "en"


def test_languages(server: RunningServer):
    found = httpx.get(f"{server.url}/v1/languages").json()
    assert found == {"languages": [{"code": "en", "name": "English", "targets": ["de"]}]}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"no json", 400, "not_json"),
        (b'{"text": 3, "target": "de"}', 422, "invalid_request"),
        (b'{"text": "a"}', 422, "invalid_request"),
        (b'{"text": "a", "target": "de", "beams": 3}', 422, "invalid_request"),
        (b'{"text": "a", "target": "tlh"}', 400, "unsupported_language"),
        (b'{"text": "a", "source": "de", "target": "en"}', 400, "unsupported_languages"),
    ],
)
def test_bad_bodies_are_told(server: RunningServer, body: bytes, status: int, code: str):
    headers = {"content-type": "application/json", "x-request-id": "here-1"}
    answer = httpx.post(f"{server.url}/v1/translate", content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.json()["error"]["request_id"] == answer.headers["x-request-id"] == "here-1"


def test_10_megabytes_are_refused(server: RunningServer):
    answer = httpx.post(f"{server.url}/v1/translate", json={"text": "a " * 5_000_000, "target": "de"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


def test_unknown_paths_and_methods(server: RunningServer):
    assert httpx.get(f"{server.url}/v1/nothing").status_code == 404
    assert httpx.get(f"{server.url}/v1/translate").status_code == 405
    assert httpx.get(f"{server.url}/v1/translate").headers["allow"] == "POST"

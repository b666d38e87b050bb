"""The LibreTranslate dialect: requests of its unmodified client, and those in its documentation."""

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from urllib.error import HTTPError

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI
from running_server import RunningServer, running_server

import uwaga
from uwaga_server.auth import add_key

pytest_plugins = "server_fixtures"

TEXTS = ["The weather is nice today.", "I want to buy a car."]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("server")
    with running_server(folder, suggestions=str(folder / "suggestions.jsonl")) as running:
        yield running


def post(server: RunningServer, path: str, **fields: object) -> httpx.Response:
    return server.post(path, json=fields)


def test_official_libretranslate_client_translates_and_detects(server, translator):
    client = LibreTranslateAPI(server.url)
    assert client.translate(TEXTS[0], "en", "de") == translator.translate(TEXTS[0]).text
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]
    [detection] = client.detect("This is certainly an English sentence.")
    assert detection["language"] == "en"
    assert 50 < detection["confidence"] <= 100


def test_list_of_texts_is_translated(server: RunningServer, translator: uwaga.Translator):
    body = post(server, "/translate", q=TEXTS, source="auto", target="de", alternatives=2).json()
    assert body["translatedText"] == [translation.text for translation in translator.translate(TEXTS)]
    assert [detection["language"] for detection in body["detectedLanguage"]] == ["en", "en"]
    assert [len(texts) for texts in body["alternatives"]] == [2, 2]
    assert not any(
        text in alternatives
        for text, alternatives in zip(body["translatedText"], body["alternatives"], strict=True)
    )


def test_html_is_translated_with_its_tags(server: RunningServer, translator: uwaga.Translator):
    text = "<p>The <b>weather</b> is nice today.</p>"
    body = post(server, "/translate", q=text, source="en", target="de", format="html").json()
    assert body == {"translatedText": translator.translate(text, format="html").text}


def test_forms_and_query_parameters_are_accepted(server: RunningServer, translator: uwaga.Translator):
    expected = {"translatedText": translator.translate(TEXTS[0]).text}
    fields = {"q": TEXTS[0], "source": "en", "target": "de"}
    assert server.post("/translate", data=fields).json() == expected
    assert server.post("/translate", params=fields).json() == expected
    parts = {name: (None, value) for name, value in fields.items()}
    assert server.post("/translate", files=parts).json() == expected


def test_texts_that_need_no_translation_are_returned_unchanged(server: RunningServer):
    german = "Das Wetter ist heute wirklich sehr schön und ich gehe spazieren."
    body = post(server, "/translate", q=german, source="auto", target="de").json()
    assert body["translatedText"] == german
    assert body["detectedLanguage"]["language"] == "de"
    assert (
        post(server, "/translate", q="🙂 12", source="auto", target="de").json()["translatedText"] == "🙂 12"
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"source": "en", "target": "de"}, "missing q parameter"),
        ({"q": "a", "target": "de"}, "missing source parameter"),
        ({"q": "a", "source": "en"}, "missing target parameter"),
        ({"q": "a", "source": "en", "target": "tlh"}, "tlh"),
        ({"q": "a", "source": "en", "target": "de", "format": "pdf"}, "pdf format is not supported"),
        ({"q": "a", "source": "en", "target": "de", "alternatives": "x"}, "not a number"),
        ({"q": "a", "source": "en", "target": "de", "alternatives": 99}, "must be <="),
        ({"q": [1], "source": "en", "target": "de"}, "q must be"),
        ({"q": "a" * 200_000, "source": "en", "target": "de"}, "Invalid request"),
    ],
)
def test_errors_have_the_libretranslate_format(server, fields, message):
    response = post(server, "/translate", **fields)
    assert response.status_code == 400
    assert list(response.json()) == ["error"]
    assert message in response.json()["error"]


@pytest.mark.parametrize("body", [b"{", b"[1]", b"\xff", b'"q"'])
def test_bodies_that_are_not_json_objects_are_refused(server: RunningServer, body: bytes):
    response = server.post("/translate", content=body, headers={"content-type": "application/json"})
    assert (response.status_code, list(response.json())) == (400, ["error"])


def test_suggested_translations_are_stored(server: RunningServer, tmp_path_factory: pytest.TempPathFactory):
    suggestion = {"q": "Hello", "s": "Hallo", "source": "en", "target": "de"}
    assert post(server, "/suggest", **suggestion).json() == {"success": True}
    [line] = (server.log.parent / "suggestions.jsonl").read_text(encoding="utf-8").splitlines()
    assert json.loads(line).items() >= suggestion.items()


def test_settings_health_metrics_and_api_description_are_served(server: RunningServer):
    settings = server.get("/frontend/settings").json()
    assert settings["charLimit"] == 100_000
    assert settings["suggestions"] is True
    assert settings["language"]["source"] == {"code": "en", "name": "English"}
    assert server.get("/health").json()["status"] == "ok"
    metrics = server.get("/metrics").text
    assert 'uwaga_requests_total{route="/translate",status="200"}' in metrics
    samples = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))
    steps, rows, sentences = (
        float(samples[f'uwaga_{name}_total{{model="bundled"}}'])
        for name in ("batch_steps", "batch_rows", "sentences")
    )
    assert rows >= steps >= 1 <= sentences
    assert "/translate" in server.get("/spec").json()["paths"]


@pytest.mark.slow
def test_api_keys_in_the_request_body_are_checked(tmp_path: Path):
    keys = tmp_path / "keys.json"
    key = add_key(keys, "ann", requests_per_minute=3)
    with running_server(tmp_path, keys=str(keys)) as server:
        fields = {"q": "Hello!", "source": "en", "target": "de"}
        missing = post(server, "/translate", **fields)
        assert (missing.status_code, "API key" in missing.json()["error"]) == (400, True)
        wrong = post(server, "/translate", **fields, api_key=key[:-1] + "!")
        assert (wrong.status_code, wrong.json()) == (403, {"error": "Invalid API key"})
        client = LibreTranslateAPI(server.url, key)
        for _ in range(3):
            client.translate("Hello!", "en", "de")
        with pytest.raises(HTTPError) as refused:
            client.translate("Hello!", "en", "de")
        assert refused.value.code == 429
        assert int(refused.value.headers["Retry-After"]) > 0
        assert "Slowdown" in json.loads(refused.value.read())["error"]


@pytest.mark.parametrize("with_keys", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_file_is_translated_and_downloaded(tmp_path, shared_server, translator, with_keys):
    keys = tmp_path / "keys.json"
    key = {"api_key": add_key(keys, "ann b".replace(" ", "."))} if with_keys else {}
    settings = {"state": str(tmp_path / "state"), "keys": str(keys)}
    with running_server(tmp_path, **settings) if with_keys else nullcontext(shared_server) as server:
        file = {"file": ("../../of me.txt", "\n".join(TEXTS).encode())}
        fields = {"source": "en", "target": "de", **key}
        created = server.post("/translate_file", data=fields, files=file)
        assert created.status_code == 200, created.text
        response = httpx.get(created.json()["translatedFileUrl"])
        assert response.text == "\n".join(translation.text for translation in translator.translate(TEXTS))
        assert "of%20me.txt" in response.headers["content-disposition"]
        assert ".." not in response.headers["content-disposition"]
        formats = server.get("/frontend/settings").json()["supportedFilesFormat"]
        assert {".txt", ".docx", ".srt"} <= set(formats)
        auto = {**fields, "source": "auto"}
        assert server.post("/translate_file", data=auto, files=file).status_code == 200
        for invalid_file in (
            {"file": ("a.exe", b"x")},
            {"file": ("a.docx", b"no zip")},
            {"other": ("a.txt", b"x")},
        ):
            refused = server.post("/translate_file", data=fields, files=invalid_file)
            assert (refused.status_code, list(refused.json())) == (400, ["error"])
        assert httpx.delete(created.json()["translatedFileUrl"]).status_code == 204
        assert httpx.get(created.json()["translatedFileUrl"]).status_code == 404
        for name in ("x", "..%2f..%2fetc%2fpasswd", "0" * 32 + ".txt"):
            assert server.get(f"/download_file/{name}").status_code == 404

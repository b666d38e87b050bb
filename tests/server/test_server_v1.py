"""The v1 API of the server over HTTP."""

import asyncio
import json
import time

import httpx
import pytest
from running_server import RunningServer

import uwaga

pytest_plugins = "server_fixtures"

TEXTS = ["The weather is nice today.", "I want to buy a car.", "A man sleeps."]


def test_v1_translations_match_python_api(server: RunningServer, translator: uwaga.Translator):
    response = server.post("/v1/translate", json={"text": TEXTS, "source": "en", "target": "de"})
    assert response.status_code == 200
    translations = response.json()["translations"]
    assert [translation["text"] for translation in translations] == [
        translation.text for translation in translator.translate(TEXTS)
    ]
    assert response.json()["model"] == "bundled"


def test_empty_list_of_texts_is_accepted(server: RunningServer):
    response = server.post("/v1/translate", json={"text": [], "source": "en", "target": "de"})
    assert (response.status_code, response.json()["translations"]) == (200, [])


def test_v1_translates_a_single_text(server: RunningServer, translator: uwaga.Translator):
    body = server.post("/v1/translate", json={"text": TEXTS[0], "target": "de"}).json()
    assert body["translations"][0]["text"] == translator.translate(TEXTS[0]).text
    assert body["translations"][0]["detected_source"]["code"] == "en"


def test_languages_are_listed(server: RunningServer):
    body = server.get("/v1/languages").json()
    assert body == {"languages": [{"code": "en", "name": "English", "targets": ["de"], "detected": True}]}


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"no json", 400, "not_json"),
        (b'{"text": 3, "target": "de"}', 422, "invalid_request"),
        (b'{"text": "a"}', 422, "invalid_request"),
        (b'{"text": "a", "target": "de", "beams": 3}', 422, "invalid_request"),
        (b'{"text": "a", "target": "de", "coverage": 0}', 422, "invalid_request"),
        (b'{"text": "a", "target": "tlh"}', 400, "unsupported_language"),
        (b'{"text": "a", "source": "de", "target": "en"}', 400, "unsupported_languages"),
    ],
)
def test_invalid_bodies_are_refused(server: RunningServer, body: bytes, status: int, code: str):
    headers = {"content-type": "application/json", "x-request-id": "here-1"}
    response = server.post("/v1/translate", content=body, headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert response.json()["error"]["request_id"] == response.headers["x-request-id"] == "here-1"


def test_oversized_body_is_refused(server: RunningServer):
    response = server.post("/v1/translate", json={"text": "a " * 5_000_000, "target": "de"})
    assert (response.status_code, response.json()["error"]["code"]) == (413, "body_too_large")


def test_unknown_paths_and_methods_are_refused(server: RunningServer):
    assert server.get("/v1/nothing").status_code == 404
    assert "/v1/translate" in server.get("/docs").text
    assert server.get("/v1/translate").status_code == 405
    assert server.get("/v1/translate").headers["allow"] == "POST"


def events(server: RunningServer, **body: object) -> list[tuple[str, dict[str, object]]]:
    received = []
    with httpx.stream("POST", f"{server.url}/v1/translate", json={**body, "stream": True}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        for line in response.iter_lines():
            if line.startswith("event: "):
                received.append((line.removeprefix("event: "), {}))
            elif line.startswith("data: "):
                received[-1] = received[-1][0], json.loads(line.removeprefix("data: "))
    return received


def test_stream_sends_pieces_and_a_final_event(server: RunningServer, translator: uwaga.Translator):
    greedy = translator.translate(TEXTS[0], beam=1)
    *pieces, (name, final) = events(server, text=TEXTS[0], target="de", scores=True, tokens=True)
    assert len(pieces) > 2
    assert {kind for kind, _ in pieces} == {"piece"}
    assert "".join(str(piece["text"]) for _, piece in pieces) == greedy.text
    assert (name, final["text"], final["tokens"]) == ("done", greedy.text, list(greedy.tokens))
    assert final["detected_source"]["code"] == "en"
    assert [word["text"] for word in final["words"]] == [word.text for word in greedy.words]


def test_stream_continues_the_prefix(server: RunningServer, translator: uwaga.Translator):
    *_, (_, final) = events(server, text=TEXTS[0], source="en", target="de", prefix="Heute")
    assert final["text"] == translator.translate(TEXTS[0], beam=1, prefix="Heute").text


def test_drafts_do_not_change_translations(server: RunningServer, translator: uwaga.Translator):
    greedy = [translation.text for translation in translator.translate(TEXTS, beam=1)]

    def draft_metrics() -> dict[str, float]:
        lines = server.get("/metrics").text.splitlines()
        rows = (line.split() for line in lines if line.startswith("uwaga_draft_"))
        return {name.partition("{")[0]: float(value) for name, value in rows if "_created" not in name}

    before = draft_metrics()
    for draft in (greedy, "Das Wetter ist", [greedy[0], "", "Ein"]):
        body = {"text": TEXTS, "source": "en", "target": "de", "draft": draft, "mask": 1}
        content = server.post("/v1/translate", json=body).json()
        assert [translation["text"] for translation in content["translations"]] == greedy
        first_draft = draft if isinstance(draft, str) else draft[0]
        *pieces, (_, final) = events(server, text=TEXTS[0], target="de", draft=first_draft)
        assert "".join(str(piece["text"]) for _, piece in pieces) == final["text"] == greedy[0]
    added = {name: value - before.get(name, 0) for name, value in draft_metrics().items()}
    proposed, accepted, passes = (
        added[f"uwaga_draft_{name}_total"] for name in ("proposed_tokens", "accepted_tokens", "passes")
    )
    assert proposed > accepted > 0 < passes


def test_bias_preserves_the_draft_except_masked_words(server: RunningServer, translator: uwaga.Translator):
    draft, options = "Das Haus ist winzig", {"bias": 0.4999, "split": "never"}
    body = {"text": "The house is small and old.", "source": "en", "target": "de", "draft": draft, **options}
    for mask, prefix in ((0, draft), (1, "Das Haus ist ")):
        [translation] = server.post("/v1/translate", json=body | {"mask": mask}).json()["translations"]
        assert translation["text"] == translator.retranslate(body["text"], draft, mask=mask, **options).text
        assert translation["text"].startswith(prefix)


@pytest.mark.parametrize(
    ("fields", "status", "parameter", "message"),
    [
        ({"draft": ["Ein", "Hund"]}, 400, "draft", "2 drafts for 1 texts"),
        ({"draft": "Ein", "beam": 4}, 400, "beam", "omit beam or draft"),
        ({"draft": "Ein", "nbest": 2}, 400, "nbest", "omit nbest or draft"),
        ({"draft": "Ein", "sample": True}, 400, "sample", "omit sample or draft"),
        ({"draft": "Ein " * 200_000}, 413, "draft", "characters of drafts"),
        ({"draft": "Ein", "bias": 0.5}, 422, "bias", "0.5"),
        ({"draft": "Ein", "mask": -1}, 422, "mask", "0"),
        ({"draft": 3}, 422, "draft", ""),
    ],
)
def test_invalid_drafts_are_refused(server, fields, status, parameter, message):
    response = server.post("/v1/translate", json={"text": "A dog.", "target": "de", **fields})
    error = response.json()["error"]
    assert (response.status_code, error["parameter"].partition(".")[0]) == (status, parameter)
    assert message in error["message"]


def test_stream_applies_the_glossary(server: RunningServer, translator: uwaga.Translator):
    terms = {"dog": "Köter"}
    body = {"text": "A dog runs.", "target": "de", "glossary": terms, "tokens": True}
    (name, piece), (_, final) = events(server, **body, source="en")
    expected = translator.translate("A dog runs.", beam=1, glossary=terms)
    assert (name, piece["text"], final["text"]) == ("piece", expected.text, expected.text)
    assert final["tokens"] == list(expected.tokens)
    assert "Köter" in expected.text


@pytest.mark.parametrize(
    ("fields", "code"),
    [({"nbest": 2}, "no_stream"), ({"text": ["a"]}, "no_stream"), ({"target": "xx"}, "unsupported_language")],
)
def test_invalid_stream_requests_are_refused(server: RunningServer, fields: dict[str, object], code: str):
    response = server.post("/v1/translate", json={"text": "a", "target": "de", "stream": True, **fields})
    assert (response.status_code, response.json()["error"]["code"]) == (400, code)


def test_response_contains_the_requested_parts(server: RunningServer, translator: uwaga.Translator):
    body = {"text": TEXTS[0], "source": "en", "target": "de", "nbest": 3}
    requested = {"tokens": True, "scores": True, "alignment": True, "attention": True}
    [translation] = server.post("/v1/translate", json={**body, **requested}).json()["translations"]
    expected = translator.translate(TEXTS[0], nbest=3, beam=5, alignment=True, attention=True)
    expected_dict = expected.to_dict(confidence=True)
    for name in (
        "text", "tokens", "source_tokens", "token_scores", "words", "confidence", "alignment", "attention",
    ):  # fmt: skip
        assert translation[name] == expected_dict[name], name
    assert [alternative["text"] for alternative in translation["alternatives"]] == [
        alternative.text for alternative in expected.alternatives
    ]


def test_html_format_ignored_tags_and_glossary_are_applied(server, translator):
    url, terms = f"{server.url}/v1/translate", {"car": "Karre"}
    body = {"text": TEXTS[1], "source": "en", "target": "de"}
    [translation] = httpx.post(url, json={**body, "glossary": terms}).json()["translations"]
    expected = translator.translate(TEXTS[1], glossary=terms)
    assert translation["text"] == expected.text
    assert translation["terms"] == [use.to_dict() for use in expected.terms] != []
    assert "Karre" in translation["text"]
    html = "<p>A <b>man</b> sleeps. <code>A man.</code></p>"
    body = {**body, "text": html, "format": "html", "ignore_tags": ["code"]}
    translation = httpx.post(url, json=body).json()["translations"][0]["text"]
    assert translation == translator.translate(html, format="html", ignore_tags=["code"]).text


def test_errors_are_reported_per_text(server: RunningServer, translator: uwaga.Translator):
    texts = [TEXTS[0], "word " * 400, TEXTS[2]]
    body = {"text": texts, "source": "en", "target": "de", "split": "never"}
    first, second, third = server.post("/v1/translate", json=body).json()["translations"]
    assert (first["text"], third["text"]) == tuple(
        translator.translate(text).text for text in (TEXTS[0], TEXTS[2])
    )
    assert (second["text"], second["error"]["code"]) == ("", "text_too_long")


def test_coverage_reports_omitted_words(server: RunningServer):
    body = {"text": "The meeting starts at 9:30 on Monday.", "source": "en", "target": "de"}
    for options in ({}, {"coverage": True}, {"coverage": "unaligned"}):
        [translation] = server.post("/v1/translate", json=body | options).json()["translations"]
        assert translation.get("coverage", {}).get("omitted", []) == (["Monday"] if options else [])


def test_languages_are_detected_and_models_listed(server: RunningServer):
    texts = ["Das ist ein ganz normaler deutscher Satz.", "This is an English sentence.", "12"]
    detections = server.post("/v1/detect", json={"text": texts}).json()["detections"]
    assert [detection and detection["code"] for detection in detections] == ["de", "en", None]
    [model] = server.get("/v1/models").json()["models"]
    assert model == {
        "name": "bundled", "sources": ["en"], "targets": ["de"], "loaded": True, "available": True,
    }  # fmt: skip


def test_concurrent_clients_get_their_own_translations(server: RunningServer, translator: uwaga.Translator):
    sentences = [f"{number} men and {number + 1} dogs are in the park." for number in range(40)]
    expected = [translation.text for translation in translator.translate(sentences)]

    async def translate_all() -> list[str]:
        async with httpx.AsyncClient(timeout=60) as client:
            requests = [
                client.post(f"{server.url}/v1/translate", json={"text": text, "source": "en", "target": "de"})
                for text in sentences
            ]
            return [
                response.json()["translations"][0]["text"] for response in await asyncio.gather(*requests)
            ]

    assert asyncio.run(translate_all()) == expected


def test_texts_are_not_logged(server: RunningServer):
    secret = "Zanzibarquartz"
    server.post(f"/v1/translate?q={secret}", json={"text": secret, "target": "de"})
    server.post("/v1/translate", json={"text": secret, "target": secret})
    server.get(f"/{secret}", headers={"authorization": f"Bearer {secret}"})
    time.sleep(0.1)
    assert secret not in server.log.read_text(encoding="utf-8")

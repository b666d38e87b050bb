"""The server's own dialect, over HTTP."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator

import httpx
import pytest
from running_server import RunningServer, running_server

import uwaga

pytest_plugins = "server_fixtures"

TEXTS = ["The weather is nice today.", "I want to buy a car.", "A man sleeps."]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("server")) as running:
        yield running


def test_texts_are_the_translators_own(server: RunningServer, translator: uwaga.Translator):
    answer = httpx.post(f"{server.url}/v1/translate", json={"text": TEXTS, "source": "en", "target": "de"})
    assert answer.status_code == 200
    made = answer.json()["translations"]
    assert [one["text"] for one in made] == [one.text for one in translator.translate(TEXTS)]
    assert answer.json()["model"] == "bundled"


def test_no_texts_have_no_translations(server: RunningServer):
    answer = httpx.post(f"{server.url}/v1/translate", json={"text": [], "source": "en", "target": "de"})
    assert (answer.status_code, answer.json()["translations"]) == (200, [])


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
        (b'{"text": "a", "target": "de", "coverage": 0}', 422, "invalid_request"),
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
    assert "/v1/translate" in httpx.get(f"{server.url}/docs").text
    assert httpx.get(f"{server.url}/v1/translate").status_code == 405
    assert httpx.get(f"{server.url}/v1/translate").headers["allow"] == "POST"


def events(server: RunningServer, **body: object) -> list[tuple[str, dict[str, object]]]:
    found = []
    with httpx.stream("POST", f"{server.url}/v1/translate", json={**body, "stream": True}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            if line.startswith("event: "):
                found.append((line.removeprefix("event: "), {}))
            elif line.startswith("data: "):
                found[-1] = found[-1][0], json.loads(line.removeprefix("data: "))
    return found


def test_a_stream_is_the_greedy_translation_in_pieces(server: RunningServer, translator: uwaga.Translator):
    greedy = translator.translate(TEXTS[0], beam=1)
    *pieces, (name, done) = events(server, text=TEXTS[0], target="de", scores=True, tokens=True)
    assert len(pieces) > 2
    assert {kind for kind, _ in pieces} == {"piece"}
    assert "".join(str(piece["text"]) for _, piece in pieces) == greedy.text
    assert (name, done["text"], done["tokens"]) == ("done", greedy.text, list(greedy.tokens))
    assert done["detected_source"]["code"] == "en"
    assert [word["text"] for word in done["words"]] == [word.text for word in greedy.words]


def test_a_stream_begins_with_a_prefix(server: RunningServer, translator: uwaga.Translator):
    *_, (_, done) = events(server, text=TEXTS[0], source="en", target="de", prefix="Heute")
    assert done["text"] == translator.translate(TEXTS[0], beam=1, prefix="Heute").text


def test_drafts_leave_translations_as_they_are(server: RunningServer, translator: uwaga.Translator):
    greedy = [one.text for one in translator.translate(TEXTS, beam=1)]

    def figures() -> dict[str, float]:
        lines = httpx.get(f"{server.url}/metrics").text.splitlines()
        rows = (line.split() for line in lines if line.startswith("uwaga_draft_"))
        return {name.partition("{")[0]: float(figure) for name, figure in rows if "_created" not in name}

    before = figures()
    for draft in (greedy, "Das Wetter ist", [greedy[0], "", "Ein"]):
        body = {"text": TEXTS, "source": "en", "target": "de", "draft": draft, "mask": 1}
        answer = httpx.post(f"{server.url}/v1/translate", json=body).json()
        assert [one["text"] for one in answer["translations"]] == greedy
        one = draft if isinstance(draft, str) else draft[0]
        *pieces, (_, done) = events(server, text=TEXTS[0], target="de", draft=one)
        assert "".join(str(piece["text"]) for _, piece in pieces) == done["text"] == greedy[0]
    added = {name: now - before.get(name, 0) for name, now in figures().items()}
    proposed, accepted, passes = (
        added[f"uwaga_draft_{name}_total"] for name in ("proposed_tokens", "accepted_tokens", "passes")
    )
    assert proposed > accepted > 0 < passes


def test_a_text_that_grows_keeps_what_is_shown(server: RunningServer, translator: uwaga.Translator):
    draft, how = "Das Haus ist winzig", {"bias": 0.4999, "split": "never"}
    body = {"text": "The house is small and old.", "source": "en", "target": "de", "draft": draft, **how}
    for mask, begun in ((0, draft), (1, "Das Haus ist ")):
        [made] = httpx.post(f"{server.url}/v1/translate", json=body | {"mask": mask}).json()["translations"]
        assert made["text"] == translator.retranslate(body["text"], draft, mask=mask, **how).text
        assert made["text"].startswith(begun)


@pytest.mark.parametrize(
    ("more", "status", "parameter", "told"),
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
def test_drafts_that_cannot_be_are_refused_by_name(
    server: RunningServer, more: dict[str, object], status: int, parameter: str, told: str
):
    answer = httpx.post(f"{server.url}/v1/translate", json={"text": "A dog.", "target": "de", **more})
    error = answer.json()["error"]
    assert (answer.status_code, error["parameter"].partition(".")[0]) == (status, parameter)
    assert told in error["message"]


def test_a_stream_holds_to_terms(server: RunningServer, translator: uwaga.Translator):
    terms = {"dog": "Köter"}
    body = {"text": "A dog runs.", "target": "de", "glossary": terms, "tokens": True}
    (name, piece), (_, done) = events(server, **body, source="en")
    wanted = translator.translate("A dog runs.", beam=1, glossary=terms)
    assert (name, piece["text"], done["text"]) == ("piece", wanted.text, wanted.text)
    assert done["tokens"] == list(wanted.tokens)
    assert "Köter" in wanted.text


@pytest.mark.parametrize(
    ("more", "code"),
    [({"nbest": 2}, "no_stream"), ({"text": ["a"]}, "no_stream"), ({"target": "xx"}, "unsupported_language")],
)
def test_what_cannot_be_streamed_is_refused_with_its_status(
    server: RunningServer, more: dict[str, object], code: str
):
    answer = httpx.post(
        f"{server.url}/v1/translate", json={"text": "a", "target": "de", "stream": True, **more}
    )
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)


def test_all_that_is_asked_for_is_told(server: RunningServer, translator: uwaga.Translator):
    body = {"text": TEXTS[0], "source": "en", "target": "de", "nbest": 3}
    asked = {"tokens": True, "scores": True, "alignment": True, "attention": True}
    [made] = httpx.post(f"{server.url}/v1/translate", json={**body, **asked}).json()["translations"]
    whole = translator.translate(TEXTS[0], nbest=3, beam=5, alignment=True, attention=True)
    told = whole.to_dict(confidence=True)
    for name in (
        "text",
        "tokens",
        "source_tokens",
        "token_scores",
        "words",
        "confidence",
        "alignment",
        "attention",
    ):
        assert made[name] == told[name], name
    assert [one["text"] for one in made["alternatives"]] == [one.text for one in whole.alternatives]


def test_a_glossary_a_format_and_tags(server: RunningServer, translator: uwaga.Translator):
    url, terms = f"{server.url}/v1/translate", {"car": "Karre"}
    body = {"text": TEXTS[1], "source": "en", "target": "de"}
    made = httpx.post(url, json={**body, "glossary": terms}).json()["translations"][0]["text"]
    assert made == translator.translate(TEXTS[1], glossary=terms).text
    assert "Karre" in made
    html = "<p>A <b>man</b> sleeps. <code>A man.</code></p>"
    body = {**body, "text": html, "format": "html", "ignore_tags": ["code"]}
    made = httpx.post(url, json=body).json()["translations"][0]["text"]
    assert made == translator.translate(html, format="html", ignore_tags=["code"]).text


def test_each_text_has_its_own_error(server: RunningServer, translator: uwaga.Translator):
    texts = [TEXTS[0], "word " * 400, TEXTS[2]]
    body = {"text": texts, "source": "en", "target": "de", "split": "never"}
    one, two, three = httpx.post(f"{server.url}/v1/translate", json=body).json()["translations"]
    assert (one["text"], three["text"]) == tuple(
        translator.translate(text).text for text in (TEXTS[0], TEXTS[2])
    )
    assert (two["text"], two["error"]["code"]) == ("", "text_too_long")


def test_omitted_words_are_reported_on_request(server: RunningServer):
    body = {"text": "The meeting starts at 9:30 on Monday.", "source": "en", "target": "de"}
    for options in ({}, {"coverage": True}, {"coverage": "unaligned"}):
        [made] = httpx.post(f"{server.url}/v1/translate", json=body | options).json()["translations"]
        assert made.get("coverage", {}).get("omitted", []) == (["Monday"] if options else [])


def test_detection_and_models(server: RunningServer):
    texts = ["Das ist ein ganz normaler deutscher Satz.", "This is an English sentence.", "12"]
    found = httpx.post(f"{server.url}/v1/detect", json={"text": texts}).json()["detections"]
    assert [one and one["code"] for one in found] == ["de", "en", None]
    [model] = httpx.get(f"{server.url}/v1/models").json()["models"]
    assert model == {
        "name": "bundled",
        "sources": ["en"],
        "targets": ["de"],
        "loaded": True,
        "available": True,
    }


def test_many_clients_get_what_one_gets(server: RunningServer, translator: uwaga.Translator):
    sentences = [f"{number} men and {number + 1} dogs are in the park." for number in range(40)]
    wanted = [one.text for one in translator.translate(sentences)]

    async def every() -> list[str]:
        async with httpx.AsyncClient(timeout=60) as client:
            asked = [
                client.post(f"{server.url}/v1/translate", json={"text": text, "source": "en", "target": "de"})
                for text in sentences
            ]
            return [one.json()["translations"][0]["text"] for one in await asyncio.gather(*asked)]

    assert asyncio.run(every()) == wanted


def test_no_text_is_in_the_log(server: RunningServer):
    secret = "Zanzibarquartz"
    httpx.post(f"{server.url}/v1/translate?q={secret}", json={"text": secret, "target": "de"})
    httpx.post(f"{server.url}/v1/translate", json={"text": secret, "target": secret})
    httpx.get(f"{server.url}/{secret}", headers={"authorization": f"Bearer {secret}"})
    time.sleep(0.1)
    assert secret not in server.log.read_text(encoding="utf-8")

"""Progress of translations in the v1 API of the server."""

import json

import pytest
from running_server import RunningServer, running_server
from server_page import copy_bundled_model

pytest_plugins = "server_fixtures"

SENTENCES = [f"I want to buy {count} small red cars tomorrow." for count in range(2, 60)]
LINE = " ".join(SENTENCES)
URL = "/v1/translate"


def events_of(server: RunningServer, body: dict) -> list[tuple[str, dict]]:
    """Return the names and data of the events of a translation with progress."""
    response = server.post(URL, json=body | {"progress": True}, timeout=120)
    assert response.headers["content-type"].startswith("text/event-stream")
    parts = [event.split("\n") for event in response.text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in parts]


@pytest.mark.parametrize("text", [LINE, SENTENCES, [f"{LINE} See https://example.org.", *SENTENCES[:3], ""]])
def test_progress_grows_to_the_number_of_sentences(server, text):
    body = {"text": text, "source": "en", "target": "de", "beam": 2, "alignment": True}
    *progress, last = events_of(server, body)
    plain = server.post(URL, json=body, timeout=120).json()
    assert last == ("done", plain)
    assert {name for name, _ in progress} == {"progress"}
    counts = [(count["done"], count["of"]) for _, count in progress]
    assert counts == sorted(counts) and len(counts) > 2
    assert counts[-1][0] == counts[-1][1] >= len(SENTENCES)
    if text == LINE:
        assert {of for _, of in counts} == {len(SENTENCES)}


def test_progress_of_a_chain_counts_the_sentences_of_all_its_models(tmp_path):
    models = [str(copy_bundled_model(tmp_path, *pair)) for pair in (("en", "de"), ("de", "pl"))]
    with running_server(tmp_path, models=models) as running:
        events = events_of(running, {"text": LINE, "source": "en", "target": "pl"})
    counts = [count["done"] for name, count in events if name == "progress"]
    assert counts == sorted(counts) and counts[-1] == 2 * len(SENTENCES)
    assert {count["of"] for name, count in events if name == "progress"} == {2 * len(SENTENCES)}


def test_progress_counts_texts_in_several_languages_together(tmp_path):
    models = [str(copy_bundled_model(tmp_path, *pair)) for pair in (("en", "pl"), ("de", "pl"))]
    texts = [*SENTENCES[:5], "Ich möchte morgen ein kleines rotes Auto kaufen.", "12"]
    with running_server(tmp_path, models=models) as running:
        *progress, (name, answer) = events_of(running, {"text": texts, "target": "pl"})
    assert name == "done" and [text["detected_source"]["code"] for text in answer["translations"]][-2] == "de"
    assert progress[-1][1] == {"done": 6, "of": 6}


def test_failed_translation_with_progress_is_not_charged(tmp_path):
    with running_server(tmp_path, limits={"deadline": 0.05}) as running:
        body = {"text": [LINE] * 5, "source": "en", "target": "de", "progress": True}
        response = running.post(URL, json=body)
        usage = running.get("/v2/usage").json()
    assert "deadline_exceeded" in response.text
    assert usage["character_count"] == 0


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [({"target": "tlh"}, 400, "unsupported_language"), ({"target": "de", "stream": True}, 400, "no_stream")],
)
def test_error_before_the_first_event_sets_the_response_status(server, body, status, code):
    response = server.post(URL, json={"text": "Hello.", "progress": True} | body)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)

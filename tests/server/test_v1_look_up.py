"""Memory lookups of translations through the v1 API of the server."""

from collections.abc import Iterator

import httpx
import pytest
from running_server import RunningServer, running_server

import uwaga
from uwaga.inspection import look_up
from uwaga_memory import Memory, Pair
from uwaga_server.auth import add_key
from uwaga_server.dialects.v1_memories import MAX_LOOK_UP_CHARACTERS

SLEEPING = "A man in a red shirt is sleeping.", "Ein Herr im roten Hemd schlummert."
SINGING = "A man in a red shirt is singing.", "Ein Herr im roten Hemd trällert."
TEXT = "A man in a blue shirt is sleeping on a bench."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "memories").mkdir()
    for name, target in (("letters", "de"), ("cartas", "pt")):
        with Memory.create(folder / f"memories/{name}.uwm", "en", target) as memory:
            memory.add([Pair(*SLEEPING), Pair(*SINGING)])
    keys = [add_key(folder / "keys.json", name) for name in ("ann", "bob")]
    keys.append(add_key(folder / "keys.json", "poor", characters=60))
    (folder / "issued").write_text("\n".join(keys))
    with running_server(
        folder, keys=str(folder / "keys.json"), memories=str(folder / "memories"), state=str(folder / "state")
    ) as running:
        yield running


@pytest.fixture(scope="module")
def clients(server: RunningServer) -> Iterator[list[httpx.Client]]:
    opened = [
        httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {key}"}, timeout=60)
        for key in (server.log.parent / "issued").read_text().split()
    ]
    yield opened
    for client in opened:
        client.close()


def memory_path(client: httpx.Client, target: str = "de") -> str:
    """Return the URL path of lookups in the operator's memory for a target language."""
    [memory] = [each for each in client.get("/v1/memories").json()["memories"] if each["target"] == target]
    return f"/v1/memories/{memory['id']}/look-up"


def test_server_lookups_match_python(clients: list[httpx.Client], server: RunningServer):
    client = clients[0]
    answer = client.post(memory_path(client), json={"text": TEXT})
    assert answer.status_code == 200, answer.text
    content = answer.json()
    with Memory(server.log.parent / "memories/letters.uwm") as memory:
        lookups = look_up(uwaga.load(threads=1), TEXT, memory)
        scores = {match.target: match.score for match in memory.matches(TEXT)}
    assert (content["text"], content["model"]) == (lookups.translation.text, "bundled")
    assert content["pairs"] == [
        {
            "source": pair.source,
            "target": pair.target,
            "score": pytest.approx(scores[pair.target]),
            "pieces": [*pair.tokens],
        }
        for pair in lookups.pairs
    ]
    assert len(content["pairs"]) == 2
    names = ("weight", "model_probability", "probability")
    for sent, lookup in zip(content["pieces"], lookups.tokens, strict=True):
        expected = lookup.token, lookup.pair, lookup.position, lookups.piece_after(lookup)
        assert (sent["piece"], sent["pair"], sent["position"], sent["remembered"]) == expected
        assert sent["distance"] == pytest.approx(lookup.distance / lookups.radius)
        assert [sent[name] for name in names] == pytest.approx([getattr(lookup, name) for name in names])


def test_lookup_positions_refer_to_the_remembered_pieces(clients: list[httpx.Client]):
    content = clients[0].post(memory_path(clients[0]), json={"text": TEXT}).json()
    assert content["text"].startswith("Ein Herr")
    for lookup in content["pieces"]:
        assert content["pairs"][lookup["pair"]]["pieces"][lookup["position"]] == lookup["remembered"]
        assert (lookup["weight"] > 0) == (lookup["distance"] < 1)
    assert content["pieces"][-1]["piece"] == content["pairs"][0]["pieces"][-1] == "</s>"


def test_texts_without_lookups_get_only_a_translation(clients: list[httpx.Client]):
    client = clients[0]
    path = memory_path(client)
    unlike = client.post(path, json={"text": "The weather is nice today."}).json()
    assert unlike["text"] and not unlike["pairs"] and not unlike["pieces"]
    assert client.post(path, json={"text": SLEEPING[0]}).json()["text"] == SLEEPING[1]
    assert client.post(path, json={"text": TEXT, "threshold": 100}).json()["pieces"] == []
    assert client.post(path, json={"text": ""}).json()["pairs"] == []


def test_clients_cannot_search_translation_memories_of_other_clients(clients: list[httpx.Client]):
    ann, bob, _ = clients
    created = ann.post("/v1/memories", json={"name": "Mine", "source": "en", "target": "de"}).json()
    path = f"/v1/memories/{created['id']}"
    ann.post(f"{path}/pairs", json={"pairs": [dict(zip(("source", "target"), SLEEPING, strict=True))]})
    assert [pair["target"] for pair in ann.post(f"{path}/look-up", json={"text": TEXT}).json()["pairs"]] == [
        SLEEPING[1]
    ]
    refused = bob.post(f"{path}/look-up", json={"text": TEXT})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "not_found")
    ann.delete(path)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"text": "a" * (MAX_LOOK_UP_CHARACTERS + 1)}, 422, "invalid_request"),
        ({"text": TEXT, "threshold": 0}, 422, "invalid_request"),
        ({"text": [TEXT]}, 422, "invalid_request"),
        ({"text": TEXT, "beam": 4}, 422, "invalid_request"),
        ({}, 422, "invalid_request"),
    ],
)
def test_invalid_requests_are_refused(clients: list[httpx.Client], body, status: int, code: str):
    refused = clients[0].post(memory_path(clients[0]), json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)


def test_unknown_translation_memories_and_languages_without_a_model_are_refused(clients: list[httpx.Client]):
    client = clients[0]
    unknown = client.post("/v1/memories/x/look-up", json={"text": TEXT})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_found")
    portuguese = client.post(memory_path(client, "pt"), json={"text": TEXT})
    assert (portuguese.status_code, portuguese.json()["error"]["code"]) == (400, "unsupported_language")


def test_lookups_require_a_key_and_count_towards_the_quota(clients, server):
    poor = clients[2]
    path = memory_path(poor)
    assert httpx.post(server.url + path, json={"text": TEXT}).status_code == 401
    assert poor.post(path, json={"text": TEXT}).status_code == 200
    assert poor.post(path, json={"text": TEXT}).json()["error"]["code"] == "quota_exceeded"

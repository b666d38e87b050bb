"""Translation memories used through DeepL's unmodified official client."""

import io
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from running_server import RunningServer, running_server

from uwaga_memory.store import Memory, Pair
from uwaga_server.auth import add_key

deepl = pytest.importorskip("deepl")

CAR, CAR_IN_GERMAN = "I want to buy a car.", "Ich möchte mir einen Wagen zulegen."
PAIRS = [
    Pair(CAR, CAR_IN_GERMAN, "letters"),
    Pair("Open {file} with version 2.", "Öffnen Sie bitte {file} mit Version 2.", "help"),
    Pair("A man sleeps on the bench in the park.", "Ein Herr schlummert auf der Parkbank.", "letters"),
    Pair("Two dogs run.", "Zwei Hunde laufen.", "letters"),
]
TMX = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4">
  <header creationtool="t" creationtoolversion="1" segtype="sentence" o-tmf="t" adminlang="en"
          srclang="en" datatype="plaintext"/>
  <body>
    <tu><tuv xml:lang="en"><seg>The cat sleeps.</seg></tuv>
        <tuv xml:lang="de"><seg>Die Katze döst.</seg></tuv></tu>
    <tu><tuv xml:lang="en"><seg>The dog barks.</seg></tuv>
        <tuv xml:lang="de"><seg>Der Hund bellt.</seg></tuv></tu>
    <tu><tuv xml:lang="en"><seg>Only English.</seg></tuv></tu>
  </body>
</tmx>
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("memories")
    memory = Memory.create(path / "letters.uwm", "en", "de", "Letters")
    memory.add(PAIRS)
    memory.close()
    memory = Memory.create(path / "other.uwm", "en", "pt", "Other")
    memory.add([Pair(CAR, "Quero comprar um carro.")])
    memory.close()
    return path


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    settings = tmp_path_factory.mktemp("server")
    with running_server(settings, memories=str(folder), state=str(settings / "state")) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deepl.http_client, "max_network_retries", 0)
        deepl_client = deepl.DeepLClient("any", server_url=server.url)
        yield deepl_client
        deepl_client.close()


@pytest.fixture(scope="module")
def letters(client) -> object:
    return next(memory for memory in client.list_translation_memories() if memory.name == "Letters")


def test_translation_memories_are_listed(client, letters):
    assert [memory.name for memory in client.list_translation_memories()][:2] == ["Letters", "Other"]
    assert (letters.source_language, letters.target_languages) == ("en", ["de"])
    assert letters.segment_count == len(PAIRS)
    assert len(client.list_translation_memories(page=1, page_size=1)) == 1
    assert client.list_translation_memories(page=9) == []
    memory = client.get_translation_memory(letters)
    assert memory.translation_memory_id == letters.translation_memory_id
    with pytest.raises(deepl.DeepLException, match="no such translation memory"):
        client.get_translation_memory("6d2f2ac5-70a6-4b2a-9d5e-5f2e9b1f7c32")


def test_translation_memory_segments_are_paged_and_filtered(client, letters):
    page = client.list_translation_memory_segments(letters, page_size=3)
    assert page.segment_count == len(PAIRS)
    next_page = client.list_translation_memory_segments(
        letters, page_size=3, page_cursor=page.next_page_cursor
    )
    assert next_page.next_page_cursor is None
    assert [segment.source_text for segment in (*page, *next_page)] == [pair.source for pair in PAIRS]
    assert [segment.targets[0].target_text for segment in next_page] == [PAIRS[3].target]
    for text, sensitive, count in (("a man", False, 1), ("a man", True, 0), ("hunde LAUFEN", False, 1)):
        segments = client.list_translation_memory_segments(
            letters, filter_text=text, filter_case_sensitive=sensitive
        )
        assert len(segments) == count
    with pytest.raises(deepl.DeepLException, match="filter_text"):
        client.list_translation_memory_segments(letters, filter_text="a")
    with pytest.raises(deepl.DeepLException, match="page_cursor"):
        client.list_translation_memory_segments(letters, page_cursor="x")


def test_matching_texts_are_translated_from_a_translation_memory(client, letters):
    texts = [CAR, "Open {name} with version 3.", "The weather is nice today."]
    options = {"source_lang": "EN", "target_lang": "DE"}
    plain = [result.text for result in client.translate_text(texts, **options)]
    results = client.translate_text(
        texts, translation_memory=letters, translation_memory_threshold=75, **options
    )
    assert [result.text for result in results] == [
        CAR_IN_GERMAN,
        "Öffnen Sie bitte {name} mit Version 3.",
        plain[2],
    ]
    exact = client.translate_text(
        texts, translation_memory=letters.translation_memory_id, translation_memory_threshold=100, **options
    )
    assert [result.text for result in exact] == [CAR_IN_GERMAN, *plain[1:]]


@pytest.mark.usefixtures("short_polling_intervals")
def test_adjacent_texts_of_a_request_are_used_as_context(client, server):
    with httpx.Client(base_url=server.url) as v1_client:
        created = v1_client.post(
            "/v1/memories", json={"name": "Menus", "source": "en", "target": "de"}
        ).json()
        pairs = [
            {"source": "Open", "target": "Öffnen", "key": "menu", "before": "File", "after": "Close"},
            {"source": "Open", "target": "Auf"},
        ]
        v1_client.post(f"/v1/memories/{created['id']}/pairs", json={"pairs": pairs})
        options = {"source_lang": "EN", "target_lang": "DE", "translation_memory": created["id"]}
        texts = client.translate_text(["File", "Open", "Close", "Open"], **options)
        assert [text.text for text in texts][1::2] == ["Öffnen", "Auf"]

        body = {"text": ["Open", "Open"], "source": "en", "target": "de", "memory": created["id"]}

        def scores(**values) -> list[float]:
            answer = v1_client.post("/v1/translate", json=body | values)
            assert answer.status_code == 200, answer.text
            return [each["memory"][0]["score"] for each in answer.json()["translations"]]

        assert scores() == [100, 100]
        assert scores(context={"key": "menu"}) == [101, 101]
        assert scores(context=[{"before": "File", "after": "Close"}, {"before": "File"}]) == [101, 100]
        wrong = v1_client.post("/v1/translate", json=body | {"context": [{"key": "menu"}]})
        assert (wrong.status_code, wrong.json()["error"]["parameter"]) == (400, "context")
        v1_client.delete(f"/v1/memories/{created['id']}")


def test_translation_memories_of_other_languages_and_unknown_ids_are_refused(client, letters):
    other = next(memory for memory in client.list_translation_memories() if memory.name == "Other")
    for memory, message in ((other, "for these languages"), ("x", "no such translation memory")):
        with pytest.raises(deepl.DeepLException, match=message):
            client.translate_text(CAR, source_lang="EN", target_lang="DE", translation_memory=memory)


def test_invalid_translation_memory_thresholds_are_refused(server, letters):
    body = {"text": [CAR], "target_lang": "DE", "source_lang": "EN"}
    for values in (
        {"translation_memory_threshold": 75},
        {"translation_memory_id": letters.translation_memory_id, "translation_memory_threshold": 101},
    ):
        answer = server.post("/v2/translate", json=body | values)
        assert answer.status_code == 400, answer.text
        assert "translation_memory_threshold" in answer.json()["message"]


def test_documents_are_translated_with_a_translation_memory(client, letters):
    output = io.BytesIO()
    client.translate_document(
        f"{CAR}\n".encode(), output, source_lang="EN", target_lang="DE", filename="letter.txt",
        translation_memory=letters, translation_memory_threshold=80,
    )  # fmt: skip
    assert output.getvalue().decode() == f"{CAR_IN_GERMAN}\n"


def test_v1_api_translates_documents_with_a_translation_memory(server, letters):
    with httpx.Client(base_url=server.url) as client:
        assert client.get("/v1/models").json()["memories"] is True
        file = {"file": ("letter.txt", f"{CAR}\n".encode())}
        form = {"source": "en", "target": "de", "memory": letters.translation_memory_id, "threshold": "80"}
        number = client.post("/v1/documents", data=form, files=file).json()["id"]
        while (state := client.get(f"/v1/documents/{number}").json()["state"]) not in ("done", "failed"):
            time.sleep(0.05)
        assert state == "done"
        assert client.get(f"/v1/documents/{number}/result").text == f"{CAR_IN_GERMAN}\n"
        for wrong, status in (({"memory": "x"}, 404), ({"threshold": "0"}, 400)):
            assert client.post("/v1/documents", data=form | wrong, files=file).status_code == status


@pytest.fixture
def short_polling_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the five seconds that the client sleeps between polls."""
    sleeping = SimpleNamespace(sleep=lambda seconds: time.sleep(0.05), time=time.time)
    monkeypatch.setattr(deepl.deepl_client, "time", sleeping)


@pytest.mark.usefixtures("short_polling_intervals")
def test_translation_memory_is_imported_exported_and_deleted(client, tmp_path):
    file = tmp_path / "pets.tmx"
    file.write_text(TMX, encoding="utf-8")
    job = client.import_translation_memory_from_filepath(file, display_name="Pets", timeout_s=60)
    assert (job.operation, job.status, job.display_name) == ("import", "completed", "Pets")
    assert job.result.skipped_segment_count == 1
    memory = client.get_translation_memory(job.result.translation_memory_id)
    assert (memory.name, memory.segment_count) == ("Pets", 2)
    result = client.translate_text(
        "The cat sleeps.", source_lang="EN", target_lang="DE", translation_memory=memory
    )
    assert result.text == "Die Katze döst."
    exported = tmp_path / "exported.tmx"
    done = client.export_translation_memory_to_filepath(memory, exported)
    assert (done.operation, done.translation_memory_id) == ("export", memory.translation_memory_id)
    assert "Die Katze döst." in exported.read_text(encoding="utf-8")
    assert client.create_translation_memory_export(memory).reused_existing
    client.delete_translation_memory(memory)
    with pytest.raises(deepl.DeepLException):
        client.get_translation_memory(memory)


@pytest.mark.usefixtures("short_polling_intervals")
def test_translation_memory_exports_can_be_downloaded_to_files_and_as_responses(client, letters):
    job = client.get_translation_memory_job(client.create_translation_memory_export(letters).job_id)
    job = client.wait_until_translation_memory_job_done(job)
    file = io.BytesIO()
    client.download_translation_memory_export(job, file)
    response = client.download_translation_memory_export(job)
    assert CAR_IN_GERMAN in file.getvalue().decode() == response.content.decode()
    assert client.get_translation_memory_job(job).status == "downloaded"


def test_every_translation_memory_method_of_the_deepl_client_is_tested():
    calls = [name for name in dir(deepl.DeepLClient) if "translation_memor" in name and name[0] != "_"]
    text = Path(__file__).read_text(encoding="utf-8")
    assert len(calls) >= 12 and [name for name in calls if f"client.{name}(" not in text] == []


@pytest.mark.usefixtures("short_polling_intervals")
def test_failed_imports_create_no_translation_memory(client):
    before = [memory.name for memory in client.list_translation_memories()]
    entity = TMX.replace('SYSTEM "tmx14.dtd"', '[<!ENTITY a "b">]').replace("cat", "&a;")
    for content, message in (
        (b"<tmx><body>", "two languages"),
        (TMX[:450].encode(), "not a complete TMX file"),
        (entity.encode(), "broken.tmx"),
    ):
        created = client.create_translation_memory_import("broken.tmx", len(content))
        assert client.get_translation_memory_job(created.job_id).status == "awaiting_input"
        client.upload_translation_memory_file(created, content)
        job = client.wait_until_translation_memory_job_done(created.job_id)
        assert (job.status, job.ok) == ("failed", False)
        assert message in job.result.error_message
    assert [memory.name for memory in client.list_translation_memories()] == before


def test_translation_memory_uploads_require_their_token_and_declared_length(client):
    created = client.create_translation_memory_import("pets.tmx", len(TMX.encode()))
    url = created.upload_url
    assert httpx.put(url.partition("?")[0], content=TMX.encode()).status_code == 404
    assert httpx.put(f"{url}x", content=TMX.encode()).status_code == 404
    assert httpx.put(url, content=TMX.encode()[:-1]).status_code == 400
    assert httpx.put(url, content=TMX.encode()).status_code == 200
    assert httpx.put(url, content=TMX.encode()).status_code == 409
    job = client.get_translation_memory_job(created.job_id)
    client.delete_translation_memory(job.result.translation_memory_id)
    with pytest.raises(deepl.DeepLException, match="too large"):
        client.create_translation_memory_import("pets.tmx", 1 << 40)


@pytest.mark.usefixtures("short_polling_intervals")
def test_clients_see_only_shared_and_their_own_translation_memories(folder, tmp_path):
    keys = tmp_path / "keys.json"
    ann, ben = (add_key(keys, name, None, None, 0) for name in ("ann", "ben"))
    file = tmp_path / "pets.tmx"
    file.write_text(TMX, encoding="utf-8")
    with running_server(tmp_path, memories=str(folder), keys=str(keys)) as server:
        first, second = (deepl.DeepLClient(key, server_url=server.url) for key in (ann, ben))
        memory = first.import_translation_memory_from_filepath(file).result.translation_memory_id
        shared = {item.name: item for item in second.list_translation_memories()}
        assert set(shared) == {"Letters", "Other"}
        for use in (
            lambda: second.get_translation_memory(memory),
            lambda: second.delete_translation_memory(memory),
            lambda: second.delete_translation_memory(shared["Letters"]),
            lambda: second.create_translation_memory_export(memory),
        ):
            with pytest.raises(deepl.DeepLException):
                use()
        assert len(first.list_translation_memories()) == 3
        first.delete_translation_memory(memory)
        for each in (first, second):
            each.close()


def test_v1_api_creates_translation_memories_and_adds_pairs(server):
    with httpx.Client(base_url=server.url) as client:
        created = client.post("/v1/memories", json={"name": "Mine", "source": "en", "target": "de"})
        assert created.status_code == 201, created.text
        memory = created.json()
        assert memory["pairs"] == 0
        path = f"/v1/memories/{memory['id']}"
        body = {"text": ["Two cats run.", "A man sleeps."], "source": "en", "target": "de"}
        with_memory = body | {"memory": memory["id"], "threshold": 80}
        before = client.post("/v1/translate", json=with_memory).json()["translations"]
        assert all("memory" not in translation for translation in before)
        pair = {"source": "Two cats run.", "target": "Zwei Katzen flitzen.", "origin": "me"}
        added = client.post(f"{path}/pairs", json={"pairs": [pair, pair]}).json()
        assert added == {"new": 1, "known": 1, "skipped": {}}
        after = client.post("/v1/translate", json=with_memory).json()["translations"]
        assert [after[0]["text"], after[1]] == ["Zwei Katzen flitzen.", before[1]]
        assert (after[0]["memory"][0]["used"], after[0]["memory"][0]["origin"]) == ("verbatim", "me")
        terms = client.post("/v1/translate", json=with_memory | {"glossary": {"cats": "Kater"}}).json()
        assert (terms["translations"][0]["text"], terms["translations"][0]["warnings"]) == (
            "Zwei Katzen flitzen.",
            ["the term 'cats' was not translated as 'Kater'"],
        )
        assert client.get(path).json()["pairs"] == 1
        assert memory["id"] in {each["id"] for each in client.get("/v1/memories").json()["memories"]}
        assert client.post("/v1/translate", json=body | {"memory": "x"}).status_code == 404
        assert client.post("/v1/translate", json=with_memory | {"threshold": 0}).status_code == 422
        assert client.post(f"{path}/pairs", json={"pairs": []}).status_code == 422
        assert client.delete(path).status_code == 204
        assert client.get(path).status_code == 404

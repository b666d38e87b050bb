"""Models saved with a card, and uploaded to a hub on loopback: files, card and refusals."""

from __future__ import annotations

import base64
import http.server
import json
import threading
from pathlib import Path

import pytest
import tiny_models as tiny

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.formats.huggingface.export import write_hugging_face
from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.conversion.quantise import quantise
from uwaga.errors import MissingExtraError, ModelError, SettingsError
from uwaga.translator import Translator

huggingface_hub = pytest.importorskip("huggingface_hub")

TEXTS = ["I want to buy a car.", "The dog sees the cat.", "Where is the station? It is not far."]
TRAINED = """# en → de

| | |
|---|---|
| training data | everyday.tsv |
| dev data | dev.tsv |
| licence of the data | CC BY 2.0 |
| started from | Helsinki-NLP/opus-mt-en-de |
| dev loss | 3.1200 nats per target token |
| dev BLEU | 37.19 (nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0) |
| dev chrF | 58.90 (nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0) |
"""
REFUSAL = '{"error": "You are not allowed"}'


class FakeHub:
    """Answers what ``huggingface_hub`` asks to create a repository and to commit files to it."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[tuple[str, dict[str, object]]] = []
        self.tokens: set[str | None] = set()
        self.refusing = False
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.tokens.add(self.headers.get("Authorization"))
                status, answer = (403, REFUSAL) if outer.refusing else (200, outer.answer(self.path, body))
                content = answer.encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def do_GET(self) -> None:
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, path: str, body: bytes) -> str:
        if "/commit/" in path:
            lines = [json.loads(line) for line in body.splitlines()]
            for line in lines:
                if line["key"] == "file":
                    self.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            self.asked.append((path, lines[0]["value"]))
            return json.dumps({"commitUrl": f"{self.url}/me/ende/commit/{'0' * 40}", "commitOid": "0" * 40})
        asked = json.loads(body)
        self.asked.append((path, asked))
        if "/preupload/" in path:
            modes = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in asked["files"]
            ]
            return json.dumps({"files": modes})
        if path == "/api/validate-yaml":
            return json.dumps({"errors": [], "warnings": []})
        assert path == "/api/repos/create"
        return json.dumps({"url": f"{self.url}/me/ende", "name": "me/ende"})


@pytest.fixture
def hub(monkeypatch):
    """A hub on loopback, which ``HF_ENDPOINT`` would name; files are sent in the commit itself."""
    fake = FakeHub()
    thread = threading.Thread(target=fake.server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", fake.url)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True, raising=False)
    yield fake
    fake.server.shutdown()
    fake.server.server_close()
    thread.join()


def save(folder: Path, card: str = TRAINED) -> Path:
    joint = tiny.tokeniser()
    model = tiny.transformer(tiny.TINY, joint, joint)
    save_model(folder, model, tiny.TINY, tiny.DECODING, joint, joint, ("en", "de"), card)
    return folder


@pytest.fixture
def trained(tmp_path):
    return Translator.load(save(tmp_path / "trained"))


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def translations(translator: Translator) -> list[tuple[str, float]]:
    return [(one.text, one.score) for one in translator.translate(TEXTS)]


def front_of(folder: Path) -> dict[str, object]:
    return huggingface_hub.ModelCard.load(folder / "README.md").data.to_dict()


def test_a_saved_model_translates_as_the_loaded_one(tmp_path, trained):
    trained.save_pretrained(tmp_path / "saved")
    saved = Translator.load(tmp_path / "saved")
    assert translations(saved) == translations(trained)
    assert saved.languages == trained.languages
    ours = contents(tmp_path / "trained")
    del ours["card.md"]
    theirs = contents(tmp_path / "saved")
    del theirs["README.md"]
    assert theirs == ours
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_int8_and_hugging_face_folders_are_saved_too(tmp_path, trained):
    quantise(tmp_path / "trained", tmp_path / "int8")
    write_hugging_face(
        tmp_path / "marian",
        "marian" if tiny.TINY.norm == "post" else "pegasus",
        Translator.load(tmp_path / "trained", engine="torch").decoder,
        trained.source,
        trained.target,
        trained.decoding,
        trained.model.text,
        ("en", "de"),
    )
    for name in ("int8", "marian"):
        model = Translator.load(tmp_path / name)
        model.save_pretrained(tmp_path / f"{name}-saved", license="mit")
        assert translations(Translator.load(tmp_path / f"{name}-saved")) == translations(model)


def test_the_card_states_what_training_recorded(tmp_path, trained):
    trained.save_pretrained(tmp_path / "saved")
    front = front_of(tmp_path / "saved")
    assert front["library_name"] == "uwaga"
    assert front["license"] == "cc-by-2.0"
    assert front["language"] == ["en", "de"]
    assert front["pipeline_tag"] == "translation"
    assert front["tags"] == ["uwaga", "translation"]
    assert front["base_model"] == "Helsinki-NLP/opus-mt-en-de"
    assert "datasets" not in front
    found = huggingface_hub.ModelCard.load(tmp_path / "saved/README.md").data.eval_results
    assert [(one.dataset_name, one.metric_type, one.metric_value) for one in found] == [
        ("dev.tsv", "bleu", 37.19),
        ("dev.tsv", "chrf", 58.9),
    ]
    text = (tmp_path / "saved/README.md").read_text(encoding="utf-8")
    assert TRAINED.strip() in text
    for part in ("## Use", "## Sources", "## Licence", "## Limits", "from en to de", "at most 40 tokens"):
        assert part in text


def test_the_card_states_what_is_given(tmp_path):
    model = Translator.load(save(tmp_path / "bare", "# A model\n"))
    fields = {
        "license": "Our own terms, v. 1",
        "datasets": ["facebook/flores", "no: yes"],
        "base_model": "me/base",
        "tags": ["news"],
        "metrics": {"FLORES-101 devtest": {"BLEU": 21.5}, "Tatoeba": {"bleu": 30, "chrf": 55.25}},
    }
    model.save_pretrained(tmp_path / "saved", **fields)
    front = front_of(tmp_path / "saved")
    assert (front["license"], front["license_name"]) == ("other", "our-own-terms-v.-1")
    assert read_card(tmp_path / "saved").licence == "our-own-terms-v.-1"
    assert front["datasets"] == fields["datasets"]
    assert front["base_model"] == "me/base"
    assert front["tags"] == ["uwaga", "translation", "news"]
    found = huggingface_hub.ModelCard.load(tmp_path / "saved/README.md").data.eval_results
    assert [(one.dataset_name, one.metric_type, one.metric_value) for one in found] == [
        ("FLORES-101 devtest", "bleu", 21.5),
        ("Tatoeba", "bleu", 30),
        ("Tatoeba", "chrf", 55.25),
    ]


def test_given_scores_outlast_those_of_training(tmp_path, trained):
    trained.save_pretrained(tmp_path / "once", metrics={"Tatoeba": {"bleu": 30.5}})
    Translator.load(tmp_path / "once").save_pretrained(tmp_path / "twice")
    [found] = huggingface_hub.ModelCard.load(tmp_path / "twice/README.md").data.eval_results
    assert (found.dataset_name, found.metric_value) == ("Tatoeba", 30.5)


def test_nothing_is_invented(tmp_path):
    model = Translator.load(save(tmp_path / "bare", "# A model\n"))
    model.save_pretrained(tmp_path / "saved", license="mit")
    front = front_of(tmp_path / "saved")
    assert set(front) == {"library_name", "license", "language", "pipeline_tag", "tags"}


def test_the_front_matter_of_a_published_card_is_kept(tmp_path):
    card = (
        "---\nlicense: other\nlicense_name: ours\nlicense_link: https://example.org/ours\n"
        "tags: [law]\ndatasets: [me/laws]\nmodel-index:\n- name: x\n  results: []\n"
        "library_name: other\n---\n# Laws\n"
    )
    model = Translator.load(save(tmp_path / "own", card))
    model.save_pretrained(tmp_path / "once")
    Translator.load(tmp_path / "once").save_pretrained(tmp_path / "second/once")
    assert contents(tmp_path / "once") == contents(tmp_path / "second/once")
    front = read_card(tmp_path / "once").front
    assert front["library_name"] == "uwaga"
    assert front["license_link"] == "https://example.org/ours"
    assert (front["tags"], front["datasets"]) == (["uwaga", "translation", "law"], ["me/laws"])
    assert front["model-index"] == [{"name": "x", "results": []}]


def test_a_model_without_a_licence_is_not_saved(tmp_path, hub):
    model = Translator.load(save(tmp_path / "bare", TRAINED.replace("CC BY 2.0", "not stated")))
    with pytest.raises(SettingsError, match=r"license='cc-by-4\.0'"):
        model.save_pretrained(tmp_path / "saved")
    with pytest.raises(SettingsError, match=r"license='cc-by-4\.0'"):
        model.push_to_hub("me/ende")
    assert not (tmp_path / "saved").exists()
    assert hub.asked == []


@pytest.mark.parametrize(
    "fields",
    [
        {"license": ""},
        {"license": "unknown"},
        {"license": "a\nb"},
        {"license": 1},
        {"base_model": "no-owner"},
        {"datasets": "one"},
        {"datasets": ["a\x1b[31m"]},
        {"tags": [None]},
        {"metrics": []},
        {"metrics": {"t": {}}},
        {"metrics": {"t": {"bleu": float("nan")}}},
        {"metrics": {"t": {"bleu": "39"}}},
        {"metrics": {"t": {"bleu": True}}},
        {"licence": "mit"},
    ],
)
def test_impossible_fields_are_refused(tmp_path, trained, fields):
    with pytest.raises(SettingsError):
        trained.save_pretrained(tmp_path / "saved", **fields)
    assert not (tmp_path / "saved").exists()


def test_a_folder_is_not_overwritten(tmp_path, trained):
    (tmp_path / "empty").mkdir()
    trained.save_pretrained(tmp_path / "empty")
    before = contents(tmp_path / "empty")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    for name in ("empty", "trained", "file", "nowhere"):
        with pytest.raises(ModelError, match=f"{name}: exists and is not overwritten"):
            trained.save_pretrained(tmp_path / name)
    assert contents(tmp_path / "empty") == before
    with pytest.raises(SettingsError, match="name of the model"):
        trained.save_pretrained(tmp_path / "a\n---\nb")


def test_models_that_no_folder_holds_are_refused(tmp_path, trained):
    place = tmp_path / "trained"
    tiny.write_adapter_of(place, tmp_path / "adapter")
    ensemble = Translator.load([place, save(tmp_path / "other")])
    adapted = Translator.load(place, adapter=tmp_path / "adapter")
    for model in (ensemble, adapted, trained.with_decoder(trained.decoder)):
        with pytest.raises(ModelError, match="uwaga merge"):
            model.save_pretrained(tmp_path / "saved")
    assert trained.searched_by(lambda decoder: decoder).model.place == place
    assert not (tmp_path / "saved").exists()


def test_a_link_out_of_the_folder_is_not_published(tmp_path, trained):
    secret = tmp_path / "secret"
    secret.write_text("password")
    for name in ("card.md", "README.md"):
        (tmp_path / "trained" / name).unlink(missing_ok=True)
        (tmp_path / "trained" / name).symlink_to(secret)
        with pytest.raises(ModelError, match=f"{name}: a link that leads out"):
            trained.save_pretrained(tmp_path / "saved", license="mit")
        (tmp_path / "trained" / name).unlink()
    assert not (tmp_path / "saved").exists()


def test_a_model_in_the_hubs_cache_is_saved(tmp_path):
    snapshot = tmp_path / "models--me--ende/snapshots" / ("0" * 40)
    blobs = tmp_path / "models--me--ende/blobs"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for file in save(tmp_path / "trained").iterdir():
        file.rename(blobs / f"blob-{file.name}")
        (snapshot / file.name).symlink_to(Path("../../blobs") / f"blob-{file.name}")
    model = Translator.load(snapshot)
    model.save_pretrained(tmp_path / "saved")
    assert translations(Translator.load(tmp_path / "saved")) == translations(model)


def test_the_hub_gets_what_is_saved(tmp_path, trained, hub):
    address = trained.push_to_hub("me/ende", private=True, token="hf_ours", commit_message="Ours")
    assert address == f"{hub.url}/me/ende"
    path, created = hub.asked[0]
    assert path == "/api/repos/create"
    assert (created["organization"], created["name"]) == ("me", "ende")
    assert created.get("private") is True or created.get("visibility") == "private"
    [commit] = [value for path, value in hub.asked if "/commit/" in path]
    assert commit["summary"] == "Ours"
    assert hub.tokens == {"Bearer hf_ours"}
    trained.save_pretrained(tmp_path / "me/ende")
    saved = contents(tmp_path / "me/ende")
    assert hub.files.keys() == saved.keys()
    assert b"--model me/ende " in hub.files["README.md"]
    assert hub.files["README.md"].replace(b"--model me/ende ", b"--model ende ") == saved["README.md"]
    got = tmp_path / "got"
    got.mkdir()
    for name, content in hub.files.items():
        (got / name).write_bytes(content)
        assert name == "README.md" or content == saved[name]
    assert translations(Translator.load(got)) == translations(trained)
    huggingface_hub.ModelCard.load(got / "README.md").validate()


@pytest.mark.parametrize(
    "name",
    [
        "",
        "ende",
        "a/b/c",
        "../x",
        "me/..",
        "me/a..b",
        "me/ende\n",
        "-x/y",
        "me/é",
        "me/a--b",
        "https://x/y",
        3,
    ],
)
def test_odd_names_are_refused_before_anything_is_sent(trained, hub, name):
    with pytest.raises(ModelError, match="not the name of a Hugging Face repository"):
        trained.push_to_hub(name)
    assert hub.asked == []


def test_a_refusal_of_the_hub_is_one_line(trained, hub):
    hub.refusing = True
    with pytest.raises(ModelError, match=r"me/ende: cannot be uploaded: .*hf auth login") as caught:
        trained.push_to_hub("me/ende", token="hf_secret")
    assert "\n" not in str(caught.value)
    assert "hf_secret" not in str(caught.value)


def test_without_the_library_it_says_what_to_install(trained, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match="pip install huggingface_hub"):
        trained.push_to_hub("me/ende")

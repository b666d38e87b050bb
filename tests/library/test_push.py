"""Models saved with a card and uploaded to a hub on this machine: files, card and errors."""

import base64
import http.server
import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import tiny_models as tiny

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.formats.huggingface.export import write_hugging_face
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
REFUSAL_BODY = '{"error": "You are not allowed"}'


class FakeHub:
    """Answers the requests of ``huggingface_hub`` to create a repository and commit files."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, dict[str, object]]] = []
        self.tokens: set[str | None] = set()
        self.refusing = False
        fake_hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                fake_hub.tokens.add(self.headers.get("Authorization"))
                status, answer = (
                    (403, REFUSAL_BODY) if fake_hub.refusing else (200, fake_hub.answer(self.path, body))
                )
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
            self.requests.append((path, lines[0]["value"]))
            return json.dumps({"commitUrl": f"{self.url}/me/ende/commit/{'0' * 40}", "commitOid": "0" * 40})
        request_body = json.loads(body)
        self.requests.append((path, request_body))
        if "/preupload/" in path:
            modes = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in request_body["files"]
            ]
            return json.dumps({"files": modes})
        if path == "/api/validate-yaml":
            return json.dumps({"errors": [], "warnings": []})
        assert path == "/api/repos/create"
        return json.dumps({"url": f"{self.url}/me/ende", "name": "me/ende"})


@pytest.fixture
def hub(monkeypatch):
    """Yield a hub on this machine, as if ``HF_ENDPOINT`` named it; commits contain the files."""
    fake = FakeHub()
    thread = threading.Thread(target=fake.server.serve_forever, args=(0.05,), daemon=True)
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
    tiny.save(folder, model, joint, card=card)
    return folder


@pytest.fixture
def trained(tmp_path):
    return Translator.load(save(tmp_path / "trained"))


def folder_contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def translations(translator: Translator) -> list[tuple[str, float]]:
    return [(translation.text, translation.score) for translation in translator.translate(TEXTS)]


def read_front_matter(folder: Path) -> dict[str, object]:
    return huggingface_hub.ModelCard.load(folder / "README.md").data.to_dict()


def test_saved_model_equals_the_original(tmp_path, trained):
    trained.save_pretrained(tmp_path / "saved")
    saved = Translator.load(tmp_path / "saved")
    assert translations(saved) == translations(trained)
    assert saved.languages == trained.languages
    expected = folder_contents(tmp_path / "trained")
    del expected["card.md"]
    actual = folder_contents(tmp_path / "saved")
    del actual["README.md"]
    assert actual == expected
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_int8_and_hugging_face_models_are_saved(tmp_path, trained):
    quantise(tmp_path / "trained", tmp_path / "int8")
    write_hugging_face(
        tmp_path / "marian",
        "marian" if tiny.TINY.norm == "post" else "pegasus",
        replace(Translator.load(tmp_path / "trained", engine="torch").model, languages=("en", "de")),
    )
    for name in ("int8", "marian"):
        model = Translator.load(tmp_path / name)
        model.save_pretrained(tmp_path / f"{name}-saved", license="mit")
        assert translations(Translator.load(tmp_path / f"{name}-saved")) == translations(model)


def test_card_contains_the_training_record(tmp_path, trained):
    trained.save_pretrained(tmp_path / "saved")
    front_matter = read_front_matter(tmp_path / "saved")
    assert front_matter["library_name"] == "uwaga"
    assert front_matter["license"] == "cc-by-2.0"
    assert front_matter["language"] == ["en", "de"]
    assert front_matter["pipeline_tag"] == "translation"
    assert front_matter["tags"] == ["uwaga", "translation"]
    assert front_matter["base_model"] == "Helsinki-NLP/opus-mt-en-de"
    assert "datasets" not in front_matter
    results = huggingface_hub.ModelCard.load(tmp_path / "saved/README.md").data.eval_results
    assert [(result.dataset_name, result.metric_type, result.metric_value) for result in results] == [
        ("dev.tsv", "bleu", 37.19),
        ("dev.tsv", "chrf", 58.9),
    ]
    text = (tmp_path / "saved/README.md").read_text(encoding="utf-8")
    assert TRAINED.strip() in text
    for part in ("## Use", "## Sources", "## Licence", "## Limits", "from en to de", "at most 40 tokens"):
        assert part in text


def test_given_fields_are_written_to_the_model_card(tmp_path):
    model = Translator.load(save(tmp_path / "bare", "# A model\n"))
    fields = {
        "license": "Our own terms, v. 1",
        "datasets": ["facebook/flores", "no: yes"],
        "base_model": "me/base",
        "tags": ["news"],
        "metrics": {"FLORES-101 devtest": {"BLEU": 21.5}, "Tatoeba": {"bleu": 30, "chrf": 55.25}},
    }
    model.save_pretrained(tmp_path / "saved", **fields)
    front_matter = read_front_matter(tmp_path / "saved")
    assert (front_matter["license"], front_matter["license_name"]) == ("other", "our-own-terms-v.-1")
    assert read_card(tmp_path / "saved").licence == "our-own-terms-v.-1"
    assert front_matter["datasets"] == fields["datasets"]
    assert front_matter["base_model"] == "me/base"
    assert front_matter["tags"] == ["uwaga", "translation", "news"]
    results = huggingface_hub.ModelCard.load(tmp_path / "saved/README.md").data.eval_results
    assert [(result.dataset_name, result.metric_type, result.metric_value) for result in results] == [
        ("FLORES-101 devtest", "bleu", 21.5),
        ("Tatoeba", "bleu", 30),
        ("Tatoeba", "chrf", 55.25),
    ]


def test_given_metrics_override_training_scores(tmp_path, trained):
    trained.save_pretrained(tmp_path / "once", metrics={"Tatoeba": {"bleu": 30.5}})
    Translator.load(tmp_path / "once").save_pretrained(tmp_path / "twice")
    [result] = huggingface_hub.ModelCard.load(tmp_path / "twice/README.md").data.eval_results
    assert (result.dataset_name, result.metric_value) == ("Tatoeba", 30.5)


def test_unset_card_fields_are_omitted(tmp_path):
    model = Translator.load(save(tmp_path / "bare", "# A model\n"))
    model.save_pretrained(tmp_path / "saved", license="mit")
    front_matter = read_front_matter(tmp_path / "saved")
    assert set(front_matter) == {"library_name", "license", "language", "pipeline_tag", "tags"}


def test_front_matter_of_the_card_is_preserved(tmp_path):
    card = (
        "---\nlicense: other\nlicense_name: ours\nlicense_link: https://example.org/ours\n"
        "tags: [law]\ndatasets: [me/laws]\nmodel-index:\n- name: x\n  results: []\n"
        "library_name: other\n---\n# Laws\n"
    )
    model = Translator.load(save(tmp_path / "own", card))
    model.save_pretrained(tmp_path / "once")
    Translator.load(tmp_path / "once").save_pretrained(tmp_path / "second/once")
    assert folder_contents(tmp_path / "once") == folder_contents(tmp_path / "second/once")
    front_matter = read_card(tmp_path / "once").front_matter
    assert front_matter["library_name"] == "uwaga"
    assert front_matter["license_link"] == "https://example.org/ours"
    assert (front_matter["tags"], front_matter["datasets"]) == (["uwaga", "translation", "law"], ["me/laws"])
    assert front_matter["model-index"] == [{"name": "x", "results": []}]


def test_saving_a_model_for_the_hub_requires_a_licence(tmp_path, hub):
    model = Translator.load(save(tmp_path / "bare", TRAINED.replace("CC BY 2.0", "not stated")))
    with pytest.raises(SettingsError, match=r"license='cc-by-4\.0'"):
        model.save_pretrained(tmp_path / "saved")
    with pytest.raises(SettingsError, match=r"license='cc-by-4\.0'"):
        model.push_to_hub("me/ende")
    assert not (tmp_path / "saved").exists()
    assert hub.requests == []


@pytest.mark.parametrize(
    "fields",
    [
        {"license": ""}, {"license": "unknown"}, {"license": "a\nb"}, {"license": 1},
        {"base_model": "no-owner"}, {"datasets": "one"}, {"datasets": ["a\x1b[31m"]}, {"tags": [None]},
        {"metrics": []}, {"metrics": {"t": {}}}, {"metrics": {"t": {"bleu": float("nan")}}},
        {"metrics": {"t": {"bleu": "39"}}}, {"metrics": {"t": {"bleu": True}}}, {"licence": "mit"},
    ],
)  # fmt: skip
def test_invalid_card_fields_are_refused(tmp_path, trained, fields):
    with pytest.raises(SettingsError):
        trained.save_pretrained(tmp_path / "saved", **fields)
    assert not (tmp_path / "saved").exists()


def test_saving_does_not_overwrite_existing_files(tmp_path, trained):
    (tmp_path / "empty").mkdir()
    trained.save_pretrained(tmp_path / "empty")
    original = folder_contents(tmp_path / "empty")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    for name in ("empty", "trained", "file", "nowhere"):
        with pytest.raises(ModelError, match=f"{name}: this folder exists and is not overwritten"):
            trained.save_pretrained(tmp_path / name)
    assert folder_contents(tmp_path / "empty") == original
    with pytest.raises(SettingsError, match="name of the model"):
        trained.save_pretrained(tmp_path / "a\n---\nb")


def test_models_not_loaded_from_a_single_folder_cannot_be_saved(tmp_path, trained):
    folder = tmp_path / "trained"
    tiny.write_random_adapter(folder, tmp_path / "adapter")
    ensemble = Translator.load([folder, save(tmp_path / "other")])
    adapted = Translator.load(folder, adapter=tmp_path / "adapter")
    for model in (ensemble, adapted, trained.with_decoder(trained.decoder)):
        with pytest.raises(ModelError, match="uwaga merge"):
            model.save_pretrained(tmp_path / "saved")
    assert trained.wrap_decoders(lambda decoder: decoder).model.path == folder
    assert not (tmp_path / "saved").exists()


def test_symbolic_links_that_point_outside_the_folder_are_refused(tmp_path, trained):
    secret = tmp_path / "secret"
    secret.write_text("password")
    for name in ("card.md", "README.md"):
        (tmp_path / "trained" / name).unlink(missing_ok=True)
        (tmp_path / "trained" / name).symlink_to(secret)
        with pytest.raises(ModelError, match=f"{name}: this is a link to a file outside"):
            trained.save_pretrained(tmp_path / "saved", license="mit")
        (tmp_path / "trained" / name).unlink()
    assert not (tmp_path / "saved").exists()


def test_model_from_the_hub_cache_is_saved(tmp_path):
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


def test_push_uploads_saved_files(tmp_path, trained, hub):
    address = trained.push_to_hub("me/ende", private=True, token="hf_ours", commit_message="Ours")
    assert address == f"{hub.url}/me/ende"
    path, created = hub.requests[0]
    assert path == "/api/repos/create"
    assert (created["organization"], created["name"]) == ("me", "ende")
    assert created.get("private") is True or created.get("visibility") == "private"
    [commit] = [value for path, value in hub.requests if "/commit/" in path]
    assert commit["summary"] == "Ours"
    assert hub.tokens == {"Bearer hf_ours"}
    trained.save_pretrained(tmp_path / "me/ende")
    saved = folder_contents(tmp_path / "me/ende")
    assert hub.files.keys() == saved.keys()
    assert b"--model me/ende " in hub.files["README.md"]
    assert hub.files["README.md"].replace(b"--model me/ende ", b"--model ende ") == saved["README.md"]
    downloaded = tmp_path / "got"
    downloaded.mkdir()
    for name, content in hub.files.items():
        (downloaded / name).write_bytes(content)
        assert name == "README.md" or content == saved[name]
    assert translations(Translator.load(downloaded)) == translations(trained)
    huggingface_hub.ModelCard.load(downloaded / "README.md").validate()


@pytest.mark.parametrize(
    "name",
    [
        "", "ende", "a/b/c", "../x", "me/..", "me/a..b", "me/ende\n", "-x/y", "me/é", "me/a--b",
        "https://x/y", 3,
    ],
)  # fmt: skip
def test_invalid_repository_names_are_refused(trained, hub, name):
    with pytest.raises(ModelError, match="not a valid name of a Hugging Face repository"):
        trained.push_to_hub(name)
    assert hub.requests == []


def test_failed_hub_upload_gives_a_one_line_error(trained, hub):
    hub.refusing = True
    with pytest.raises(ModelError, match=r"me/ende: cannot be uploaded: .*hf auth login") as caught:
        trained.push_to_hub("me/ende", token="hf_secret")
    assert "\n" not in str(caught.value)
    assert "hf_secret" not in str(caught.value)


def test_missing_huggingface_hub_error_names_its_extra(trained, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'uwaga\[hub\]'"):
        trained.push_to_hub("me/ende")

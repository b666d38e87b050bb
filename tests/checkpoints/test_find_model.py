"""Resolution of model names: the bundled folder, local folders, a Hugging Face cache or repository."""

import sys

import huggingface_hub
import pytest
import tiny_models as tiny

from uwaga.checkpoints.formats.uwaga.read import read_folder
from uwaga.errors import MissingExtraError, ModelError
from uwaga.library import hub
from uwaga.library.hub import find_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Return an empty Hugging Face cache and a list that records requests; no network is available."""
    path = tmp_path / "cache"
    path.mkdir()
    real = huggingface_hub.snapshot_download
    requests = []

    def download(name, *, allow_patterns, local_files_only=False):
        requests.append((name, local_files_only))
        if not local_files_only:
            raise ConnectionError("no route to host\nand a long explanation")
        return real(name, allow_patterns=allow_patterns, local_files_only=True, cache_dir=path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return path, requests


def save(folder):
    joint = tiny.tokeniser()
    model = tiny.transformer(tiny.TINY, joint, joint)
    tiny.save(folder, model, joint)


def snapshot(cache_folder, owner, name):
    """Return the folder of a commit in a cache with the layout that huggingface_hub uses."""
    repository = cache_folder / f"models--{owner}--{name}"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text(COMMIT)
    (repository / "snapshots").mkdir()
    return repository / "snapshots" / COMMIT


def test_local_folder_takes_precedence_over_the_hub(tmp_path, monkeypatch, cache):
    save(tmp_path / "owner/model")
    monkeypatch.chdir(tmp_path)
    assert find_model("owner/model").resolve() == tmp_path / "owner/model"
    assert find_model(tmp_path / "owner/model") == tmp_path / "owner/model"
    assert cache[1] == []


def test_cached_model_loads_without_a_network(cache):
    cache_folder, requests = cache
    folder = snapshot(cache_folder, "me", "en-de")
    save(folder)
    model_path = find_model("me/en-de")
    assert model_path == folder
    assert read_folder(model_path).languages.stated == ("en", "de")
    assert requests == [("me/en-de", True)]


def test_incomplete_cached_model_is_rejected_after_a_failed_fetch(cache):
    cache_folder, requests = cache
    folder = snapshot(cache_folder, "me", "en-de")
    save(folder)
    (folder / "model.safetensors").unlink()
    model_path = find_model("me/en-de")
    assert requests[-1] == ("me/en-de", False)
    with pytest.raises(ModelError, match=r"model\.safetensors: no such file"):
        read_folder(model_path)


def test_cached_model_of_another_library_is_rejected(cache):
    folder = snapshot(cache[0], "Helsinki-NLP", "opus-mt-en-de")
    folder.mkdir()
    (folder / "config.json").write_text('{"model_type": "marian"}')
    with pytest.raises(ModelError, match="'marian'"):
        read_folder(find_model("Helsinki-NLP/opus-mt-en-de"))


def test_unreachable_hub_error_suggests_a_manual_download(cache, monkeypatch):
    with pytest.raises(
        ModelError, match=r"(?s)no route to host.*hf download Helsinki-NLP/opus-mt-en-de"
    ) as caught:
        find_model("Helsinki-NLP/opus-mt-en-de")
    assert "long explanation" not in str(caught.value)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match="offline mode is on"):
        find_model("Helsinki-NLP/opus-mt-en-de")


EXPECTED_WARNINGS = {
    "license: apache-2.0": None,
    "language: de": None,
    "license: gemma": "licence 'gemma': the uses listed in its prohibited use policy are forbidden",
    "license: cc-by-nc-4.0": "licence 'cc-by-nc-4.0': commercial use is forbidden",
    "license: cc-by-nc-nd-4.0": "commercial use and the sharing of changed versions are forbidden",
    "license: llama3.1": "acceptable use policy",
    "license: other\nlicense_name: tencent-hunyuan-community\nlicense_link: LICENSE.txt": (
        "licence 'tencent-hunyuan-community' ('LICENSE.txt'): use in the European Union"
    ),
    "license: other\nlicense_name: tencent-hy-community": "must not be used to train other models",
    "license: other\nlicense_name: qwen-research": "commercial use is forbidden",
    "license: other\nlicense_name: mine": "licence 'mine': not a common licence; read what it forbids",
    "license: openrail": "the uses that it lists are forbidden",
    "license: [unclosed": None,
}


@pytest.mark.parametrize("front_matter", EXPECTED_WARNINGS)
def test_restrictive_licence_is_logged_before_the_download(front_matter, tmp_path, monkeypatch, caplog):
    events, cache_folder = [], tmp_path / "cache"

    def download(name, *, allow_patterns, local_files_only=False):
        if local_files_only and not (cache_folder / "config.json").exists():
            raise OSError("not in the cache")
        events.append([record.message for record in caplog.records])
        cache_folder.mkdir(exist_ok=True)
        (cache_folder / "README.md").write_text(f"---\n{front_matter}\n---\n")
        if len(allow_patterns) > 1:
            (cache_folder / "config.json").touch()
            (cache_folder / "model.safetensors").touch()
        return str(cache_folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert find_model("me/en-de") == cache_folder
    assert find_model("me/en-de") == cache_folder
    messages = [record.message for record in caplog.records]
    assert events[1] == messages and len(messages) == (EXPECTED_WARNINGS[front_matter] is not None)
    assert all(line.startswith("me/en-de: ") and EXPECTED_WARNINGS[front_matter] in line for line in messages)


def test_hub_model_requires_huggingface_hub(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'uwaga\[hub\]'"):
        find_model("me/en-de")


@pytest.mark.parametrize(
    "name", ["", "no-such", "/no/such", "../up", "a/../b", "a/b/c", "-x/y", "a/b\n", "ü/ö", "~no-such-user/x"]
)
def test_invalid_model_name_is_rejected(name, cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="no such folder"):
        find_model(name)
    assert cache[1] == []


def test_path_of_a_single_file_is_rejected(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(ModelError, match="a model is a folder"):
        find_model(tmp_path / "model.safetensors")


def test_bundled_model_is_the_default(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "BUNDLED", tmp_path / "bundled")
    with pytest.raises(ModelError, match="no bundled model"):
        find_model()
    save(tmp_path / "bundled")
    assert find_model() == tmp_path / "bundled"

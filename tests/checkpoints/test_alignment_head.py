"""Storage of the alignment head with models of all formats."""

import json
import os
from dataclasses import replace

import pytest
import tiny_models as tiny

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.alignment_head import HEAD_FILE, read_head, write_head
from uwaga.checkpoints.formats.uwaga.folder import FolderContents, save_model
from uwaga.checkpoints.rewrite import rewrite
from uwaga.conversion.export import export
from uwaga.conversion.quantise import quantise
from uwaga.errors import ModelError
from uwaga.settings import AlignmentHead, Settings, parse
from uwaga.training.final_model import trained_alignment_head
from uwaga.translator import Translator

HEAD = AlignmentHead(layer=2, head=1, step="reading")


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return tmp_path / "caches"


@pytest.fixture
def model(tmp_path):
    joint = tiny.tokeniser()
    transformer = tiny.transformer(tiny.TINY, joint, joint)
    parts = (tiny.TINY, tiny.DECODING, joint, joint, ("en", "de"), "# Card\n")
    save_model(tmp_path / "model", transformer, FolderContents(*parts, alignment_head=HEAD))
    return tmp_path / "model"


def test_alignment_head_survives_conversion_and_rewriting(model, tmp_path):
    assert formats.read(model).alignment_head == HEAD
    assert Translator.load(model, device="cpu").model.alignment_head == HEAD
    quantise(model, tmp_path / "int8")
    quantise(model, tmp_path / "int8")  # over itself
    assert formats.read(tmp_path / "int8").alignment_head == HEAD
    assert formats.read(tmp_path / "int8", memory_mapped=True).alignment_head == HEAD
    checkpoint = formats.read(model)
    rewrite(checkpoint, tmp_path / "again", checkpoint.weights.read, "# Card\n")
    rewrite(replace(checkpoint, alignment_head=None), tmp_path / "again", checkpoint.weights.read, "# Card\n")
    assert formats.read(tmp_path / "again").alignment_head == HEAD  # from the copied files
    export(model, tmp_path / "marian", "marian")
    assert Translator.load(tmp_path / "marian", device="cpu").model.alignment_head == HEAD


def test_translating_without_an_alignment_head_writes_no_files(model, tmp_path, cache_folder):
    (model / HEAD_FILE).unlink()
    before = sorted(model.iterdir())
    translator = Translator.load(model, device="cpu")
    assert translator.model.alignment_head is None
    assert translator.translate("I want to buy a car.", alignment=True).alignment is not None
    assert sorted(model.iterdir()) == before and not cache_folder.exists()


def test_alignment_head_of_a_model_file_is_stored_next_to_it(tmp_path):
    path = tmp_path / "model.npz"
    path.write_bytes(b"x")
    assert read_head(path) is None
    assert write_head(path, HEAD) == tmp_path / f"model.npz.{HEAD_FILE}"
    assert read_head(path) == HEAD


def test_alignment_head_of_a_read_only_folder_is_cached(model, cache_folder, monkeypatch):
    (model / HEAD_FILE).unlink()
    if os.geteuid():
        model.chmod(0o500)
    else:  # permissions do not apply to root
        (model / HEAD_FILE).mkdir()
        (model / HEAD_FILE / "x").touch()
    path = write_head(model, HEAD)
    assert path.parent == cache_folder / "uwaga" / "alignment"
    assert read_head(model) == HEAD
    model.chmod(0o700)
    os.utime(model / "config.json", (1, 1))  # another model at the same path
    assert read_head(model) is None


@pytest.mark.parametrize(
    "content", ["", "[]", '{"layer": 0}', '{"layer": 1, "heads": 2}', '{"layer": 1, "step": "x"}']
)
def test_damaged_alignment_head_file_is_rejected(model, content):
    (model / HEAD_FILE).write_text(content)
    with pytest.raises(ModelError, match=HEAD_FILE):
        formats.read(model)


def test_alignment_head_outside_the_decoder_is_rejected(model):
    (model / HEAD_FILE).write_text('{"layer": 9, "head": 1}')
    message = "the stored alignment head is 9.1 predicting, but the decoder has"
    with pytest.raises(ModelError, match=message):
        formats.read(model)
    assert any(message in problem for problem in formats.describe(model).problems)


def test_alignment_head_has_documented_json_and_string_forms(model):
    assert json.loads((model / HEAD_FILE).read_text()) == {"layer": 2, "head": 1, "step": "reading"}
    assert str(HEAD) == "2.1 reading" and str(AlignmentHead(layer=1)) == "1.mean predicting"


def test_guided_alignment_settings_determine_the_alignment_head():
    values = {"run": "run", "data": {"train": ["a", "b"], "dev": ["a", "b"], "languages": ["en", "de"]}}
    values["model"] = {"family": "transformer", "decoder_layers": 3}
    assert trained_alignment_head(parse(Settings, values, "settings")) is None
    values["training"] = {"guided_alignment": {}}
    assert trained_alignment_head(parse(Settings, values, "settings")) == AlignmentHead(layer=2, head=1)
    values["training"] = {"guided_alignment": {"layer": 1, "head": 4, "step": "reading"}}
    assert trained_alignment_head(parse(Settings, values, "settings")) == AlignmentHead(
        layer=1, head=4, step="reading"
    )
    values["model"] = {"family": "bahdanau"}
    values["training"] = {"guided_alignment": {"step": "reading"}}
    assert trained_alignment_head(parse(Settings, values, "settings")) == AlignmentHead(
        layer=1, step="reading"
    )


def test_model_description_includes_the_alignment_head(model):
    assert formats.describe(model).alignment_head == "2.1 reading"
    assert formats.describe(model).to_dict()["alignment_head"] == "2.1 reading"
    (model / HEAD_FILE).write_text("{")
    assert HEAD_FILE in formats.describe(model).problems[-1]
    (model / HEAD_FILE).unlink()
    assert "alignment_head" not in formats.describe(model).to_dict()

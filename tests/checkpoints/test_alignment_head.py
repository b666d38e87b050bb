"""The head that aligns, kept with a model of whatever format."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
import tiny_models as tiny

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.alignment_head import HEAD_FILE, read_head, write_head
from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.checkpoints.rewrite import rewrite
from uwaga.conversion.export import export
from uwaga.conversion.quantise import quantise
from uwaga.errors import ModelError
from uwaga.settings import AlignmentHead, Settings, parse
from uwaga.training.final_model import taught_head
from uwaga.translator import Translator

HEAD = AlignmentHead(layer=2, head=1, step="reading")


@pytest.fixture(autouse=True)
def caches(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    return tmp_path / "caches"


@pytest.fixture
def model(tmp_path):
    joint = tiny.tokeniser()
    made = tiny.transformer(tiny.TINY, joint, joint)
    parts = (made, tiny.TINY, tiny.DECODING, joint, joint, ("en", "de"), "# Card\n")
    save_model(tmp_path / "model", *parts, alignment_head=HEAD)
    return tmp_path / "model"


def test_it_goes_where_the_model_goes(model, tmp_path):
    assert formats.read(model).alignment_head == HEAD
    assert Translator.load(model, device="cpu").model.alignment_head == HEAD
    quantise(model, tmp_path / "int8")
    quantise(model, tmp_path / "int8")  # over itself
    assert formats.read(tmp_path / "int8").alignment_head == HEAD
    assert formats.read(tmp_path / "int8", shared=True).alignment_head == HEAD
    checkpoint = formats.read(model)
    rewrite(checkpoint, tmp_path / "again", checkpoint.weights.read, "# Card\n")
    rewrite(replace(checkpoint, alignment_head=None), tmp_path / "again", checkpoint.weights.read, "# Card\n")
    assert formats.read(tmp_path / "again").alignment_head == HEAD  # of the files beside
    export(model, tmp_path / "marian", "marian")
    assert Translator.load(tmp_path / "marian", device="cpu").model.alignment_head == HEAD


def test_without_a_choice_there_is_none_and_nothing_is_written(model, tmp_path, caches):
    (model / HEAD_FILE).unlink()
    before = sorted(model.iterdir())
    translator = Translator.load(model, device="cpu")
    assert translator.model.alignment_head is None
    assert translator.translate("I want to buy a car.", alignment=True).alignment is not None
    assert sorted(model.iterdir()) == before and not caches.exists()


def test_a_model_that_is_a_file_has_it_beside_itself(tmp_path):
    place = tmp_path / "model.npz"
    place.write_bytes(b"x")
    assert read_head(place) is None
    assert write_head(place, HEAD) == tmp_path / f"model.npz.{HEAD_FILE}"
    assert read_head(place) == HEAD


def test_what_cannot_be_written_is_kept_among_the_caches(model, caches, monkeypatch):
    (model / HEAD_FILE).unlink()
    if os.geteuid():
        model.chmod(0o500)
    else:  # whom no mode keeps out
        (model / HEAD_FILE).mkdir()
        (model / HEAD_FILE / "x").touch()
    place = write_head(model, HEAD)
    assert place.parent == caches / "uwaga" / "alignment"
    assert read_head(model) == HEAD
    model.chmod(0o700)
    os.utime(model / "config.json", (1, 1))  # another model has taken the place
    assert read_head(model) is None


@pytest.mark.parametrize(
    "content", ["", "[]", '{"layer": 0}', '{"layer": 1, "heads": 2}', '{"layer": 1, "step": "x"}']
)
def test_a_damaged_choice_is_named(model, content):
    (model / HEAD_FILE).write_text(content)
    with pytest.raises(ModelError, match=HEAD_FILE):
        formats.read(model)


def test_a_head_that_the_decoder_lacks_is_refused(model):
    (model / HEAD_FILE).write_text('{"layer": 9, "head": 1}')
    message = "the stored alignment head is 9.1 predicting, but the decoder has"
    with pytest.raises(ModelError, match=message):
        formats.read(model)
    assert any(message in problem for problem in formats.describe(model).problems)


def test_the_file_says_what_it_means(model):
    assert json.loads((model / HEAD_FILE).read_text()) == {"layer": 2, "head": 1, "step": "reading"}
    assert str(HEAD) == "2.1 reading" and str(AlignmentHead(layer=1)) == "1.mean predicting"


def test_a_guided_run_writes_the_head_that_it_taught():
    values = {"run": "run", "data": {"train": ["a", "b"], "dev": ["a", "b"], "languages": ["en", "de"]}}
    values["model"] = {"family": "transformer", "decoder_layers": 3}
    assert taught_head(parse(Settings, values, "settings")) is None
    values["training"] = {"guided_alignment": {}}
    assert taught_head(parse(Settings, values, "settings")) == AlignmentHead(layer=2, head=1)
    values["training"] = {"guided_alignment": {"layer": 1, "head": 4, "step": "reading"}}
    assert taught_head(parse(Settings, values, "settings")) == AlignmentHead(layer=1, head=4, step="reading")
    values["model"] = {"family": "bahdanau"}
    values["training"] = {"guided_alignment": {"step": "reading"}}
    assert taught_head(parse(Settings, values, "settings")) == AlignmentHead(layer=1, step="reading")


def test_what_a_model_is_says_it_too(model):
    assert formats.describe(model).alignment_head == "2.1 reading"
    assert formats.describe(model).to_dict()["alignment_head"] == "2.1 reading"
    (model / HEAD_FILE).write_text("{")
    assert HEAD_FILE in formats.describe(model).problems[-1]
    (model / HEAD_FILE).unlink()
    assert "alignment_head" not in formats.describe(model).to_dict()

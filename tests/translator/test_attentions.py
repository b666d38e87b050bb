"""Every attention matrix of translations and of texts that a model reads alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tiny_models as tiny
import torch
from precision import tolerance
from recurrent_variants import VARIANTS

import uwaga
from uwaga.engine.model import NativeModel
from uwaga.errors import SettingsError
from uwaga.models.build import build_model
from uwaga.models.ensemble import Ensemble
from uwaga.results.attention import Attentions, select_head
from uwaga.translator import Model, Translator

pytestmark = pytest.mark.numerical

JOINT = tiny.tokeniser()
TEXTS = ["I want to buy a car, but it is too expensive.", "Hello.", "He left. We are going home now!"]
WAYS = [
    {"beam": 1},
    {"beam": 4, "nbest": 3},
    {"sample": True, "nbest": 2, "seed": 3},
    {"beam": 2, "max_length": 3},
    {"beam": 2, "max_length": 1, "force_end": True},
    {"mbr": 4, "seed": 1},
]
RECURRENT = ["bahdanau", "bahdanau-conditional", "luong", "luong-dot-unfed", "luong-location-local-m", "gnmt"]


@pytest.fixture(scope="module")
def bundled():
    made = {
        precision: uwaga.load(dtype=precision, engine="native", threads=2, device="cpu")
        for precision in ("float32", "bfloat16", "int8")
    }
    return made | {"torch": uwaga.load(engine="torch", device="cpu")}


def recurrent(name: str) -> Translator:
    torch.manual_seed(1)
    model = build_model(VARIANTS[name], JOINT.symbols, JOINT.size, JOINT.size).eval()
    return Translator(Model(model, JOINT, JOINT, tiny.SEARCH))


def tables(found):
    return [one for one in (found.encoder, found.decoder, found.cross) if one is not None]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("engine", ["float32", "bfloat16", "int8", "torch"])
def test_recording_changes_no_bit_of_a_translation(bundled, engine, way):
    model = bundled[engine]
    plain, seen, averaged = (
        model.translate(TEXTS, attention=attention, **way) for attention in (False, "all", True)
    )
    for one, other, wanted in zip(plain, seen, averaged, strict=True):
        lists = ((each, *each.alternatives) for each in (one, other, wanted))
        for before, found, mean in zip(*lists, strict=True):
            assert (before.text, before.score, before.log_prob) == (found.text, found.score, found.log_prob)
            assert (before.tokens, before.token_scores) == (found.tokens, found.token_scores)
            assert before.attention is before.attentions is mean.attentions is None
            rows, columns = len(found.token_scores), len(found.source_tokens) + 1
            assert found.attentions.encoder.shape == (4, 4, columns, columns)
            assert found.attentions.decoder.shape == (2, 4, rows, rows)
            assert found.attentions.cross.shape == (2, 4, rows, columns)
            assert found.attention.shape == mean.attention.shape == (rows, columns)
            if engine == "torch":
                np.testing.assert_allclose(found.attention, mean.attention, **tolerance(1.0))
            else:
                assert np.array_equal(found.attention, mean.attention)


def test_M10_all_32_matrices_of_the_bundled_model_are_torchs(bundled):
    german = [one.text for one in bundled["float32"].translate(TEXTS)]
    for text, target in zip(TEXTS, german, strict=True):
        ours, theirs = (bundled[name].attend(text, target).attentions for name in ("float32", "torch"))
        assert sum(table.shape[0] * table.shape[1] for table in tables(ours)) == 32
        for one, other in zip(tables(ours), tables(theirs), strict=True):
            assert np.abs(one - other).max() < 1e-4
            np.testing.assert_allclose(one.sum(-1), 1.0, **tolerance(1.0))


@pytest.mark.parametrize("engine", ["float32", "torch"])
def test_the_mean_of_the_last_layers_heads_is_the_attention(bundled, engine):
    led = bundled[engine].attend(TEXTS[0], "Ich will ein Auto kaufen.")
    np.testing.assert_allclose(led.attentions.cross[-1].mean(axis=0), led.attention, **tolerance(1.0))
    assert np.array_equal(select_head(led.attentions.cross, -1, None), led.attention)


def test_sentences_of_a_text_do_not_see_each_other(bundled):
    model = bundled["float32"]
    parts = model.translate(["He left.", "We are going home now!"], attention="all")
    whole = model.translate("He left. We are going home now!", split="sentences", attention="all")
    for name in ("encoder", "decoder", "cross"):
        one, other = (getattr(part.attentions, name) for part in parts)
        found = getattr(whole.attentions, name)
        rows, columns = one.shape[2:]
        assert np.array_equal(found[..., :rows, :columns], one)
        assert np.array_equal(found[..., rows:, columns:], other)
        assert not found[..., :rows, columns:].any() and not found[..., rows:, :columns].any()
    assert np.array_equal(select_head(whole.attentions.cross, -1, None), whole.attention)


def test_nothing_read_is_nothing_recorded(bundled):
    empty, copied = bundled["float32"].translate(["", "- -"], attention="all")
    assert empty.attentions is copied.attentions is None


def test_each_step_of_a_pivot_has_its_own():
    models = [
        Translator(
            Model(tiny.transformer(tiny.TINY, JOINT, JOINT, seed), JOINT, JOINT, tiny.SEARCH, languages)
        )
        for seed, languages in ((1, ("a", "b")), (2, ("b", "c")))
    ]
    found = models[0].then(*models[1:]).translate(tiny.ENGLISH[0], attention="all", nbest=2)
    assert found.attention is found.attentions is None
    assert all(one.attentions is None for one in found.alternatives)
    for step, model in zip(found.steps, models, strict=True):
        assert step.attentions == model.translate(step.source, attention="all", nbest=2).attentions


@pytest.mark.parametrize("name", RECURRENT)
def test_M13_to_M15_recurrent_models_have_one_head_across(name):
    model = recurrent(name)
    for led in (model.translate(tiny.ENGLISH[0], attention="all"), model.attend(*pair())):
        assert led.attentions.encoder is led.attentions.decoder is None
        assert led.attentions.cross.shape[:2] == (1, 1)
        np.testing.assert_allclose(led.attentions.cross.sum(-1), 1.0, **tolerance(1.0))
        assert np.array_equal(led.attentions.cross[0, 0], led.attention)
    averaged = model.translate(tiny.ENGLISH[0], attention=True).attention
    np.testing.assert_allclose(
        model.translate(tiny.ENGLISH[0], attention="all").attention, averaged, **tolerance(1.0)
    )


def pair():
    return "The dog sees the cat.", "Der Hund sieht die Katze."


def test_M9_a_fading_window_weighs_less_than_all():
    found = recurrent("luong-local-p").attend(*pair()).attentions.cross
    assert (found >= 0).all() and (found.sum(-1) < 1 + 1e-6).all()


@pytest.mark.parametrize("name", ["cho", "sutskever"])
def test_models_without_attention_have_none(name):
    model = recurrent(name)
    assert model.translate(tiny.ENGLISH[0], attention="all").attentions is None
    with pytest.raises(SettingsError, match="no attention to look at"):
        model.attend(tiny.ENGLISH[0])


@pytest.mark.parametrize("kind", ["ssru", "aan"])
def test_M26_M35_decoders_without_self_attention_have_none_there(kind):
    shape = tiny.TINY.model_copy(update={"self_attention": kind})
    found = Translator(Model(tiny.transformer(shape, JOINT, JOINT), JOINT, JOINT, tiny.SEARCH)).attend(
        *pair()
    )
    assert found.attentions.decoder is None
    assert found.attentions.cross.shape[:2] == (2, 2) and found.attentions.encoder.shape[:2] == (1, 2)


def test_an_ensemble_says_whom_to_ask():
    members = [tiny.transformer(tiny.TINY, JOINT, JOINT, seed) for seed in (1, 2)]
    model = Translator(Model(Ensemble(members), JOINT, JOINT, tiny.SEARCH))
    with pytest.raises(SettingsError, match="load one of them alone, or ask for attention=True"):
        model.translate(tiny.ENGLISH[0], attention="all")
    for led in (model.attend(*pair()), model.attend(tiny.ENGLISH[0])):
        assert led.attention is not None and led.attentions is None


def test_not_asked_for_nothing_is_recorded(bundled, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("recorded")

    monkeypatch.setattr(NativeModel, "recording", refuse)
    monkeypatch.setattr(NativeModel, "attentions", refuse)
    for attention in (False, None, True):
        bundled["float32"].translate(TEXTS, attention=attention)
    with pytest.raises(AssertionError, match="recorded"):
        bundled["float32"].translate(TEXTS, attention="all")


def test_what_is_recorded_can_be_compared_and_written(bundled):
    one, other = (bundled["float32"].translate("Hello.", attention="all") for _ in range(2))
    assert one == other and one.attentions == other.attentions and one.attentions
    assert hash(one.attentions) == hash(other.attentions)
    assert one.attentions != Attentions(one.attentions.encoder) and not Attentions()
    read = json.loads(one.to_json())["attentions"]
    assert set(read) == {"encoder", "decoder", "cross"}
    np.testing.assert_allclose(np.array(read["cross"]), one.attentions.cross, atol=1e-6)
    assert "cross (2, 4," in repr(one.attentions)


def test_another_word_for_all_is_refused(bundled):
    with pytest.raises(SettingsError, match="attention must be one of True, False, all, not 'every'"):
        bundled["float32"].translate("Hello.", attention="every")

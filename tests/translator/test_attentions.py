"""Attention matrices recorded by ``translate`` and ``attend``."""

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
SEARCH_OPTIONS = [
    {"beam": 1}, {"beam": 4, "nbest": 3}, {"sample": True, "nbest": 2, "seed": 3},
    {"beam": 2, "max_length": 3}, {"beam": 2, "max_length": 1, "force_end": True}, {"mbr": 4, "seed": 1},
]  # fmt: skip
RECURRENT_MODELS = [
    "bahdanau", "bahdanau-conditional", "luong", "luong-dot-unfed", "luong-location-local-m", "gnmt",
]  # fmt: skip


@pytest.fixture(scope="module")
def bundled():
    translators = {
        precision: uwaga.load(dtype=precision, engine="native", threads=2, device="cpu")
        for precision in ("float32", "bfloat16", "int8")
    }
    return translators | {"torch": uwaga.load(engine="torch", device="cpu")}


def recurrent_translator(name: str) -> Translator:
    torch.manual_seed(1)
    model = build_model(VARIANTS[name], JOINT.symbols, JOINT.size, JOINT.size).eval()
    return Translator(Model(model, JOINT, JOINT, tiny.SEARCH))


def matrices(attentions):
    return [
        matrix for matrix in (attentions.encoder, attentions.decoder, attentions.cross) if matrix is not None
    ]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("options", SEARCH_OPTIONS, ids=str)
@pytest.mark.parametrize("engine", ["float32", "bfloat16", "int8", "torch"])
def test_recording_attentions_does_not_change_translations(bundled, engine, options):
    model = bundled[engine]
    plain, full, averaged = (
        model.translate(TEXTS, attention=attention, **options) for attention in (False, "all", True)
    )
    for plain_result, full_result, mean_result in zip(plain, full, averaged, strict=True):
        lists = ((result, *result.alternatives) for result in (plain_result, full_result, mean_result))
        for expected, actual, mean in zip(*lists, strict=True):
            assert (expected.text, expected.score, expected.log_prob) == (
                actual.text,
                actual.score,
                actual.log_prob,
            )
            assert (expected.tokens, expected.token_scores) == (actual.tokens, actual.token_scores)
            assert expected.attention is expected.attentions is mean.attentions is None
            rows, columns = len(actual.token_scores), len(actual.source_tokens) + 1
            assert actual.attentions.encoder.shape == (4, 4, columns, columns)
            assert actual.attentions.decoder.shape == (2, 4, rows, rows)
            assert actual.attentions.cross.shape == (2, 4, rows, columns)
            assert actual.attention.shape == mean.attention.shape == (rows, columns)
            if engine == "torch":
                np.testing.assert_allclose(actual.attention, mean.attention, **tolerance(1.0))
            else:
                assert np.array_equal(actual.attention, mean.attention)


def test_M10_all_32_attention_matrices_of_the_bundled_model_match_torch(bundled):
    targets = [translation.text for translation in bundled["float32"].translate(TEXTS)]
    for text, target in zip(TEXTS, targets, strict=True):
        actual, expected = (bundled[name].attend(text, target).attentions for name in ("float32", "torch"))
        assert sum(matrix.shape[0] * matrix.shape[1] for matrix in matrices(actual)) == 32
        for matrix, reference in zip(matrices(actual), matrices(expected), strict=True):
            assert np.abs(matrix - reference).max() < 1e-4
            np.testing.assert_allclose(matrix.sum(-1), 1.0, **tolerance(1.0))


@pytest.mark.parametrize("engine", ["float32", "torch"])
def test_attention_is_the_mean_of_the_heads_of_the_last_layer(bundled, engine):
    attended = bundled[engine].attend(TEXTS[0], "Ich will ein Auto kaufen.")
    np.testing.assert_allclose(
        attended.attentions.cross[-1].mean(axis=0), attended.attention, **tolerance(1.0)
    )
    assert np.array_equal(select_head(attended.attentions.cross, -1, None), attended.attention)


def test_attention_between_different_sentences_is_zero(bundled):
    model = bundled["float32"]
    parts = model.translate(["He left.", "We are going home now!"], attention="all")
    combined = model.translate("He left. We are going home now!", split="sentences", attention="all")
    for name in ("encoder", "decoder", "cross"):
        first, second = (getattr(part.attentions, name) for part in parts)
        matrix = getattr(combined.attentions, name)
        rows, columns = first.shape[2:]
        assert np.array_equal(matrix[..., :rows, :columns], first)
        assert np.array_equal(matrix[..., rows:, columns:], second)
        assert not matrix[..., :rows, columns:].any() and not matrix[..., rows:, :columns].any()
    assert np.array_equal(select_head(combined.attentions.cross, -1, None), combined.attention)


def test_empty_and_copied_texts_have_no_attention_matrices(bundled):
    empty, copied = bundled["float32"].translate(["", "- -"], attention="all")
    assert empty.attentions is copied.attentions is None


def test_pivot_translation_records_attentions_of_each_model():
    models = [
        Translator(
            Model(tiny.transformer(tiny.TINY, JOINT, JOINT, seed), JOINT, JOINT, tiny.SEARCH, languages)
        )
        for seed, languages in ((1, ("a", "b")), (2, ("b", "c")))
    ]
    translation = models[0].then(*models[1:]).translate(tiny.ENGLISH[0], attention="all", nbest=2)
    assert translation.attention is translation.attentions is None
    assert all(alternative.attentions is None for alternative in translation.alternatives)
    for step, model in zip(translation.steps, models, strict=True):
        expected = model.translate(step.source, attention="all", nbest=2).attentions
        for kind in ("encoder", "decoder", "cross"):
            weights = getattr(expected, kind)
            np.testing.assert_allclose(getattr(step.attentions, kind), weights, **tolerance(weights))


@pytest.mark.parametrize("name", RECURRENT_MODELS)
def test_M13_to_M15_recurrent_models_have_one_cross_attention_head(name):
    model = recurrent_translator(name)
    for attended in (model.translate(tiny.ENGLISH[0], attention="all"), model.attend(*sentence_pair())):
        assert attended.attentions.encoder is attended.attentions.decoder is None
        assert attended.attentions.cross.shape[:2] == (1, 1)
        np.testing.assert_allclose(attended.attentions.cross.sum(-1), 1.0, **tolerance(1.0))
        assert np.array_equal(attended.attentions.cross[0, 0], attended.attention)
    averaged = model.translate(tiny.ENGLISH[0], attention=True).attention
    np.testing.assert_allclose(
        model.translate(tiny.ENGLISH[0], attention="all").attention, averaged, **tolerance(1.0)
    )


def sentence_pair():
    return "The dog sees the cat.", "Der Hund sieht die Katze."


def test_M9_local_attention_weights_sum_to_at_most_one():
    cross = recurrent_translator("luong-local-p").attend(*sentence_pair()).attentions.cross
    assert (cross >= 0).all() and (cross.sum(-1) < 1 + 1e-6).all()


@pytest.mark.parametrize("name", ["cho", "sutskever"])
def test_models_without_attention_record_no_matrices(name):
    model = recurrent_translator(name)
    assert model.translate(tiny.ENGLISH[0], attention="all").attentions is None
    with pytest.raises(SettingsError, match="no attention to show"):
        model.attend(tiny.ENGLISH[0])


@pytest.mark.parametrize("kind", ["ssru", "aan"])
def test_M26_M35_ssru_and_aan_models_have_no_decoder_self_attention_matrices(kind):
    shape = tiny.TINY.model_copy(update={"self_attention": kind})
    attended = Translator(Model(tiny.transformer(shape, JOINT, JOINT), JOINT, JOINT, tiny.SEARCH)).attend(
        *sentence_pair()
    )
    assert attended.attentions.decoder is None
    assert attended.attentions.cross.shape[:2] == (2, 2) and attended.attentions.encoder.shape[:2] == (1, 2)


def test_ensembles_reject_requests_for_all_attention_matrices():
    members = [tiny.transformer(tiny.TINY, JOINT, JOINT, seed) for seed in (1, 2)]
    model = Translator(Model(Ensemble(members), JOINT, JOINT, tiny.SEARCH))
    with pytest.raises(SettingsError, match="load one of them alone, or use attention=True"):
        model.translate(tiny.ENGLISH[0], attention="all")
    for attended in (model.attend(*sentence_pair()), model.attend(tiny.ENGLISH[0])):
        assert attended.attention is not None and attended.attentions is None


def test_attention_matrices_are_recorded_only_if_all_are_requested(bundled, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("recorded")

    monkeypatch.setattr(NativeModel, "recording", refuse)
    monkeypatch.setattr(NativeModel, "attentions", refuse)
    for attention in (False, None, True):
        bundled["float32"].translate(TEXTS, attention=attention)
    with pytest.raises(AssertionError, match="recorded"):
        bundled["float32"].translate(TEXTS, attention="all")


def test_attentions_can_be_compared_and_serialised(bundled):
    first, second = (bundled["float32"].translate("Hello.", attention="all") for _ in range(2))
    assert first == second and first.attentions == second.attentions and first.attentions
    assert hash(first.attentions) == hash(second.attentions)
    assert first.attentions != Attentions(first.attentions.encoder) and not Attentions()
    document = json.loads(first.to_json())["attentions"]
    assert set(document) == {"encoder", "decoder", "cross"}
    np.testing.assert_allclose(np.array(document["cross"]), first.attentions.cross, atol=1e-6)
    assert "cross (2, 4," in repr(first.attentions)


def test_unknown_value_of_the_attention_option_is_rejected(bundled):
    with pytest.raises(SettingsError, match="attention must be one of True, False, all, not 'every'"):
        bundled["float32"].translate("Hello.", attention="every")


@pytest.mark.parametrize(
    "text", ["I give {name} the car.", "Open {name} or {} now.", "%(name)s sees $USER and %d dogs."]
)
def test_tokens_returned_by_attend_contain_placeholders_as_written(bundled, text):
    translator = bundled["int8"]
    translation = translator.attend(text)
    assert translation.attention.shape[1] == len(translation.source_tokens) + 1
    for tokens, words in ((translation.source_tokens, text), (translation.tokens, translation.text)):
        assert "".join(tokens).replace("\u2581", " ").split() == words.split()
    assert translation.tokens != translator.translate(text).tokens  # those of the model

"""Decoders without self-attention (M26, M35): translation, scores, attention and conversion."""

from pathlib import Path

import numpy as np
import pytest
import tiny_models as tiny
import torch
from command_line import run_uwaga
from precision import tolerance

import uwaga
from uwaga.checkpoints.registry import describe
from uwaga.errors import ModelError
from uwaga.translator.score import parallel_scorer, score_in_batches, step_scorer
from uwaga.translator.text import TokenPair

pytestmark = pytest.mark.numerical

JOINT = tiny.tokeniser()
TEXTS = [*tiny.ENGLISH[:4], "Hi", "the the the the the the the", "A small river."]


@pytest.fixture(scope="module", params=["ssru", "aan"])
def folder(request, tmp_path_factory) -> Path:
    shape = tiny.TINY.model_copy(update={"self_attention": request.param})
    model = tiny.transformer(shape, JOINT, JOINT)
    path = tmp_path_factory.mktemp(request.param) / "model"
    tiny.save(path, model, JOINT)
    return path


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"beam": 4, "nbest": 3},
        {"beam": 3, "length_penalty": 0.0, "no_repeat_ngram": 2},
        {"sample": True, "nbest": 2, "seed": 5, "top_k": 9, "temperature": 1.5},
    ],
)
def test_M26_M35_translations_of_ssru_and_aan_models_do_not_depend_on_the_batch(folder, options):
    translator = uwaga.load(folder, engine="torch", device="cpu")
    batch = translator.translate(TEXTS, **options)
    for text, expected in zip(TEXTS, batch, strict=True):
        separate = translator.translate(text, **options)
        assert (separate.text, separate.tokens, separate.truncated) == (
            expected.text,
            expected.tokens,
            expected.truncated,
        )
        np.testing.assert_allclose(
            separate.token_scores, expected.token_scores, **tolerance(expected.token_scores)
        )


def test_M26_M35_parallel_scores_equal_stepwise_scores(folder):
    model = uwaga.load(folder, engine="torch", device="cpu").decoder
    sources = [JOINT.add_special_tokens(JOINT.encode(text)) for text in TEXTS]
    targets = [JOINT.add_special_tokens(JOINT.encode(text)) for text in tiny.GERMAN[: len(TEXTS)]]
    pairs = list(map(TokenPair, sources, targets))
    parallel = score_in_batches(parallel_scorer(model), pairs, 200)
    stepped = score_in_batches(step_scorer(model), pairs, 200)
    for actual, expected in zip(parallel, stepped, strict=True):
        np.testing.assert_allclose(actual, expected, **tolerance(expected))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_M26_M35_ssru_and_aan_models_translate_with_16_bit_weights(folder, dtype):
    translator = uwaga.load(folder, device="cpu", dtype=dtype, engine="torch")
    assert next(translator.decoder.parameters()).dtype == getattr(torch, dtype)
    assert len(translator.translate(TEXTS, max_length=5)) == len(TEXTS)


def test_M26_M35_ssru_and_aan_models_record_cross_attention(folder, tmp_path):
    translator = uwaga.load(folder, engine="torch", device="cpu")
    translation = translator.translate(TEXTS[0], attention=True)
    assert translation.attention.shape == (len(translation.token_scores), len(translation.source_tokens) + 1)
    np.testing.assert_allclose(translation.attention.sum(1), 1.0, **tolerance(1.0))
    run_uwaga("attend", TEXTS[0], "--model", folder)


def test_M26_M35_ssru_and_aan_models_form_ensembles_with_transformers(folder, tmp_path):
    model = tiny.transformer(tiny.TINY, JOINT, JOINT, seed=3)
    tiny.save(tmp_path / "other", model, JOINT)
    mixed = uwaga.load([folder, tmp_path / "other"], engine="torch", device="cpu")
    for text, translation in zip(TEXTS, mixed.translate(TEXTS, beam=2), strict=True):
        assert mixed.translate(text, beam=2).tokens == translation.tokens
    ensemble = uwaga.load([folder, folder], engine="torch", device="cpu").translate(TEXTS, beam=3)
    single = uwaga.load(folder, engine="torch", device="cpu").translate(TEXTS, beam=3)
    assert [translation.tokens for translation in ensemble] == [translation.tokens for translation in single]


def test_M26_M35_description_states_the_number_of_parameters(folder):
    description = describe(folder)
    loaded = uwaga.load(folder, engine="torch", device="cpu").decoder
    distinct = {id(weight): weight.numel() for weight in loaded.parameters()}
    assert description.weights.parameters == sum(distinct.values())
    assert description.problems == ()
    assert description.sizes["self attention"] == folder.parent.name.rstrip("0")
    assert ("aan layers" in description.sizes) == (description.sizes["self attention"] == "aan")


def test_native_engine_runs_ssru_models_and_rejects_aan_models(folder, tmp_path):
    """M26 gives the same tokens on the engine as in torch and runs in int8; M35 is refused with an error."""
    translator = uwaga.load(folder, device="cpu")
    if describe(folder).sizes["self attention"] == "aan":
        assert isinstance(translator.decoder, torch.nn.Module)
        for options in ({"engine": "native"}, {"dtype": "int8"}):
            with pytest.raises(ModelError, match=r"decoders with self-attention or SSRU, not .*aan.*torch"):
                uwaga.load(folder, **options)
        check_rejected(folder, tmp_path / "int8", "--int8")
        return
    assert not isinstance(translator.decoder, torch.nn.Module)
    reference = uwaga.load(folder, engine="torch", device="cpu")
    for options in ({"beam": 1}, {"beam": 4, "nbest": 2}, {"sample": True, "seed": 3}):
        actual, expected = (model.translate(TEXTS, **options) for model in (translator, reference))
        assert [result.tokens for result in actual] == [result.tokens for result in expected]
    run_uwaga("convert", folder, tmp_path / "int8", "--int8")
    quantised = uwaga.load(tmp_path / "int8")
    batch = quantised.translate(TEXTS, beam=3)
    for text, expected in zip(TEXTS, batch, strict=True):
        separate = quantised.translate(text, beam=3)
        assert (separate.tokens, separate.token_scores) == (expected.tokens, expected.token_scores)


def test_conversion_of_ssru_and_aan_models_to_marian_is_rejected(folder, tmp_path):
    check_rejected(folder, tmp_path / "out", "--to=marian")


def check_rejected(folder, out, option):
    result = run_uwaga("convert", folder, out, option, code=None)
    assert result.exit_code != 0
    assert "self_attention" in " ".join(f"{result.output} {result.exception}".split())
    assert not out.exists()

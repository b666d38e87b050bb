"""Decoders without self-attention (M26, M35) in everything that translates, scores and shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny_models as tiny
import torch
from precision import tolerance
from typer.testing import CliRunner

import uwaga
from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.checkpoints.registry import describe
from uwaga.cli.main import app
from uwaga.errors import ModelError
from uwaga.translator.score import in_batches, parallel_scorer, step_scorer

pytestmark = pytest.mark.numerical

RUN = CliRunner()
JOINT = tiny.tokeniser()
TEXTS = [*tiny.ENGLISH[:4], "Hi", "the the the the the the the", "A small river."]


@pytest.fixture(scope="module", params=["ssru", "aan"])
def folder(request, tmp_path_factory) -> Path:
    shape = tiny.TINY.model_copy(update={"self_attention": request.param})
    model = tiny.transformer(shape, JOINT, JOINT)
    place = tmp_path_factory.mktemp(request.param) / "model"
    save_model(place, model, shape, tiny.DECODING, JOINT, JOINT, ("en", "de"), "card")
    return place


@pytest.mark.parametrize(
    "options",
    [
        {"beam": 1},
        {"beam": 4, "nbest": 3},
        {"beam": 3, "length_penalty": 0.0, "no_repeat_ngram": 2},
        {"sample": True, "nbest": 2, "seed": 5, "top_k": 9, "temperature": 1.5},
    ],
)
def test_M26_M35_a_translation_does_not_depend_on_its_batch(folder, options):
    translator = uwaga.load(folder, engine="torch", device="cpu")
    together = translator.translate(TEXTS, **options)
    for text, found in zip(TEXTS, together, strict=True):
        alone = translator.translate(text, **options)
        assert (alone.text, alone.tokens, alone.truncated) == (found.text, found.tokens, found.truncated)
        np.testing.assert_allclose(alone.token_scores, found.token_scores, **tolerance(found.token_scores))


def test_M26_M35_teacher_forcing_gives_the_scores_of_the_steps(folder):
    model = uwaga.load(folder, engine="torch", device="cpu").decoder
    sources = [JOINT.add_special_tokens(JOINT.encode(text)) for text in TEXTS]
    targets = [JOINT.add_special_tokens(JOINT.encode(text)) for text in tiny.GERMAN[: len(TEXTS)]]
    together = in_batches(parallel_scorer(model), sources, targets, 200)
    stepped = in_batches(step_scorer(model), sources, targets, 200)
    for one, other in zip(together, stepped, strict=True):
        np.testing.assert_allclose(one, other, **tolerance(other))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_M26_M35_sixteen_bits_translate(folder, dtype):
    translator = uwaga.load(folder, device="cpu", dtype=dtype, engine="torch")
    assert next(translator.decoder.parameters()).dtype == getattr(torch, dtype)
    assert len(translator.translate(TEXTS, max_length=5)) == len(TEXTS)


def test_M26_M35_cross_attention_is_still_there_to_see(folder, tmp_path):
    translator = uwaga.load(folder, engine="torch", device="cpu")
    found = translator.translate(TEXTS[0], attention=True)
    assert found.attention.shape == (len(found.token_scores), len(found.source_tokens) + 1)
    np.testing.assert_allclose(found.attention.sum(1), 1.0, **tolerance(1.0))
    done = RUN.invoke(app, ["attend", TEXTS[0], "--model", str(folder)])
    assert done.exit_code == 0, done.output


def test_M26_M35_models_mix_with_others_in_an_ensemble(folder, tmp_path):
    model = tiny.transformer(tiny.TINY, JOINT, JOINT, seed=3)
    save_model(tmp_path / "other", model, tiny.TINY, tiny.DECODING, JOINT, JOINT, ("en", "de"), "card")
    mixed = uwaga.load([folder, tmp_path / "other"], engine="torch", device="cpu")
    for text, found in zip(TEXTS, mixed.translate(TEXTS, beam=2), strict=True):
        assert mixed.translate(text, beam=2).tokens == found.tokens
    twice = uwaga.load([folder, folder], engine="torch", device="cpu").translate(TEXTS, beam=3)
    once = uwaga.load(folder, engine="torch", device="cpu").translate(TEXTS, beam=3)
    assert [one.tokens for one in twice] == [one.tokens for one in once]


def test_M26_M35_info_counts_every_number(folder):
    found = describe(folder)
    loaded = uwaga.load(folder, engine="torch", device="cpu").decoder
    distinct = {id(one): one.numel() for one in loaded.parameters()}
    assert found.weights.parameters == sum(distinct.values())
    assert found.problems == ()
    assert found.sizes["self attention"] == folder.parent.name.rstrip("0")
    assert ("aan layers" in found.sizes) == (found.sizes["self attention"] == "aan")


def test_the_engine_runs_ssru_and_leaves_averages_to_torch(folder, tmp_path):
    """M26 on the engine: torch's tokens, float folder and int8; M35 is refused by name."""
    translator = uwaga.load(folder, device="cpu")
    if describe(folder).sizes["self attention"] == "aan":
        assert isinstance(translator.decoder, torch.nn.Module)
        for options in ({"engine": "native"}, {"dtype": "int8"}):
            with pytest.raises(ModelError, match=r"decoders with self-attention or SSRU, not .*aan.*torch"):
                uwaga.load(folder, **options)
        refused(folder, tmp_path / "int8", "--int8")
        return
    assert not isinstance(translator.decoder, torch.nn.Module)
    torched = uwaga.load(folder, engine="torch", device="cpu")
    for options in ({"beam": 1}, {"beam": 4, "nbest": 2}, {"sample": True, "seed": 3}):
        ours, theirs = (one.translate(TEXTS, **options) for one in (translator, torched))
        assert [one.tokens for one in ours] == [one.tokens for one in theirs]
    done = RUN.invoke(app, ["convert", str(folder), str(tmp_path / "int8"), "--int8"])
    assert done.exit_code == 0, done.output
    quantised = uwaga.load(tmp_path / "int8")
    whole = quantised.translate(TEXTS, beam=3)
    for text, found in zip(TEXTS, whole, strict=True):
        alone = quantised.translate(text, beam=3)
        assert (alone.tokens, alone.token_scores) == (found.tokens, found.token_scores)


def test_what_cannot_hold_them_says_so(folder, tmp_path):
    refused(folder, tmp_path / "out", "--to=marian")


def refused(folder, out, to):
    done = RUN.invoke(app, ["convert", str(folder), str(out), to])
    assert done.exit_code != 0
    assert "self_attention" in " ".join(f"{done.output} {done.exception}".split())
    assert not out.exists()

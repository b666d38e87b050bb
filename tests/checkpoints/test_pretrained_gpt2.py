"""GPT-2 folders: logits and tokens equal those of ``transformers``; invalid folders are rejected."""

import json
import shutil

import numbered_tokens
import numpy as np
import pytest
import torch
from gpt2_folders import EOS, PROMPTS, UNSUPPORTED, VARIANTS, make
from precision import EXACT, to_double, tolerance
from safetensors.torch import load_file, save_file
from sampled_pairs import total_variation
from search_inputs import inputs
from torch_models import edit_config, load_torch

import uwaga
from uwaga.checkpoints.formats.huggingface import gpt2
from uwaga.decoder import Choice
from uwaga.errors import ModelError, TextTooLongError
from uwaga.search import search

transformers = pytest.importorskip("transformers")


@pytest.fixture(autouse=True)
def numbers(monkeypatch):
    monkeypatch.setattr(gpt2, "read_gpt2_tokeniser", numbered_tokens.read_numbers)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2") / "model"
    make(folder)
    return folder


def padded(rows, left):
    longest = max(map(len, rows))
    fill = [[EOS] * (longest - len(row)) for row in rows]
    ids = [[*pad, *row] if left else [*row, *pad] for pad, row in zip(fill, rows, strict=True)]
    mask = [[0] * len(pad) + [1] * len(row) for pad, row in zip(fill, rows, strict=True)]
    return torch.tensor(ids), torch.tensor(mask)


@pytest.mark.numerical
@pytest.mark.parametrize("version", VARIANTS)
def test_M18_outputs_match_transformers(tmp_path, version):
    peer = make(tmp_path / "m", **VARIANTS[version])
    loaded = load_torch(tmp_path / "m")
    text = torch.randint(0, 37, (3, 40), generator=torch.manual_seed(0))
    double = to_double(peer, loaded.model)
    with torch.no_grad(), double:
        torch.testing.assert_close(loaded.model.logits(loaded.model.read(text)), peer(text).logits, **EXACT)
    ids, mask = padded(PROMPTS, left=True)
    outputs = set()
    for beam in (1, 4, 6):
        with double:
            rows = peer.generate(input_ids=ids, attention_mask=mask, num_beams=beam)[:, ids.shape[1] :]
        hypotheses = search(loaded.model, inputs(PROMPTS), loaded.options.changed({"beam": beam}))
        for (hypothesis,), row in zip(hypotheses, rows.tolist(), strict=True):
            tokens = (*hypothesis.tokens, *([] if hypothesis.truncated else [EOS]))
            assert tuple(row[: row.index(EOS) + 1] if EOS in row else row) == tokens
            outputs.add(tokens)
    assert len(outputs) > len(PROMPTS) and len({len(tokens) for tokens in outputs}) > 1


@pytest.mark.numerical
def test_M18_M20_steps_match_teacher_forcing(folder):
    model = load_torch(folder).model.double()
    beams, length = 2, 6
    targets = torch.randint(0, 36, (len(PROMPTS), length), generator=torch.manual_seed(3))
    shifted = torch.cat([torch.full((len(PROMPTS), 1), EOS), targets[:, :-1]], dim=1)
    source, _ = padded(PROMPTS, left=False)
    full_rows = torch.tensor(
        [[*prompt, *row.tolist()] for prompt, row in zip(PROMPTS, targets, strict=True)][2:3]
    )
    with torch.no_grad():
        expected = model(source, shifted).numpy()  # (prompts, length, vocabulary)
        read = torch.log_softmax(model.logits(model.read(full_rows)), -1).numpy()
    np.testing.assert_allclose(expected[2], read[0, len(PROMPTS[2]) - 1 : -1], **EXACT)
    state = model.start(model.encode(PROMPTS), beams)
    for position in range(length):
        tokens = np.repeat(shifted[:, position].numpy(), beams)
        step = model.step(tokens, state, Choice(1, all_tokens=True))
        np.testing.assert_allclose(step.log_probs, np.repeat(expected[:, position], beams, 0), **EXACT)
        state = step.state


@pytest.mark.numerical
def test_M21_results_are_independent_of_the_batch(folder):
    loaded = load_torch(folder)
    options = loaded.options.changed({"beam": 4, "nbest": 4})
    batch = search(loaded.model, inputs(PROMPTS), options)
    for prompt, results in zip(PROMPTS, batch, strict=True):
        [single] = search(loaded.model, inputs([prompt]), options)
        assert [hypothesis.tokens for hypothesis in single] == [hypothesis.tokens for hypothesis in results]
        scores = [hypothesis.score for hypothesis in results]
        np.testing.assert_allclose([hypothesis.score for hypothesis in single], scores, **tolerance(scores))


@pytest.mark.numerical
def test_M21_reordered_and_selected_rows_continue_unchanged(folder):
    model = load_torch(folder).model
    state = model.start(model.encode(PROMPTS), 2)
    state = model.step(np.zeros(10, dtype=np.int64), state, Choice(1)).state
    state = model.step(np.arange(10), state, Choice(1)).state
    expected = model.step(np.arange(10, 20), state, Choice(5))
    rows = np.array([5, 4, 1, 0])
    reordered = state.reorder(np.array([1, 0, 3, 2, 5, 4, 7, 6, 9, 8])).select(np.array([2, 0]))
    actual = model.step(np.arange(10, 20)[rows], reordered, Choice(5))
    np.testing.assert_array_equal(actual.tokens, expected.tokens[rows])
    np.testing.assert_allclose(actual.log_probs, expected.log_probs[rows], **tolerance(expected.log_probs))


def test_M25_samples_follow_the_distribution_of_transformers(tmp_path):
    peer = make(tmp_path / "m", vocab_size=9, bos_token_id=8, eos_token_id=8)
    loaded = load_torch(tmp_path / "m")

    @torch.no_grad()
    def next_logits(prompt, tokens):
        return peer(torch.tensor([[*prompt, *tokens]])).logits[0, -1]

    for distance in total_variation(loaded.model, loaded.options, [[3], [5, 1, 0, 7, 2]], next_logits):
        assert distance < 0.04


def test_number_of_positions_limits_the_generated_length(folder):
    loaded = load_torch(folder)
    options = loaded.options.changed({"min_length": 5, "max_length": 6})
    assert search(loaded.model, inputs([[1] * 35]), options)  # the last generated token needs no position
    [[hypothesis]] = search(loaded.model, inputs([[1] * 37]), options)
    assert (len(hypothesis.tokens), hypothesis.truncated) == (4, True)
    with pytest.raises(TextTooLongError):
        loaded.model.encode([[1] * 41])


def test_checkpoints_with_earlier_weight_names_are_read(folder, tmp_path):
    """The weights are named as in the original GPT-2 and in DistilGPT2."""
    expected = load_torch(folder).model.state_dict()
    mask = torch.ones(40, 40).tril()[None, None]
    for number, masks in enumerate((("bias",), ("bias", "masked_bias"))):
        copy = tmp_path / str(number)
        shutil.copytree(folder, copy)
        values = load_file(copy / "model.safetensors")
        if number == 0:
            values = {name.removeprefix("transformer."): value for name, value in values.items()}
        else:
            values["lm_head.weight"] = values["transformer.wte.weight"].clone()
        stem = "h" if number == 0 else "transformer.h"
        for layer in range(3):
            values |= {f"{stem}.{layer}.attn.{name}": mask.clone() for name in masks}
        save_file(values, copy / "model.safetensors", metadata={"format": "pt"})
        state = load_torch(copy).model.state_dict()
        assert all(torch.equal(state[name], weight) for name, weight in expected.items())


def test_length_limit_is_read_from_the_folder_or_set_to_the_default(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "m")
    assert load_torch(folder).options.max_length == 11
    for generation, expected in (
        ({}, 64),
        ({"max_length": 30}, 29),
        ({"max_length": 30, "max_new_tokens": 5}, 5),
    ):
        (tmp_path / "m/generation_config.json").write_text(json.dumps(generation))
        assert load_torch(tmp_path / "m").options.max_length == expected


def test_fused_weights_are_split_without_copying(folder):
    loaded = load_torch(folder)
    block = loaded.model.decoder[0].attention
    stored = loaded.checkpoint.weights.tensors["h.0.attn.c_attn.weight"].values
    for layer in (block.query, block.key_value):
        assert np.shares_memory(layer.weight.numpy(), stored)


@pytest.mark.parametrize("message", UNSUPPORTED)
def test_invalid_config_is_rejected(folder, tmp_path, message):
    shutil.copytree(folder, tmp_path / "bad")
    edit_config(tmp_path / "bad", **UNSUPPORTED[message])
    with pytest.raises(ModelError, match=message):
        load_torch(tmp_path / "bad")


def test_fused_projection_of_an_invalid_shape_is_rejected(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "bad")
    values = load_file(tmp_path / "bad/model.safetensors")
    name = "transformer.h.1.attn.c_attn.weight"
    values[name] = values[name][:, :53].contiguous()
    save_file(values, tmp_path / "bad/model.safetensors")
    with pytest.raises(ModelError, match=r"h\.1\.attn\.c_attn\.weight' has shape \(18, 53\)"):
        load_torch(tmp_path / "bad")


def test_loading_a_decoder_as_a_mask_filler_is_rejected(folder):
    with pytest.raises(ModelError, match="decoder-only model, which uwaga"):
        uwaga.MaskFiller.load(folder, device="cpu")

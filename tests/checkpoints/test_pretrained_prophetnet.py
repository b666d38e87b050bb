"""ProphetNet folders: logits and texts equal those of ``transformers``; properties of its streams."""

import dataclasses
import json

import numbered_tokens
import numpy as np
import pytest

transformers = pytest.importorskip("transformers.models.prophetnet.modeling_prophetnet")

import torch
from precision import EXACT, to_double
from search_inputs import inputs
from torch_models import load_torch
from transformers import ProphetNetConfig, ProphetNetTokenizer

import uwaga
from uwaga.checkpoints.formats.huggingface import prophetnet
from uwaga.decoder import Choice
from uwaga.errors import ModelError
from uwaga.search import from_generation_config, search

SIZES = {
    "vocab_size": 37, "hidden_size": 24, "num_encoder_layers": 2, "num_decoder_layers": 3,
    "num_encoder_attention_heads": 3, "num_decoder_attention_heads": 4, "encoder_ffn_dim": 20,
    "decoder_ffn_dim": 28, "max_position_embeddings": 40, "num_buckets": 8, "relative_max_distance": 9,
    "decoder_start_token_id": 2, "bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
VERSIONS = {"two": {}, "one": {"ngram": 1}, "three": {"ngram": 3, "activation_function": "relu"}}
SOURCES = [[9, 30, 7, 22, 5, 13, 8, 33, 4, 2], [17, 6, 2], [12, 25, 9, 31, 8, 8, 19, 27, 36, 2]]


@pytest.fixture
def numbers(monkeypatch):
    monkeypatch.setattr(prophetnet, "read_prophetnet_tokeniser", numbered_tokens.read_numbers)


def make(folder, version="two", **changes):
    """Save a random model of unusual sizes with transformers, and return it."""
    torch.manual_seed(1)
    config = ProphetNetConfig(**SIZES | VERSIONS[version] | changes)
    model = transformers.ProphetNetForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm.weight" in name:
                weight.uniform_(0.5, 1.5)
            else:
                weight.normal_(0.0, 0.3)
    model.save_pretrained(folder)
    return model


def padded():
    longest = max(map(len, SOURCES))
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in SOURCES])
    return ids, (ids != 0).long()


@pytest.mark.numerical
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.usefixtures("numbers")
def test_M29_logits_match_transformers(tmp_path, version):
    """transformers runs step by step: for several positions it uses the distance biases of other positions.

    (5.23 permutes them to (rows, target, streams, heads) and reads (rows, streams, heads, target).)
    """
    peer = make(tmp_path / "m", version, num_encoder_layers=3)  # its cache has as many layers as the encoder
    model = load_torch(tmp_path / "m").model
    ids, mask = padded()
    target = torch.randint(4, 37, (3, 15), generator=torch.manual_seed(1))
    target[:, 0] = 2
    with torch.no_grad(), to_double(peer, model):
        encoded = peer.get_encoder()(input_ids=ids, attention_mask=mask)
        expected, cache = [], None
        for position in range(15):
            step = peer(
                encoder_outputs=encoded, attention_mask=mask,
                decoder_input_ids=target[:, position : position + 1], past_key_values=cache, use_cache=True,
            )  # fmt: skip
            expected.append(step.logits)
            cache = step.past_key_values
        logits = model.logits(model.features(ids, target))
        encodings, _ = model.encode_ids(ids)
    reference = torch.cat(expected, dim=1)
    assert reference.std() > 0.5
    real_tokens = mask.bool()
    torch.testing.assert_close(encodings[real_tokens], encoded.last_hidden_state[real_tokens], **EXACT)
    torch.testing.assert_close(logits, reference, **EXACT)


@pytest.mark.numerical
@pytest.mark.usefixtures("numbers")
def test_M29_generated_tokens_match_transformers(tmp_path):
    # The peer's cache has as many layers as the encoder.
    peer, loaded = make(tmp_path / "m", num_encoder_layers=3), load_torch(tmp_path / "m")
    ids, mask = padded()
    double, outputs = to_double(peer, loaded.model), set()
    for changes in ({"num_beams": 1}, {"num_beams": 4}, {"num_beams": 5, "no_repeat_ngram_size": 2}):
        with double:
            rows = peer.generate(ids, attention_mask=mask, suppress_tokens=[0], max_length=20, **changes)
        options = from_generation_config(
            {"max_length": 20, "eos_token_id": 2, "pad_token_id": 0, "decoder_start_token_id": 2, **changes}
        )
        hypotheses = search(loaded.model, inputs(SOURCES), dataclasses.replace(options, max_ratio=9.0))
        for (hypothesis,), row in zip(hypotheses, rows[:, 1:].tolist(), strict=True):
            assert row[: len(hypothesis.tokens)] == [*hypothesis.tokens]
            outputs.add(hypothesis.tokens)
    assert len(outputs) > 3


@pytest.mark.numerical
@pytest.mark.usefixtures("numbers")
def test_M29_steps_match_teacher_forcing(tmp_path):
    make(tmp_path / "m", "three")
    model = load_torch(tmp_path / "m").model.double()
    ids, _ = padded()
    target = torch.randint(4, 37, (3, 9), generator=torch.manual_seed(2))
    with torch.no_grad():
        expected = model(ids, target)
    state = model.start(model.encode(SOURCES), 2)
    for position in range(9):
        tokens = np.repeat(target[:, position].numpy(), 2)
        step = model.step(tokens, state, Choice(37, all_tokens=True, attention=True))
        np.testing.assert_allclose(step.log_probs, expected[:, position].repeat_interleave(2, 0), **EXACT)
        np.testing.assert_allclose(step.attention.sum(1), 1.0, atol=1e-6)
        assert (step.attention[2:4, 3:] == 0).all()
        state = step.state


@pytest.mark.usefixtures("numbers")
def test_M29_each_later_prediction_stream_depends_on_one_token_fewer(tmp_path):
    make(tmp_path / "m", "three")
    model = load_torch(tmp_path / "m").model
    ids, position = torch.tensor([SOURCES[0]]), 4
    targets = torch.randint(4, 36, (1, 9), generator=torch.manual_seed(2))
    changed = targets.clone()
    changed[0, position] += 1
    with torch.no_grad():
        difference = (
            (model.future_features(ids, targets, 3) - model.future_features(ids, changed, 3))
            .abs()
            .amax(-1)[0]
        )
    for stream in range(3):
        assert (difference[stream, : position + stream] == 0).all()
        assert (difference[stream, position + stream :] > 0).all()


@pytest.mark.numerical
@pytest.mark.usefixtures("numbers")
def test_M29_recorded_attention_equals_stepwise_attention(tmp_path):
    make(tmp_path / "m")
    model = load_torch(tmp_path / "m").model.double()
    targets = [[2, 11, 12, 13], [2, 14], [2, 9, 8]]
    for source, target, recording in zip(SOURCES, targets, model.attentions(SOURCES, targets), strict=True):
        assert recording.encoder.shape == (2, 3, len(source), len(source))
        assert recording.decoder.shape == (3, 4, len(target), len(target))
        assert recording.cross.shape == (3, 4, len(target), len(source))
        for table in (recording.encoder, recording.decoder, recording.cross):
            np.testing.assert_allclose(table.sum(-1), 1.0, atol=1e-6)
        assert (recording.decoder[..., ~np.tri(len(target), dtype=bool)] == 0).all()
        state = model.start(model.encode([source]), 1)
        for position, token in enumerate(target):
            step = model.step(np.array([token]), state, Choice(1, attention=True))
            np.testing.assert_allclose(step.attention[0], recording.cross[-1, :, position].mean(0), atol=1e-6)
            state = step.state


@pytest.mark.parametrize("folded", [pytest.param(False, marks=pytest.mark.slow), True])
def test_tokenisation_matches_transformers(tmp_path, folded):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[X_SEP]", "[MASK]", "a", "man", "is", "rid", "##ing", "."]
    path = tmp_path / "m"
    make(path, vocab_size=len(words), decoder_start_token_id=3, bos_token_id=3, eos_token_id=3)
    (path / "prophetnet.tokenizer").write_text("\n".join(words) + "\n", encoding="utf-8")
    (path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": folded}), encoding="utf-8")
    peer = ProphetNetTokenizer(path / "prophetnet.tokenizer", do_lower_case=folded)
    loaded = load_torch(path)
    for text in ("a man is riding .", "A Man is riding [MASK] a dog."):
        assert loaded.source.add_special_tokens(loaded.source.encode(text)) == peer(text)["input_ids"]
    assert loaded.target.decode([6, 7, 8, 9, 10, 11]) == "a man is riding."
    assert uwaga.load(path).translate("a man .").text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tie_word_embeddings": False}, "'tie_word_embeddings' = False is not supported"),
        ({"num_buckets": 3}, "'num_buckets' must be a whole number, 4 or more"),
        ({"ngram": 3}, "ngram_embeddings.weight"),
        ({"max_position_embeddings": 41}, "position_embeddings"),
    ],
)
@pytest.mark.usefixtures("numbers")
def test_invalid_config_is_rejected(tmp_path, changes, message):
    make(tmp_path / "m")
    path = tmp_path / "m/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ModelError, match=message):
        load_torch(tmp_path / "m")

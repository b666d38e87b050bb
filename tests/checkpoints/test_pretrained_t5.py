"""T5 folders: logits and tokens equal those of ``transformers``; invalid folders are rejected."""

import shutil

import numbered_tokens
import pytest
import torch
from json_files import edit_json
from precision import EXACT, to_double
from sampled_pairs import total_variation
from search_inputs import inputs
from torch_models import edit_config, load_torch

from uwaga.checkpoints.formats.huggingface import t5
from uwaga.errors import ModelError
from uwaga.models.layers.positions import RelativePositions
from uwaga.search import search

transformers = pytest.importorskip("transformers")
SIZES = {
    "vocab_size": 41, "d_model": 18, "d_kv": 5, "d_ff": 22, "num_layers": 2, "num_heads": 3,
    "relative_attention_num_buckets": 8, "relative_attention_max_distance": 11, "pad_token_id": 0,
    "eos_token_id": 1, "decoder_start_token_id": 0,
}  # fmt: skip
SOURCES = [
    [9, 12, 30, 8, 1], [5, 1], [7, 7, 31, 22, 19, 4, 6, 3, 11, 13, 17, 29, 33, 35, 2, 40, 1], [8, 20, 1],
]  # fmt: skip
VERSIONS = {
    "t5": ("t5", {"feed_forward_proj": "relu"}, False),
    "t5 1.1": ("t5", {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, True),
    "t5 1.1, tied": ("t5", {"feed_forward_proj": "gated-silu", "tie_word_embeddings": False}, False),
    "t5, longer decoder": ("t5", {"num_decoder_layers": 3, "feed_forward_proj": "gelu"}, False),
    "mt5": ("mt5", {"feed_forward_proj": "gated-gelu"}, True),
}
CLASSES = {
    "t5": (transformers.T5Config, transformers.T5ForConditionalGeneration),
    "mt5": (transformers.MT5Config, transformers.MT5ForConditionalGeneration),
}


@pytest.fixture(autouse=True)
def numbers(monkeypatch):
    monkeypatch.setattr(t5, "read_t5_tokeniser", numbered_tokens.read_numbers)


def make(folder, version, seed=2, **options):
    """Save a random model of unusual sizes with transformers, and return it."""
    family, changes, untied = VERSIONS[version]
    config, kind = CLASSES[family]
    torch.manual_seed(seed)
    model = kind(config(**SIZES | changes | options)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "layer_norm" in name:
                weight.uniform_(0.5, 1.5)
            elif "relative_attention_bias" in name:
                weight.normal_(0.0, 1.5)
            else:
                weight.normal_(0.0, 0.4 if name == "shared.weight" else 0.3)
    if untied:
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight) * 0.5)
    with torch.no_grad():
        model.lm_head.weight[1] *= 2.0  # the end symbol is likely enough
    model.generation_config.update(max_length=14, bad_words_ids=[[0]])
    model.save_pretrained(folder)
    if changes.get("tie_word_embeddings") is False:  # as older versions, and all published folders, write it
        edit_json(folder / "config.json", tie_word_embeddings=False, scale_decoder_outputs=None)
    return model


def pad_rows(rows):
    longest = max(map(len, rows))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    return ids, ids != 0


@pytest.mark.sampled(3)
@pytest.mark.numerical
@pytest.mark.parametrize("version", VERSIONS)
def test_M19_outputs_match_transformers(tmp_path, version):
    make(tmp_path / "m", version)
    peer = CLASSES[VERSIONS[version][0]][1].from_pretrained(tmp_path / "m").eval()
    assert (peer.lm_head.weight is not peer.shared.weight) == VERSIONS[version][2]
    loaded = load_torch(tmp_path / "m")
    ids, mask = pad_rows(SOURCES)
    target = torch.randint(2, 40, (len(SOURCES), 13), generator=torch.manual_seed(1))
    target[:, 0] = 0
    double = to_double(peer, loaded.model)
    with torch.no_grad(), double:
        expected = peer(input_ids=ids, attention_mask=mask, decoder_input_ids=target)
        encodings, _ = loaded.model.encode_ids(ids)
        logits = loaded.model.logits(loaded.model.features(ids, target))
    torch.testing.assert_close(encodings[mask], expected.encoder_last_hidden_state[mask], **EXACT)
    torch.testing.assert_close(logits, expected.logits, **EXACT)
    if len(peer.decoder.block) != len(peer.encoder.block):
        return  # transformers' own cache of such a model fails
    outputs = set()
    for beam in (1, 4, 6):
        with double:
            rows = peer.generate(input_ids=ids, attention_mask=mask, num_beams=beam)
        hypotheses = search(loaded.model, inputs(SOURCES), loaded.options.changed({"beam": beam}))
        for (hypothesis,), row in zip(hypotheses, rows[:, 1:].tolist(), strict=True):
            tokens = (*hypothesis.tokens, *([] if hypothesis.truncated else [1]))
            assert tuple(row[: row.index(1) + 1] if 1 in row else row) == tokens
            outputs.add(tokens)
    assert len(outputs) > len(SOURCES) and len({len(tokens) for tokens in outputs}) > 1


def test_M25_samples_follow_the_distribution_of_transformers(tmp_path):
    peer = make(tmp_path / "m", "t5 1.1", vocab_size=9)
    loaded = load_torch(tmp_path / "m")

    @torch.no_grad()
    def next_logits(source, tokens):
        target = torch.tensor([[0, *tokens]])
        logits = peer(input_ids=torch.tensor([source]), decoder_input_ids=target).logits[0, -1]
        logits[0] = -torch.inf  # padding is never produced
        return logits

    for distance in total_variation(loaded.model, loaded.options, [[3, 1], [5, 6, 4, 7, 2, 1]], next_logits):
        assert distance < 0.04


def test_M19_source_length_is_unlimited(tmp_path):
    make(tmp_path / "m", "t5")
    loaded = load_torch(tmp_path / "m")
    assert loaded.model.max_source is None and loaded.model.max_target is None
    long = [*([5, 9, 13] * 300), 1]
    batch, single = (search(loaded.model, inputs(rows), loaded.options) for rows in ([long, [5, 1]], [long]))
    assert batch[0][0].tokens == single[0][0].tokens


@pytest.mark.numerical
def test_M19_distance_buckets_match_hand_calculation():
    # 32 buckets to distance 128, bidirectional: 16 per side, 8 of them exact, then 8 + 8 ln(d/8) / ln(16)
    bidirectional = RelativePositions(1, 32, 128, bidirectional=True)
    distances = torch.tensor([0, 1, 7, 8, 11, 12, 16, 32, 64, 90, 91, 127, 128, 5000])
    buckets = [0, 1, 7, 8, 8, 9, 10, 12, 14, 14, 15, 15, 15, 15]
    assert bidirectional.bucket(-distances).tolist() == buckets
    assert bidirectional.bucket(distances[1:]).tolist() == [16 + number for number in buckets[1:]]
    # causal: 16 exact, then 16 + 16 ln(d/16) / ln(8); later keys are all in bucket 0
    causal = RelativePositions(1, 32, 128, bidirectional=False)
    distances = torch.tensor([0, 1, 15, 16, 18, 19, 32, 64, 128, 5000])
    assert causal.bucket(-distances).tolist() == [0, 1, 15, 16, 16, 17, 21, 26, 31, 31]
    assert causal.bucket(distances).tolist() == [0] * len(distances)


INVALID_CONFIGS = {
    r"'feed_forward_proj' = 'gated-tanh' is not supported; uwaga supports relu, gated-relu": {
        "feed_forward_proj": "gated-tanh"
    },
    r"'num_layers' must be a whole number": {"num_layers": "2"},
    r"'layer_norm_epsilon' must be a number above 0": {"layer_norm_epsilon": 0},
    r"'is_encoder_decoder' = False is not supported": {"is_encoder_decoder": False},
    r"SelfAttention\.q\.weight' has shape \(15, 18\), but config\.json requires \(18, 18\)": {"d_kv": 6},
    r"encoder\.block\.2.*missing": {"num_layers": 3},
    r"decoder\.block\.1.*unknown": {"num_decoder_layers": 1},
    r"wi_0\.weight'.*missing": {"feed_forward_proj": "gated-relu"},
    r"relative_attention_bias\.weight' has shape \(8, 3\)": {"relative_attention_num_buckets": 10},
    r"relative_distance must be more than half": {"relative_attention_max_distance": 4},
    r"pad_token_id is 41, but the vocabulary has 41": {"pad_token_id": 41},
    r"family 'umt5' is not supported; uwaga supports .*mt5": {"model_type": "umt5"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("t5") / "model"
    make(folder, "t5")
    return folder


@pytest.mark.parametrize("message", INVALID_CONFIGS)
def test_invalid_config_is_rejected(folder, tmp_path, message):
    shutil.copytree(folder, tmp_path / "bad")
    edit_config(tmp_path / "bad", **INVALID_CONFIGS[message])
    with pytest.raises(ModelError, match=message):
        load_torch(tmp_path / "bad")


def test_extra_weights_of_early_checkpoints_are_ignored(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "old")
    edit_config(tmp_path / "old", n_positions=512, task_specific_params={"summarization": {"num_beams": 4}})
    weights = transformers.T5ForConditionalGeneration.from_pretrained(folder).state_dict()
    (tmp_path / "old/model.safetensors").unlink()
    (tmp_path / "old/generation_config.json").unlink()
    extra = {"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight": torch.ones(8, 3)}
    torch.save(weights | extra, tmp_path / "old/pytorch_model.bin")  # embeddings under four names
    old, new = load_torch(tmp_path / "old"), load_torch(folder)
    assert (new.options.max_length, old.options.max_length) == (13, 256)
    for name, weight in new.model.state_dict().items():
        assert torch.equal(weight, old.model.state_dict()[name])

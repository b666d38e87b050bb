"""T5 folders: the same numbers and tokens as ``transformers``; bad folders are refused."""

import json
import shutil

import numbered_tokens
import pytest
import torch
from loaded import edit_config, load_torch
from precision import EXACT, to_double
from sampled_pairs import total_variation

from uwaga.checkpoints.formats.huggingface import t5
from uwaga.errors import ModelError
from uwaga.models.layers.positions import RelativePositions
from uwaga.search import search

transformers = pytest.importorskip("transformers")
SIZES = {
    "vocab_size": 41,
    "d_model": 18,
    "d_kv": 5,
    "d_ff": 22,
    "num_layers": 2,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 11,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}
SOURCES = [
    [9, 12, 30, 8, 1],
    [5, 1],
    [7, 7, 31, 22, 19, 4, 6, 3, 11, 13, 17, 29, 33, 35, 2, 40, 1],
    [8, 20, 1],
]
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


def make(folder, version, seed=2, **others):
    """A random model of odd sizes, saved by transformers' own code."""
    family, changes, apart = VERSIONS[version]
    config, kind = CLASSES[family]
    torch.manual_seed(seed)
    model = kind(config(**SIZES | changes | others)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "layer_norm" in name:
                weight.uniform_(0.5, 1.5)
            elif "relative_attention_bias" in name:
                weight.normal_(0.0, 1.5)
            else:
                weight.normal_(0.0, 0.4 if name == "shared.weight" else 0.3)
    if apart:
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight) * 0.5)
    with torch.no_grad():
        model.lm_head.weight[1] *= 2.0  # the end comes now and then
    model.generation_config.update(max_length=14, bad_words_ids=[[0]])
    model.save_pretrained(folder)
    if changes.get("tie_word_embeddings") is False:  # as older versions, and all published folders, write it
        path = folder / "config.json"
        values = json.loads(path.read_text()) | {"tie_word_embeddings": False}
        del values["scale_decoder_outputs"]
        path.write_text(json.dumps(values))
    return model


def real(rows):
    longest = max(map(len, rows))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    return ids, ids != 0


@pytest.mark.numerical
@pytest.mark.parametrize("version", VERSIONS)
def test_M19_outputs_equal_transformers(tmp_path, version):
    make(tmp_path / "m", version)
    theirs = CLASSES[VERSIONS[version][0]][1].from_pretrained(tmp_path / "m").eval()
    assert (theirs.lm_head.weight is not theirs.shared.weight) == VERSIONS[version][2]
    ours = load_torch(tmp_path / "m")
    ids, mask = real(SOURCES)
    target = torch.randint(2, 40, (len(SOURCES), 13), generator=torch.manual_seed(1))
    target[:, 0] = 0
    double = to_double(theirs, ours.model)
    with torch.no_grad(), double:
        wanted = theirs(input_ids=ids, attention_mask=mask, decoder_input_ids=target)
        encodings, _ = ours.model.encode_ids(ids)
        logits = ours.model.logits(ours.model.features(ids, target))
    torch.testing.assert_close(encodings[mask], wanted.encoder_last_hidden_state[mask], **EXACT)
    torch.testing.assert_close(logits, wanted.logits, **EXACT)
    if len(theirs.decoder.block) != len(theirs.encoder.block):
        return  # transformers' own cache of such a model fails
    outputs = set()
    for beam in (1, 4, 6):
        with double:
            rows = theirs.generate(input_ids=ids, attention_mask=mask, num_beams=beam)
        found = search(ours.model, SOURCES, ours.options.changed({"beam": beam}))
        for (one,), row in zip(found, rows[:, 1:].tolist(), strict=True):
            made = (*one.tokens, *([] if one.truncated else [1]))
            assert tuple(row[: row.index(1) + 1] if 1 in row else row) == made
            outputs.add(made)
    assert len(outputs) > len(SOURCES) and len({len(made) for made in outputs}) > 1


def test_M25_sampling_has_the_distribution_of_transformers(tmp_path):
    theirs = make(tmp_path / "m", "t5 1.1", vocab_size=9)
    loaded = load_torch(tmp_path / "m")

    @torch.no_grad()
    def next_logits(source, tokens):
        target = torch.tensor([[0, *tokens]])
        logits = theirs(input_ids=torch.tensor([source]), decoder_input_ids=target).logits[0, -1]
        logits[0] = -torch.inf  # padding is never produced
        return logits

    for distance in total_variation(loaded.model, loaded.options, [[3, 1], [5, 6, 4, 7, 2, 1]], next_logits):
        assert distance < 0.04


def test_M19_there_is_no_longest_source(tmp_path):
    make(tmp_path / "m", "t5")
    ours = load_torch(tmp_path / "m")
    assert ours.model.max_source is None and ours.model.max_target is None
    long = [*([5, 9, 13] * 300), 1]
    together, alone = (search(ours.model, rows, ours.options) for rows in ([long, [5, 1]], [long]))
    assert together[0][0].tokens == alone[0][0].tokens


@pytest.mark.numerical
def test_M19_buckets_of_distances_by_hand():
    # 32 buckets to distance 128, both ways: 16 a side, 8 of them exact, then 8 + 8 ln(d/8) / ln(16)
    both = RelativePositions(1, 32, 128, bidirectional=True)
    away = torch.tensor([0, 1, 7, 8, 11, 12, 16, 32, 64, 90, 91, 127, 128, 5000])
    sided = [0, 1, 7, 8, 8, 9, 10, 12, 14, 14, 15, 15, 15, 15]
    assert both.bucket(-away).tolist() == sided
    assert both.bucket(away[1:]).tolist() == [16 + number for number in sided[1:]]
    # one way: 16 exact, then 16 + 16 ln(d/16) / ln(8); later keys are all in bucket 0
    before = RelativePositions(1, 32, 128, bidirectional=False)
    away = torch.tensor([0, 1, 15, 16, 18, 19, 32, 64, 128, 5000])
    assert before.bucket(-away).tolist() == [0, 1, 15, 16, 16, 17, 21, 26, 31, 31]
    assert before.bucket(away).tolist() == [0] * len(away)


BAD = {
    r"'feed_forward_proj' = 'gated-tanh' is not supported; uwaga has relu, gated-relu": {
        "feed_forward_proj": "gated-tanh"
    },
    r"'num_layers' must be a whole number": {"num_layers": "2"},
    r"'layer_norm_epsilon' must be a number above 0": {"layer_norm_epsilon": 0},
    r"'is_encoder_decoder' = False is not supported": {"is_encoder_decoder": False},
    r"SelfAttention\.q\.weight' has shape \(15, 18\), config\.json asks for \(18, 18\)": {"d_kv": 6},
    r"encoder\.block\.2.*missing": {"num_layers": 3},
    r"decoder\.block\.1.*unknown": {"num_decoder_layers": 1},
    r"wi_0\.weight'.*missing": {"feed_forward_proj": "gated-relu"},
    r"relative_attention_bias\.weight' has shape \(8, 3\)": {"relative_attention_num_buckets": 10},
    r"relative_distance must be more than half": {"relative_attention_max_distance": 4},
    r"pad_token_id is 41, but the vocabulary has 41": {"pad_token_id": 41},
    r"family 'umt5' is unknown; uwaga runs .*mt5": {"model_type": "umt5"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("t5") / "model"
    make(folder, "t5")
    return folder


@pytest.mark.parametrize("message", BAD)
def test_bad_folders_are_refused(folder, tmp_path, message):
    shutil.copytree(folder, tmp_path / "bad")
    edit_config(tmp_path / "bad", **BAD[message])
    with pytest.raises(ModelError, match=message):
        load_torch(tmp_path / "bad")


def test_what_the_first_checkpoints_hold_besides_is_read(folder, tmp_path):
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

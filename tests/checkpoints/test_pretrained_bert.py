"""BERT folders: the same states and logits as ``transformers``; bad folders are refused."""

import shutil

import numbered_tokens
import pytest
import torch
from loaded import edit, load_torch
from precision import EXACT, close_for, doubled
from safetensors.torch import load_file, save_file

import uwaga
from uwaga.checkpoints.formats.huggingface import bert
from uwaga.errors import ModelError, TextTooLongError

transformers = pytest.importorskip("transformers")
SIZES = {
    "vocab_size": 37,
    "hidden_size": 18,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 23,
    "max_position_embeddings": 20,
    "type_vocab_size": 2,
}
VERSIONS = {
    "masked": (transformers.BertForMaskedLM, {}),
    "both heads": (transformers.BertForPreTraining, {"hidden_act": "relu", "layer_norm_eps": 1e-5}),
    "own output": (transformers.BertForMaskedLM, {"tie_word_embeddings": False, "hidden_act": "gelu_new"}),
    "no head": (transformers.BertModel, {"type_vocab_size": 3}),
}
TEXTS = [[2, 9, 4, 3], [2, 3], [2, *range(5, 22), 4, 3], [2, 30, 36, 0, 7, 3]]


@pytest.fixture(autouse=True)
def numbers(monkeypatch):
    monkeypatch.setattr(bert, "read_bert_tokeniser", numbered_tokens.read_numbers)


def make(folder, version="masked", seed=1):
    """A random model of odd sizes, saved by transformers' own code."""
    kind, changes = VERSIONS[version]
    torch.manual_seed(seed)
    model = kind(transformers.BertConfig(**SIZES | changes)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "LayerNorm.weight" in name:
                weight.uniform_(0.5, 1.5)
            else:
                weight.normal_(0.0, 0.3)
    model.save_pretrained(folder)
    return model


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bert") / "model"
    make(folder)
    return folder


@pytest.mark.numerical
@pytest.mark.parametrize("version", VERSIONS)
def test_M17_outputs_equal_transformers(tmp_path, version):
    theirs = make(tmp_path / "m", version)
    ours = load_torch(tmp_path / "m").model
    longest = max(map(len, TEXTS))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in TEXTS])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in TEXTS])
    types = torch.randint(0, 2, ids.shape, generator=torch.manual_seed(0))
    rows = list(zip(types.tolist(), TEXTS, strict=True))
    double = doubled(theirs, ours)
    for kinds in (None, types):
        with torch.no_grad(), double:
            wanted = theirs(
                input_ids=ids, attention_mask=mask, token_type_ids=kinds, output_hidden_states=True
            )
            given = None if kinds is None else [row[: len(text)] for row, text in rows]
            states = ours.encode(TEXTS, given)
        for row, text in enumerate(TEXTS):
            reference = wanted.hidden_states[-1][row, : len(text)]
            torch.testing.assert_close(states[row], reference, **EXACT)
            if ours.head is not None:
                logits = wanted["prediction_logits" if version == "both heads" else "logits"]
                found = ours.head(states[row])
                torch.testing.assert_close(found, logits[row, : len(text)], **EXACT)
    assert (ours.head is None) == (version == "no head")


@pytest.mark.numerical
def test_M17_a_text_is_the_same_alone_and_in_any_batch(folder):
    model = load_torch(folder).model
    for text, found in zip(TEXTS, model.encode(TEXTS), strict=True):
        [alone] = model.encode([text])
        torch.testing.assert_close(found, alone, **close_for(alone))
    assert model.encode([]) == []


def test_M17_every_state_sees_the_whole_text(folder):
    """M8: no look-ahead mask."""
    model = load_torch(folder).model
    one, other = model.encode([[2, 9, 10, 11, 3], [2, 9, 10, 12, 3]])
    assert float((one[0] - other[0]).abs().max()) > 1e-3


def test_a_text_longer_than_the_positions_is_refused(folder):
    model = load_torch(folder).model
    assert len(model.encode([[5] * 20])[0]) == 20
    with pytest.raises(TextTooLongError, match=r"text 2: 21 tokens, .* at most 20"):
        model.encode([[5], [5] * 21])


def test_the_names_of_the_first_checkpoints_are_read(folder, tmp_path):
    """gamma and beta, the output under its tied names, positions counted, and the pair's head."""
    shutil.copytree(folder, tmp_path / "old")
    values = load_file(folder / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): one
        for name, one in values.items()
    }
    old |= {
        "cls.predictions.decoder.weight": values["bert.embeddings.word_embeddings.weight"],
        "cls.predictions.decoder.bias": values["cls.predictions.bias"],
        "cls.seq_relationship.weight": torch.ones(2, 18),
        "cls.seq_relationship.bias": torch.ones(2),
        "bert.pooler.dense.weight": torch.ones(18, 18),
        "bert.pooler.dense.bias": torch.ones(18),
        "bert.embeddings.position_ids": torch.arange(20)[None],
    }
    (tmp_path / "old/model.safetensors").unlink()
    torch.save(old, tmp_path / "old/pytorch_model.bin")
    found = load_torch(tmp_path / "old").model.state_dict()
    for name, weight in load_torch(folder).model.state_dict().items():
        assert torch.equal(found[name], weight)


BAD = {
    r"'position_embedding_type' = 'relative_key' is not supported": {
        "position_embedding_type": "relative_key"
    },
    r"'is_decoder' = True is not supported": {"is_decoder": True},
    r"'add_cross_attention' = True is not supported": {"add_cross_attention": True},
    r"'hidden_act' = 'mish' is not supported": {"hidden_act": "mish"},
    r"'embeddings\.position_embeddings\.weight' has shape \(20, 18\), .* \(512, 18\)": {
        "max_position_embeddings": None
    },
    r"'embeddings\.token_type_embeddings\.weight' has shape \(2, 18\)": {"type_vocab_size": 1},
    r"encoder\.layer\.3\..* missing": {"num_hidden_layers": 4},
    r"encoder\.layer\.2\..* unknown": {"num_hidden_layers": 2},
    r"'cls\.predictions\.decoder\.weight': missing": {"tie_word_embeddings": False},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_folders_are_refused(folder, tmp_path, message):
    shutil.copytree(folder, tmp_path / "bad")
    edit(tmp_path / "bad", **BAD[message])
    with pytest.raises(ModelError, match=message):
        load_torch(tmp_path / "bad")


def test_another_head_and_a_missing_weight_are_refused(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "bad")
    values = load_file(folder / "model.safetensors")
    save_file(values | {"classifier.weight": torch.ones(2, 18)}, tmp_path / "bad/model.safetensors")
    with pytest.raises(ModelError, match=r"'classifier\.weight': unknown to this family"):
        load_torch(tmp_path / "bad")
    del values["cls.predictions.transform.dense.bias"]
    save_file(values, tmp_path / "bad/model.safetensors")
    with pytest.raises(ModelError, match=r"'cls\.predictions\.transform\.dense\.bias': missing"):
        load_torch(tmp_path / "bad")


def test_a_translator_points_to_what_runs_it(folder):
    with pytest.raises(ModelError, match="an encoder-only model, which uwaga"):
        uwaga.Translator.load(folder, device="cpu")

"""BERT folders: states and logits equal those of ``transformers``; invalid folders are rejected."""

import shutil

import numbered_tokens
import pytest
import torch
from precision import EXACT, to_double, tolerance
from safetensors.torch import load_file, save_file
from torch_models import edit_config, load_torch

import uwaga
from uwaga.checkpoints.formats.huggingface import bert
from uwaga.errors import ModelError, TextTooLongError

transformers = pytest.importorskip("transformers")
SIZES = {
    "vocab_size": 37, "hidden_size": 18, "num_hidden_layers": 3, "num_attention_heads": 3,
    "intermediate_size": 23, "max_position_embeddings": 20, "type_vocab_size": 2,
}  # fmt: skip
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
    """Save a random model of unusual sizes with transformers, and return it."""
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
def test_M17_outputs_match_transformers(tmp_path, version):
    peer = make(tmp_path / "m", version)
    model = load_torch(tmp_path / "m").model
    longest = max(map(len, TEXTS))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in TEXTS])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in TEXTS])
    types = torch.randint(0, 2, ids.shape, generator=torch.manual_seed(0))
    rows = list(zip(types.tolist(), TEXTS, strict=True))
    double = to_double(peer, model)
    for token_types in (None, types):
        with torch.no_grad(), double:
            expected = peer(
                input_ids=ids, attention_mask=mask, token_type_ids=token_types, output_hidden_states=True
            )
            type_lists = None if token_types is None else [row[: len(text)] for row, text in rows]
            states = model.encode(TEXTS, type_lists)
        for row, text in enumerate(TEXTS):
            reference = expected.hidden_states[-1][row, : len(text)]
            torch.testing.assert_close(states[row], reference, **EXACT)
            if model.head is not None:
                logits = expected["prediction_logits" if version == "both heads" else "logits"]
                logits_ = model.head(states[row])
                torch.testing.assert_close(logits_, logits[row, : len(text)], **EXACT)
    assert (model.head is None) == (version == "no head")


@pytest.mark.numerical
def test_M17_states_are_independent_of_the_batch(folder):
    model = load_torch(folder).model
    for text, state in zip(TEXTS, model.encode(TEXTS), strict=True):
        [single] = model.encode([text])
        torch.testing.assert_close(state, single, **tolerance(single))
    assert model.encode([]) == []


def test_M17_states_depend_on_later_tokens(folder):
    """The encoder has no look-ahead mask (M8)."""
    model = load_torch(folder).model
    first, second = model.encode([[2, 9, 10, 11, 3], [2, 9, 10, 12, 3]])
    assert bool(((first - second)[:3].abs().amax(1) > 1e-3).all())


def test_text_longer_than_the_number_of_positions_is_rejected(folder):
    model = load_torch(folder).model
    assert len(model.encode([[5] * 20])[0]) == 20
    with pytest.raises(TextTooLongError, match=r"text 2: has 21 tokens, .* at most 20"):
        model.encode([[5], [5] * 21])


def test_checkpoints_with_earlier_weight_names_are_read(folder, tmp_path):
    """They name norm weights gamma and beta, and store tied weights, position ids and a further head."""
    shutil.copytree(folder, tmp_path / "old")
    values = load_file(folder / "model.safetensors")
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in values.items()
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
    state = load_torch(tmp_path / "old").model.state_dict()
    for name, weight in load_torch(folder).model.state_dict().items():
        assert torch.equal(state[name], weight)


INVALID_CONFIGS = {
    r"'position_embedding_type' = 'relative_key' is not supported":
        {"position_embedding_type": "relative_key"},
    r"'is_decoder' = True is not supported": {"is_decoder": True},
    r"'add_cross_attention' = True is not supported": {"add_cross_attention": True},
    r"'hidden_act' = 'mish' is not supported": {"hidden_act": "mish"},
    r"'embeddings\.position_embeddings\.weight' has shape \(20, 18\), .* \(512, 18\)":
        {"max_position_embeddings": None},
    r"'embeddings\.token_type_embeddings\.weight' has shape \(2, 18\)": {"type_vocab_size": 1},
    r"encoder\.layer\.3\..* missing": {"num_hidden_layers": 4},
    r"encoder\.layer\.2\..* unknown": {"num_hidden_layers": 2},
    r"'cls\.predictions\.decoder\.weight': missing": {"tie_word_embeddings": False},
}  # fmt: skip


@pytest.mark.parametrize("message", INVALID_CONFIGS)
def test_invalid_config_is_rejected(folder, tmp_path, message):
    shutil.copytree(folder, tmp_path / "bad")
    edit_config(tmp_path / "bad", **INVALID_CONFIGS[message])
    with pytest.raises(ModelError, match=message):
        load_torch(tmp_path / "bad")


def test_unknown_head_and_missing_weight_are_rejected(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "bad")
    values = load_file(folder / "model.safetensors")
    save_file(values | {"classifier.weight": torch.ones(2, 18)}, tmp_path / "bad/model.safetensors")
    with pytest.raises(ModelError, match=r"'classifier\.weight': unknown in this family"):
        load_torch(tmp_path / "bad")
    del values["cls.predictions.transform.dense.bias"]
    save_file(values, tmp_path / "bad/model.safetensors")
    with pytest.raises(ModelError, match=r"'cls\.predictions\.transform\.dense\.bias': missing"):
        load_torch(tmp_path / "bad")


def test_loading_an_encoder_as_a_translator_is_rejected(folder):
    with pytest.raises(ModelError, match="an encoder-only model, which uwaga"):
        uwaga.Translator.load(folder, device="cpu")

"""Marian folders: logits, tokens and texts equal those of ``transformers``; invalid ones are rejected."""

import json
import pickle
import shutil

import pytest
import tiny_models as tiny
import torch
from marian_folders import SEPARATE, TEXTS, make
from precision import EXACT, to_double
from search_inputs import inputs
from torch_models import Payload, load_torch

import uwaga
from uwaga.errors import DataError, ModelError
from uwaga.search import search

transformers = pytest.importorskip("transformers")
UNUSUAL_TEXTS = [
    "", " ", "🚗 car", "你好 world", "a\tb", "\x00\x07", "▁▁", "it " * 600, "</", "Ünï e\u0301", "<<x>>",
    "...",
]  # fmt: skip


def peer_tokeniser(folder, shared):
    options = {} if shared else {"target_vocab_file": str(folder / "target_vocab.json"), **SEPARATE}
    files = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")]
    return transformers.MarianTokenizer(*files, source_lang="en", target_lang="de", **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("marian") / "model"
    make(folder)
    return folder


@pytest.mark.numerical
@pytest.mark.parametrize(
    ("shared", "safe", "seed", "end", "changes"),
    [(True, True, 3, 6.0, {}), (False, False, 2, 4.5, {"activation_function": "relu"})],
)
def test_outputs_match_transformers(tmp_path, shared, safe, seed, end, changes):
    peer_model = make(tmp_path / "m", shared, seed, safe, end, **changes)
    peer, loaded = peer_tokeniser(tmp_path / "m", shared), load_torch(tmp_path / "m")
    for text in [*TEXTS, *UNUSUAL_TEXTS, ">>fra<< the car", *tiny.ENGLISH]:
        if shared or not text.startswith(">>"):
            assert loaded.source.add_special_tokens(loaded.source.encode(text)) == peer(text).input_ids
    for text in [*UNUSUAL_TEXTS, *tiny.GERMAN]:
        assert (
            loaded.target.add_special_tokens(loaded.target.encode(text)) == peer(text_target=text).input_ids
        )
    batch = peer(TEXTS, return_tensors="pt", padding=True)
    target = torch.randint(2, 200, (len(TEXTS), 6), generator=torch.manual_seed(1))
    double = to_double(peer_model, loaded.model)
    with torch.no_grad(), double:
        expected = peer_model(**batch, decoder_input_ids=target)
        encodings, mask = loaded.model.encode_ids(batch.input_ids)
        logits = loaded.model.logits(loaded.model.features(batch.input_ids, target))
    real_tokens = mask[:, 0, 0]
    torch.testing.assert_close(
        encodings[real_tokens], expected.encoder_last_hidden_state[real_tokens], **EXACT
    )
    torch.testing.assert_close(logits, expected.logits, **EXACT)
    sources = [loaded.source.add_special_tokens(loaded.source.encode(text)) for text in TEXTS]
    lengths = set()
    for beam in (1, 4, 6):
        with double:
            rows = peer_model.generate(**batch, num_beams=beam)
        hypotheses = search(loaded.model, inputs(sources), loaded.options.changed({"beam": beam}))
        for (hypothesis,), row in zip(hypotheses, rows[:, 1:].tolist(), strict=True):
            tokens = [*hypothesis.tokens, 0]
            assert row == tokens + [loaded.model.symbols.pad] * (len(row) - len(tokens))
            lengths.add(len(tokens))
            text = peer.decode(row, skip_special_tokens=True, use_source_tokenizer=False)
            assert loaded.target.decode(hypothesis.tokens) == text
    assert len(lengths) > 1


def test_folder_determines_default_options(folder):
    translator = uwaga.load(folder, device="cpu")
    options = translator.options()
    assert (options.beam, options.max_length, options.force_end) == (4, 13, True)
    assert translator.languages == ("en", "de")
    texts = [*TEXTS, ">>fra<< a car", ""]
    translations = translator.translate(texts)
    assert [translation.text for translation in translations] == [
        translator.translate(text).text for text in [*TEXTS, ">>fra<< a car", ""]
    ]
    assert translator.score([("a car", "ein Auto")])[0].log_prob < 0
    with pytest.raises(DataError, match=r">>xyz<<: .*>>deu<< >>fra<<"):
        translator.translate(">>xyz<< a car")


def test_pickle_payload_is_rejected_and_not_executed(folder, tmp_path):
    folder_with_payload, proof = tmp_path / "bad", tmp_path / "executed"
    for save in (torch.save, pickle.dump):
        shutil.copytree(folder, folder_with_payload)
        (folder_with_payload / "model.safetensors").unlink()
        with (folder_with_payload / "pytorch_model.bin").open("wb") as file:
            save({"a": Payload(proof)}, file)
        with pytest.raises(ModelError, match=r"pytorch_model\.bin: .*refused"):
            load_torch(folder_with_payload)
        assert not proof.exists()
        shutil.rmtree(folder_with_payload)


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def shorten(path):
    path.write_bytes(path.read_bytes()[:-100])


def drop_piece(path):
    values = json.loads(path.read_text())
    del values["<pad>"]
    path.write_text(json.dumps(values))


INVALID_FOLDERS = {
    r"safetensors: damaged or cut short": lambda f: shorten(f / "model.safetensors"),
    r"neither model\.safetensors": lambda f: (f / "model.safetensors").unlink(),
    r"family 'novel' is not supported; uwaga supports .*marian": lambda f: edit(
        f / "config.json", model_type="novel"
    ),
    r"'normalize_before' = True is not supported": lambda f: edit(f / "config.json", normalize_before=True),
    r"'activation_function' = 'tanh'": lambda f: edit(f / "config.json", activation_function="tanh"),
    r"has shape \(22, 18\), .* \(24, 18\)": lambda f: edit(f / "config.json", encoder_ffn_dim=24),
    r"encoder\.layers\.2.*missing": lambda f: edit(f / "config.json", encoder_layers=3),
    r"encoder\.layers\.1.*unknown": lambda f: edit(f / "config.json", encoder_layers=1),
    r"vocab\.json: the vocabulary cannot be read": lambda f: (f / "vocab.json").unlink(),
    r"source\.spm: the tokeniser cannot be read": lambda f: (f / "source.spm").unlink(),
    r"target\.spm: damaged": lambda f: (f / "target.spm").write_bytes(b"no"),
    r"vocabulary lacks <pad>": lambda f: drop_piece(f / "vocab.json"),
    r"pieces numbered up to .* but the weights are for": lambda f: edit(f / "vocab.json", extra=9999),
    r"'num_beam_groups' = 2": lambda f: edit(f / "generation_config.json", num_beam_groups=2),
}


@pytest.mark.parametrize("message", INVALID_FOLDERS)
def test_invalid_folder_is_rejected(folder, tmp_path, message):
    shutil.copytree(folder, tmp_path / "bad")
    INVALID_FOLDERS[message](tmp_path / "bad")
    with pytest.raises(ModelError, match=message):
        load_torch(tmp_path / "bad")


def test_sharded_weights_equal_those_of_a_single_file(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "m")
    (tmp_path / "m/model.safetensors").unlink()
    peer = transformers.MarianMTModel.from_pretrained(folder)
    peer.save_pretrained(tmp_path / "m", max_shard_size="20KB")
    assert (tmp_path / "m/model.safetensors.index.json").exists()
    single = load_torch(folder).model.state_dict()
    sharded = load_torch(tmp_path / "m").model.state_dict()
    assert all(torch.equal(single[name], sharded[name]) for name in single)

"""CTranslate2 folders of old format versions, and folders that expect pre-segmented text."""

import json
import struct

import numpy as np
import pytest
from test_ctranslate2 import greedy, save_random_model
from torch_models import load_torch

import uwaga
from uwaga.checkpoints.formats.ctranslate2.binary import read_model_file
from uwaga.checkpoints.registry import describe

ctranslate2 = pytest.importorskip("ctranslate2")
SUPPRESS_START = {"suppress_sequences": [["<s>"]]}  # uwaga's search never produces the start symbol
OLD_NAMES = [
    *(("encoder/embeddings/weight", "transformer/encoder/w_embs:0"),),
    *(("decoder/embeddings/weight", "transformer/decoder/w_embs:0"),),
    *(("projection", "dense"), ("layer_norm", "LayerNorm"), ("linear_0", "conv1d"), ("linear_", "conv1d_")),
]


def old_name(name):
    """Return a variable's name in OpenNMT-tf, which the first revision uses."""
    for new, old in OLD_NAMES:
        name = name.replace(new, old, 1)
    part = "multi_head" if name.startswith(("encoder", "transformer/encoder")) else "masked_multi_head"
    name = name.replace("self_attention", part).replace("/attention/", "/multi_head/")
    name = name if name.startswith("transformer/") else f"transformer/{name}"
    return name.replace("/weight", "/kernel:0").replace("/bias", "/bias:0")


def rewrite_as_format_1(folder):
    """Rewrite a folder's binary in format 1: with OpenNMT-tf's names and without aliases."""
    path = folder / "model.bin"
    written = {}
    for name, variable in read_model_file(path).variables.items():
        value = np.array(variable.array)
        if value.ndim == 0:
            setting = name.split("/")[-1]
            if setting in ("pre_norm", "activation"):
                written[setting] = value
            elif setting in ("scale_embeddings", "start_from_zero_embedding"):
                written[name] = value
            continue
        name = name.replace("embeddings_0", "embeddings")
        written[old_name(name)] = value
    content = struct.pack("<II", 1, len(written))
    for name, value in written.items():
        content += struct.pack("<H", len(name) + 1) + name.encode() + b"\0"
        content += struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape)
        content += struct.pack("<BI", value.itemsize, value.size) + value.tobytes()
    path.write_bytes(content)
    (folder / "config.json").unlink(missing_ok=True)


@pytest.mark.parametrize("pre_norm", [True, False])
def test_models_of_format_version_1_match_ctranslate2(tmp_path, pre_norm):
    folder = save_random_model(tmp_path / "m", pre_norm=pre_norm)
    rewrite_as_format_1(folder)
    assert read_model_file(folder / "model.bin").version == 1
    actual, expected = greedy(load_torch(folder), folder, **SUPPRESS_START)
    assert actual == expected
    assert not pre_norm or len({tuple(row) for row in actual}) > 1
    assert describe(folder).sizes["format version"] == 1


def test_unknown_token_is_appended_to_a_vocabulary_without_one(tmp_path):
    folder = save_random_model(tmp_path / "m", encodings=50)
    path = folder / "shared_vocabulary.json"
    pieces = json.loads(path.read_text())
    first, *middle, _ = pieces
    assert first == "<unk>"
    path.write_text(json.dumps(["<x>", *middle]))  # the same size with the appended token
    loaded = load_torch(folder)
    assert loaded.source.symbols.unknown == len(pieces) - 1
    texts = ["the dog sees the cat", "Hi €"]
    actual, expected = greedy(loaded, folder, texts, **SUPPRESS_START)
    assert actual == expected
    assert describe(folder).vocabulary == (len(pieces), len(pieces))


def test_translations_of_presegmented_text_match_ctranslate2(tmp_path):
    folder = save_random_model(tmp_path / "m", encodings=50)
    (folder / "sentencepiece.model").unlink()
    path = folder / "shared_vocabulary.json"
    pieces = [piece.replace("\u2581", "_") for piece in json.loads(path.read_text())]
    pieces = [
        piece if piece not in pieces[:number] else f"{piece}@@{number}" for number, piece in enumerate(pieces)
    ]
    path.write_text(json.dumps(pieces))
    texts = [" ".join(pieces[9:13]), f"{pieces[40]} nowhere {pieces[51]}", pieces[30]]
    loaded = load_torch(folder)
    assert loaded.source.encode(f"{pieces[9]}  nowhere") == [9, 0]
    actual, expected = greedy(loaded, folder, texts, **SUPPRESS_START)
    assert actual == expected
    translator = uwaga.load(folder, engine="native")
    translation = translator.translate(texts[0], beam=1, max_length=14, placeholders=False)
    assert translation.text.split(" ") == [piece for piece in expected[0] if piece != "</s>"]

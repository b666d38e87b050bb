"""CTranslate2 folders of its first years, and of text that is cut into pieces already."""

import json
import struct

import numpy as np
import pytest
from loaded import load_torch
from test_ctranslate2 import greedy, spec

import uwaga
from uwaga.checkpoints.formats.ctranslate2.binary import read_model_file
from uwaga.checkpoints.registry import describe

ctranslate2 = pytest.importorskip("ctranslate2")
NEVER = {"suppress_sequences": [["<s>"]]}  # our search never makes the start symbol
FIRST = [
    *(("encoder/embeddings/weight", "transformer/encoder/w_embs:0"),),
    *(("decoder/embeddings/weight", "transformer/decoder/w_embs:0"),),
    *(("projection", "dense"), ("layer_norm", "LayerNorm"), ("linear_0", "conv1d"), ("linear_", "conv1d_")),
]


def first_name(name):
    """A variable's name in OpenNMT-tf, which the first revision has."""
    for new, old in FIRST:
        name = name.replace(new, old, 1)
    part = "multi_head" if name.startswith(("encoder", "transformer/encoder")) else "masked_multi_head"
    name = name.replace("self_attention", part).replace("/attention/", "/multi_head/")
    name = name if name.startswith("transformer/") else f"transformer/{name}"
    return name.replace("/weight", "/kernel:0").replace("/bias", "/bias:0")


def as_format_1(folder):
    """Rewrite a folder's binary in the first format: OpenNMT-tf's names, and no second ones."""
    path = folder / "model.bin"
    written = {}
    for name, variable in read_model_file(path).variables.items():
        value = np.array(variable.stored)
        if value.ndim == 0:
            last = name.split("/")[-1]
            if last in ("pre_norm", "activation"):
                written[last] = value
            elif last in ("scale_embeddings", "start_from_zero_embedding"):
                written[name] = value
            continue
        name = name.replace("embeddings_0", "embeddings")
        written[first_name(name)] = value
    content = struct.pack("<II", 1, len(written))
    for name, value in written.items():
        content += struct.pack("<H", len(name) + 1) + name.encode() + b"\0"
        content += struct.pack(f"<B{value.ndim}I", value.ndim, *value.shape)
        content += struct.pack("<BI", value.itemsize, value.size) + value.tobytes()
    path.write_bytes(content)
    (folder / "config.json").unlink(missing_ok=True)


@pytest.mark.parametrize("pre_norm", [True, False])
def test_I11_27_binary_format_1_gives_ctranslate2s_outputs(tmp_path, pre_norm):
    folder = spec(tmp_path / "m", pre_norm=pre_norm)
    as_format_1(folder)
    assert read_model_file(folder / "model.bin").version == 1
    ours, theirs = greedy(load_torch(folder), folder, **NEVER)
    assert ours == theirs
    assert not pre_norm or len({tuple(row) for row in ours}) > 1
    assert describe(folder).sizes["format version"] == 1


def test_I11_27_a_vocabulary_without_the_unknown_token_gets_it_behind_the_last(tmp_path):
    folder = spec(tmp_path / "m", encodings=50)
    path = folder / "shared_vocabulary.json"
    pieces = json.loads(path.read_text())
    first, *others, _ = pieces
    assert first == "<unk>"
    path.write_text(json.dumps(["<x>", *others]))  # as many as before with what comes behind
    found = load_torch(folder)
    assert found.source.symbols.unknown == len(pieces) - 1
    texts = ["the dog sees the cat", "Hi €"]
    ours, theirs = greedy(found, folder, texts, **NEVER)
    assert ours == theirs
    assert describe(folder).vocabulary == (len(pieces), len(pieces))


def test_I11_27_models_of_text_in_pieces_give_ctranslate2s_outputs(tmp_path):
    folder = spec(tmp_path / "m", encodings=50)
    (folder / "sentencepiece.model").unlink()
    path = folder / "shared_vocabulary.json"
    pieces = [piece.replace("\u2581", "_") for piece in json.loads(path.read_text())]
    pieces = [
        piece if piece not in pieces[:number] else f"{piece}@@{number}" for number, piece in enumerate(pieces)
    ]
    path.write_text(json.dumps(pieces))
    texts = [" ".join(pieces[9:13]), f"{pieces[40]} nowhere {pieces[51]}", pieces[30]]
    found = load_torch(folder)
    assert found.source.encode(f"{pieces[9]}  nowhere") == [9, 0]
    ours, theirs = greedy(found, folder, texts, **NEVER)
    assert ours == theirs
    translator = uwaga.load(folder, engine="native")
    one = translator.translate(texts[0], beam=1, max_length=14)
    assert one.text.split(" ") == [piece for piece in theirs[0] if piece != "</s>"]

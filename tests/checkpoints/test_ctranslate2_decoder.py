"""GPT-2 in CTranslate2's format: agreement with the original model, and rejection of invalid folders."""

import json
import shutil

import gpt2_folders
import numpy as np
import pretrained_tokenisers
import pytest
import torch
from command_line import run_uwaga
from test_ctranslate2 import rewrite
from torch_models import edit_config

import uwaga
from uwaga.checkpoints.registry import describe, read
from uwaga.checkpoints.to_torch import to_torch
from uwaga.errors import ModelError

pytest.importorskip("transformers")
pytest.importorskip("ctranslate2")
TOKENISER = "tokenizer.json"


def converted(folder, out, quantisation=None):
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(str(folder), copy_files=[TOKENISER]).convert(str(out), quantization=quantisation)
    return out


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """Return the folder of a random model saved by ``transformers``."""
    path = tmp_path_factory.mktemp("gpt2") / "model"
    pieces = pretrained_tokenisers.older_format("gpt2")
    end = pieces.peer.eos_token_id
    sizes = {"vocab_size": pieces.ids.vocabulary, "bos_token_id": end, "eos_token_id": end}
    gpt2_folders.make(path, **sizes)
    pieces.peer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def folder(gpt2, tmp_path_factory):
    return converted(gpt2, tmp_path_factory.mktemp("ctranslate2") / "model")


@pytest.mark.parametrize("changes", [{}, {"tie_word_embeddings": False, "activation_function": "relu"}])
def test_conversion_keeps_weights_and_settings(gpt2, tmp_path, changes):
    if changes:
        pieces = pretrained_tokenisers.older_format("gpt2")
        end = pieces.peer.eos_token_id
        gpt2 = tmp_path / "changed"
        sizes = {"vocab_size": pieces.ids.vocabulary, "bos_token_id": end, "eos_token_id": end}
        gpt2_folders.make(gpt2, **sizes, **changes)
        pieces.peer.save_pretrained(gpt2)
    expected, actual = read(gpt2), read(converted(gpt2, tmp_path / "model"))
    assert actual.settings == expected.settings
    assert (actual.task, actual.symbols) == ("generate", expected.symbols)
    for (name, weight), other in zip(
        to_torch(actual, "cpu", "float32").state_dict().items(),
        to_torch(expected, "cpu", "float32").state_dict().values(),
        strict=True,
    ):
        assert torch.equal(weight, other), name


def test_continuations_match_the_original_model(gpt2, folder):
    texts = ["the dog sees", "Where is the station?", ""]
    options = {"beam": 2, "max_length": 6}
    expected, actual = (uwaga.TextGenerator.load(path).generate(texts, **options) for path in (gpt2, folder))
    assert [continuation.text for continuation in actual] == [continuation.text for continuation in expected]
    described = describe(folder)
    assert (described.format, described.family) == ("CTranslate2", "TransformerDecoderSpec")
    assert described.vocabulary == describe(gpt2).vocabulary
    assert described.weights.parameters
    run_uwaga("generate", folder, "--max-length", "3", "the dog")


@pytest.mark.parametrize("quantisation", ["int8", "float16", "bfloat16", "int16"])
def test_quantised_weights_are_dequantised(gpt2, tmp_path, quantisation):
    actual, expected = read(converted(gpt2, tmp_path / "model", quantisation)), read(gpt2)
    assert actual.weights is not None
    assert len(actual.weights.shapes) > 40
    for name in actual.weights.shapes:
        close = 2e-2 * np.abs(expected.weights.read(name)).max()
        np.testing.assert_allclose(actual.weights.read(name), expected.weights.read(name), atol=close)


DECODER = {"name": "TransformerDecoderSpec", "revision": 8}
INVALID_FOLDERS = {
    r"revision 9 of TransformerDecoderSpec is not supported":
        lambda f: rewrite(f / "model.bin", name="TransformerDecoderSpec", revision=9),
    r"'decoder/position_encodings/encodings', which TransformerDecoderSpec requires":
        lambda f: rewrite(f / "model.bin", **DECODER, drop=["decoder/position_encodings/encodings"]),
    r"rotary_dim.*not supported|rotary_dim.*unknown": lambda f: rewrite(
        f / "model.bin", **DECODER, add={"decoder/layer_0/self_attention/rotary_dim": np.array(np.int32(4))}
    ),
    r"'alibi' = 1 is not supported":
        lambda f: rewrite(f / "model.bin", **DECODER, add={"decoder/alibi": np.array(np.int8(1))}),
    r"neither|contains vocabulary|vocabulary \(\.json or \.txt\)": lambda f: (f / "vocabulary.json").unlink(),
    r"contains no tokeniser; copy tokenizer.json": lambda f: (f / TOKENISER).unlink(),
    r"lacks the eos_token '<stop>'": lambda f: edit_config(f, eos_token="<stop>"),
    r"the vocabulary has [0-9]+ tokens, but model.bin has 400": lambda f: (f / "vocabulary.json").write_text(
        json.dumps([*json.loads((f / "vocabulary.json").read_text()), "one more"])
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", INVALID_FOLDERS)
def test_invalid_folder_is_rejected(folder, tmp_path, message):
    shutil.copytree(folder, tmp_path / "bad")
    INVALID_FOLDERS[message](tmp_path / "bad")
    with pytest.raises(ModelError, match=message):
        read(tmp_path / "bad")

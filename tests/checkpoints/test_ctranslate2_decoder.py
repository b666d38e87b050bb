"""GPT-2 in CTranslate2's format: the model that it was converted from, and folders that lie are refused."""

import json
import shutil

import gpt2_folders
import numpy as np
import pretrained_tokenisers
import pytest
import torch
from test_ctranslate2 import rewrite
from typer.testing import CliRunner

import uwaga
from uwaga.checkpoints.registry import describe, read
from uwaga.checkpoints.to_torch import to_torch
from uwaga.cli.main import app
from uwaga.errors import ModelError

pytest.importorskip("transformers")
pytest.importorskip("ctranslate2")
TOKENISER = "tokenizer.json"


def converted(place, out, quantisation=None):
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(str(place), copy_files=[TOKENISER]).convert(str(out), quantization=quantisation)
    return out


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    """A random model as ``transformers`` saves it."""
    place = tmp_path_factory.mktemp("gpt2") / "model"
    pieces = pretrained_tokenisers.older("gpt2")
    end = pieces.peer.eos_token_id
    sizes = {"vocab_size": pieces.ids.vocabulary, "bos_token_id": end, "eos_token_id": end}
    gpt2_folders.make(place, **sizes)
    pieces.peer.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def folder(gpt2, tmp_path_factory):
    return converted(gpt2, tmp_path_factory.mktemp("ctranslate2") / "model")


@pytest.mark.parametrize("changes", [{}, {"tie_word_embeddings": False, "activation_function": "relu"}])
def test_weights_and_settings_are_those_of_the_model_it_was_made_of(gpt2, tmp_path, changes):
    if changes:
        pieces = pretrained_tokenisers.older("gpt2")
        end = pieces.peer.eos_token_id
        gpt2 = tmp_path / "changed"
        sizes = {"vocab_size": pieces.ids.vocabulary, "bos_token_id": end, "eos_token_id": end}
        gpt2_folders.make(gpt2, **sizes, **changes)
        pieces.peer.save_pretrained(gpt2)
    wanted, found = read(gpt2), read(converted(gpt2, tmp_path / "model"))
    assert found.settings == wanted.settings
    assert (found.task, found.symbols) == ("generate", wanted.symbols)
    for (name, weight), other in zip(
        to_torch(found, "cpu", "float32").state_dict().items(),
        to_torch(wanted, "cpu", "float32").state_dict().values(),
        strict=True,
    ):
        assert torch.equal(weight, other), name


def test_text_is_continued_alike_and_described(gpt2, folder):
    texts = ["the dog sees", "Where is the station?", ""]
    options = {"beam": 2, "max_length": 6}
    wanted, found = (uwaga.TextGenerator.load(place).generate(texts, **options) for place in (gpt2, folder))
    assert [one.text for one in found] == [one.text for one in wanted]
    described = describe(folder)
    assert (described.format, described.family) == ("CTranslate2", "TransformerDecoderSpec")
    assert described.vocabulary == describe(gpt2).vocabulary
    assert described.weights.parameters
    done = CliRunner().invoke(app, ["generate", str(folder), "--max-length", "3", "the dog"])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("quantisation", ["int8", "float16", "bfloat16", "int16"])
def test_every_number_format_is_read(gpt2, tmp_path, quantisation):
    found, wanted = read(converted(gpt2, tmp_path / "model", quantisation)), read(gpt2)
    assert found.weights is not None
    assert len(found.weights.shapes) > 40
    for name in found.weights.shapes:
        close = 2e-2 * np.abs(wanted.weights.read(name)).max()
        np.testing.assert_allclose(found.weights.read(name), wanted.weights.read(name), atol=close)


def changed(folder, **values):
    config = json.loads((folder / "config.json").read_text()) | values
    (folder / "config.json").write_text(json.dumps(config))


DECODER = {"name": "TransformerDecoderSpec", "revision": 8}
BAD = {
    r"unsupported revision 9 of TransformerDecoderSpec": lambda f: rewrite(
        f / "model.bin", name="TransformerDecoderSpec", revision=9
    ),
    r"'decoder/position_encodings/encodings' is missing, which a TransformerDecoderSpec": lambda f: rewrite(
        f / "model.bin", **DECODER, drop=["decoder/position_encodings/encodings"]
    ),
    r"rotary_dim.*not supported|rotary_dim.*unknown": lambda f: rewrite(
        f / "model.bin",
        **DECODER,
        add={"decoder/layer_0/self_attention/rotary_dim": np.array(np.int32(4))},
    ),
    r"'alibi' = 1 is not supported": lambda f: rewrite(
        f / "model.bin", **DECODER, add={"decoder/alibi": np.array(np.int8(1))}
    ),
    r"neither|contains vocabulary|vocabulary \(\.json or \.txt\)": lambda f: (f / "vocabulary.json").unlink(),
    r"contains no tokeniser; copy tokenizer.json": lambda f: (f / TOKENISER).unlink(),
    r"lacks the eos_token '<stop>'": lambda f: changed(f, eos_token="<stop>"),
    r"tokens in the vocabulary, and 400 in model.bin": lambda f: (f / "vocabulary.json").write_text(
        json.dumps([*json.loads((f / "vocabulary.json").read_text()), "one more"])
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_folders_are_refused(folder, tmp_path, message):
    shutil.copytree(folder, tmp_path / "bad")
    BAD[message](tmp_path / "bad")
    with pytest.raises(ModelError, match=message):
        read(tmp_path / "bad")

"""Folders of recurrent models on the engine, which run without torch, in float32 and int8."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
import tiny_models as tiny
import torch
from json_files import set_value
from native_models import native_model
from recurrent_variants import VARIANTS

import uwaga
from uwaga.checkpoints.formats.uwaga.int8 import CONFIG, WEIGHTS
from uwaga.conversion.quantise import quantise
from uwaga.engine import NativeModel
from uwaga.errors import ModelError
from uwaga.models.build import build_model
from uwaga.translator import Model, Translator

JOINT = tiny.tokeniser()
SETTINGS = {name: shape.model_copy(update={"max_length": 40}) for name, shape in VARIANTS.items()}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder, models = tmp_path_factory.mktemp("recurrent"), {}
    torch.manual_seed(3)
    for name, shape in SETTINGS.items():
        model = build_model(shape, JOINT.symbols, JOINT.size, JOINT.size).eval()
        tiny.save(folder / name, model, JOINT)
        models[name] = model
    return folder, models


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", SETTINGS)
def test_int8_model_folder_gives_the_same_results_as_quantising_in_memory(folders, name, tmp_path):
    folder, models = folders
    quantise(folder / name, tmp_path / "int8", ("output",))
    engine = native_model(models[name], "int8", keep=("output",))
    expected = Translator(Model(engine, JOINT, JOINT, tiny.SEARCH, ("en", "de")))
    loaded = uwaga.load(tmp_path / "int8")
    assert loaded.decoder.precision == "int8"
    assert loaded.translate(tiny.ENGLISH, beam=3) == expected.translate(tiny.ENGLISH, beam=3)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", SETTINGS)
def test_model_folder_loaded_by_the_engine_translates_as_in_torch(folders, name):
    folder = folders[0] / name
    engine_translator, torch_translator = uwaga.load(folder), uwaga.load(folder, engine="torch")
    assert isinstance(engine_translator.decoder, NativeModel)
    pairs = zip(
        engine_translator.translate(tiny.ENGLISH), torch_translator.translate(tiny.ENGLISH), strict=True
    )
    assert all(translation.text == expected.text for translation, expected in pairs)


@pytest.mark.slow
def test_recurrent_models_translate_and_align_without_torch(folders, tmp_path):
    quantise(folders[0] / "luong", tmp_path / "int8")
    script = (
        "import sys; sys.modules['torch'] = None; import uwaga\n"
        "for folder in sys.argv[1:]:\n"
        "    model = uwaga.load(folder)\n"
        "    assert model.translate(['The dog sees the cat.'], alignment=True)[0].alignment is not None\n"
        "    assert model.attend('The dog', 'Der Hund').attentions.cross.shape[:2] == (1, 1)\n"
    )
    paths = [str(folders[0] / "bahdanau"), str(tmp_path / "int8")]
    subprocess.run([sys.executable, "-c", script, *paths], check=True)


@pytest.mark.parametrize(
    ("keys", "value", "words"),
    [
        (("model", "layers"), 10**9, [WEIGHTS, "requires"]), (("model", "hidden"), 2**40, []),
        (("model", "hidden"), 16, [WEIGHTS]), (("model", "score"), "mine", ["not 'mine'"]),
        (("model", "score"), "dot", [WEIGHTS, "score.key"]), (("model", "family"), "sutskever", ["score"]),
        (("model", "max_length"), 2**40, ["max_length"]),
    ],
)  # fmt: skip
def test_wrong_configuration_is_rejected(folders, tmp_path, keys, value, words):
    quantise(folders[0] / "luong", tmp_path / "int8")
    set_value(tmp_path / "int8" / CONFIG, *keys, value=value)
    with pytest.raises(ModelError) as error:
        uwaga.load(tmp_path / "int8")
    assert all(word in str(error.value) for word in [str(tmp_path / "int8"), *words])


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("input_feeding", False, r"decoder\.layers\.0\.layer\.weight_ih_l0"),
        ("score", "dott", r"config\.json: model\.score: .*'dott'; did you mean 'dot'"),
    ],
)
def test_wrong_configuration_of_a_float32_model_is_rejected(folders, tmp_path, key, value, message):
    shutil.copytree(folders[0] / "luong", tmp_path / "m")
    set_value(tmp_path / "m" / CONFIG, "model", key, value=value)
    with pytest.raises(ModelError, match=message):
        uwaga.load(tmp_path / "m")


def test_int8_model_folder_gives_the_same_attention_as_quantising_in_memory(folders, tmp_path):
    folder, models = folders
    quantise(folder / "gnmt", tmp_path / "int8")
    loaded, packed = uwaga.load(tmp_path / "int8").decoder, native_model(models["gnmt"], "int8")
    sources = [JOINT.encode(text) for text in tiny.ENGLISH]
    for loaded_attentions, packed_attentions in zip(
        *(decoder.attentions(sources, sources) for decoder in (loaded, packed)), strict=True
    ):
        np.testing.assert_array_equal(loaded_attentions.cross, packed_attentions.cross)

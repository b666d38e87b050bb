"""int8 and int4 model folders: agreement with quantisation in memory, and rejection of damaged folders."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tiny_models as tiny
from command_line import run_uwaga
from hostile_files import rewrite_weights
from json_files import set_value
from marian_folders import make as make_marian
from native_models import native_model

import uwaga
from uwaga.checkpoints.formats.uwaga.int8 import CONFIG, WEIGHTS, read_quantised
from uwaga.checkpoints.storage.safetensors_files import open_tensors
from uwaga.conversion.quantise import quantise
from uwaga.errors import ModelError, SettingsError
from uwaga.translator import Model

SHAPE = tiny.TINY.model_copy(update={"tie": "decoder", "norm": "pre", "gated": True, "output_bias": True})
SOURCE, TARGET = tiny.tokeniser("source"), tiny.tokeniser("target", size=330)
MODEL = tiny.transformer(SHAPE, SOURCE, TARGET)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("int8") / "model"
    tiny.save(folder, MODEL, SOURCE, TARGET)
    return folder


@pytest.fixture
def folder(original, tmp_path, request):
    """A folder in int8, or in the precision which a test's table names, with one matrix kept."""
    quantise(original, tmp_path / "quantised", ("output",), precision=getattr(request, "param", "int8"))
    return tmp_path / "quantised"


def check_load_fails(folder, *words):
    with pytest.raises(ModelError) as error:
        uwaga.load(folder)
    message = str(error.value)
    assert str(folder) in message
    for word in words:
        assert word in message


def test_int8_model_folder_gives_the_same_results_as_quantising_in_memory(folder):
    from uwaga.translator import Translator

    engine = native_model(MODEL, "int8", keep=("output",))
    expected = Translator(Model(engine, SOURCE, TARGET, tiny.SEARCH, ("en", "de"))).translate(
        tiny.ENGLISH, beam=3
    )
    loaded = uwaga.load(folder)
    assert loaded.decoder.precision == "int8"
    assert loaded.languages == ("en", "de")
    assert (loaded.decoding, loaded.model.text) == (tiny.SEARCH, tiny.TEXT)
    assert loaded.translate(tiny.ENGLISH, beam=3) == expected
    assert "int8" in (folder / "card.md").read_text()


def test_weights_are_read_only_views_of_the_file(folder):
    packed = read_quantised(folder).packed
    for matrix in packed.matrices.values():
        panels = matrix.arrays[0]
        assert not panels.flags.owndata
        assert not panels.flags.writeable
        assert panels.ctypes.data % 64 == 0
    assert {name for name, matrix in packed.matrices.items() if matrix.format == "bfloat16"} == {"output"}


def test_weight_file_is_valid_safetensors(folder):
    from safetensors.numpy import load_file

    expected = load_file(folder / WEIGHTS)
    actual = open_tensors(folder / WEIGHTS)
    assert expected.keys() == actual.keys()
    assert all(np.array_equal(expected[name], actual[name].values) for name in expected)


def test_truncated_and_missing_weight_files_are_rejected(folder):
    path = folder / WEIGHTS
    content = path.read_bytes()
    for size in (0, 7, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        check_load_fails(folder, WEIGHTS)
    path.unlink()
    check_load_fails(folder, WEIGHTS, "no such file")


def test_flipped_bits_are_detected(folder):
    path = folder / WEIGHTS
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    for position in (0, 9, *rng.integers(0, len(content), 30).tolist(), len(content) - 1):
        bit = 1 << int(rng.integers(0, 8))
        content[position] ^= bit
        path.write_bytes(content)
        check_load_fails(folder, WEIGHTS)
        content[position] ^= bit
    path.write_bytes(content)
    uwaga.load(folder)


@pytest.mark.parametrize(
    ("folder", "keys", "value", "words"),
    [
        ("int8", ("version",), 5, ["version 5 of the int8 format", "newer version of uwaga"]),
        ("int8", ("surprise",), 1, ["unknown setting 'surprise'"]),
        ("int8", ("model", "encoder_layers"), 10**9, [WEIGHTS, "requires"]),
        ("int8", ("model", "feed_forward"), 2**40, [CONFIG, "model.feed_forward must be a whole number"]),
        ("int8", ("model", "width"), 2**20, []),
        ("int8", ("model", "decoder_layers"), 1, ["does not have"]),
        ("int8", ("model", "max_length"), 2**40, ["max_length"]),
        ("int8", ("vocabulary", "target"), 2**23, []),
        ("int8", ("vocabulary", "target"), 331, ["331"]),
        ("int8", ("symbols", "end"), 400, ["symbols.end"]),
        ("int8", ("weights", "kept"), [], []),
        ("int8", ("weights", "levels"), 200, ["levels"]),
        ("int8", ("weights", "sha256"), "0" * 64, ["checksum"]),
        ("int8", ("decoding",), None, ["decoding"]),
        ("int8", ("tokenisers",), "bpe", ["tokenisers"]),
        ("int4", ("version",), 2, ["version 2 of the int4 format", "newer version of uwaga"]),
        ("int4", ("format",), "uwaga int8 model", ["version 1 of the int8 format", "convert the model"]),
        ("int4", ("weights", "kept"), [], [WEIGHTS]),
        ("int4", ("model", "feed_forward"), 2**40, ["config.json", "feed_forward must be"]),
    ],
    indirect=["folder"],
)
def test_invalid_and_mismatched_configs_are_rejected(folder, keys, value, words):
    set_value(folder / CONFIG, *keys, value=value)
    check_load_fails(folder, *words)


INNER = "encoder.0.feed_forward.inner"


@pytest.mark.parametrize(
    ("folder", "name", "index", "value", "words"),
    [
        ("int8", f"{INNER}:scales", 3, np.nan, [INNER, "not finite", WEIGHTS]),
        ("int8", f"{INNER}:scales", 3, np.inf, [INNER, "not finite", WEIGHTS]),
        ("int8", "encoder.0.attention_norm.weight", 3, np.nan,
         ["encoder.0.attention_norm", "not finite", WEIGHTS]),
        ("int8", "output.bias", 3, -np.inf, ["output.bias", "not finite", WEIGHTS]),
        ("int4", f"{INNER}:scales", 3, np.nan, [INNER, "not finite", WEIGHTS]),
        ("int4", f"{INNER}:panels", 0, 99, ["grid of a group exceeds int8"]),
        ("int4", f"{INNER}:sums", 0, 1, ["sums: do not match"]),
    ],
    indirect=["folder"],
)  # fmt: skip
def test_non_finite_and_inconsistent_values_are_rejected(folder, name, index, value, words):
    rewrite_weights(folder, lambda tensors: tensors[name].__setitem__(index, value))
    check_load_fails(folder, *words)


@pytest.mark.parametrize(
    ("folder", "change", "words"),
    [
        ("int8", lambda panels: np.zeros(64, np.int8), []),
        ("int4", lambda panels: panels[:-64], []),
        ("int4", lambda panels: panels.view(np.int8), [INNER]),
    ],
    indirect=["folder"],
)
def test_weights_of_wrong_shapes_and_types_are_rejected(folder, change, words):
    name = f"{INNER}:panels"
    rewrite_weights(folder, lambda tensors: tensors.update({name: change(tensors[name])}))
    check_load_fails(folder, WEIGHTS, *words)


@pytest.mark.parametrize("folder", ["int4"], indirect=True)
def test_M43_missing_tensor_is_rejected(folder):
    rewrite_weights(folder, lambda tensors: tensors.pop(f"{INNER}:scales"))
    check_load_fails(folder, f"{INNER}:scales")


def test_int8_models_require_the_native_engine_and_cannot_be_requantised(folder):
    with pytest.raises(SettingsError, match="int4 need the native engine"):
        uwaga.load(folder, engine="torch")
    with pytest.raises(SettingsError, match="float32 requires the original model"):
        uwaga.load(folder, dtype="float32")
    with pytest.raises(ModelError, match="already quantised"):
        quantise(folder, folder.parent / "again")


def test_M43_int4_model_folder_gives_the_same_results_as_quantising_in_memory(original, tmp_path):
    assert "written in int4" in run_uwaga("convert", "--int4", original, tmp_path / "made").stdout
    loaded, expected = uwaga.load(tmp_path / "made"), uwaga.load(original, dtype="int4")
    assert loaded.decoder.precision == expected.decoder.precision == "int4"
    shared = uwaga.load(tmp_path / "made", memory="shared")
    translations = [translator.translate(tiny.ENGLISH, beam=3) for translator in (loaded, expected, shared)]
    assert translations[0] == translations[1] == translations[2]
    assert "(I4, F32)" in run_uwaga("info", tmp_path / "made").stdout
    run_uwaga("convert", "--int4", "--int8", original, tmp_path / "both", code=1)


@pytest.mark.parametrize("folder", ["int4"], indirect=True)
def test_M43_int4_model_folder_stores_kept_matrices_in_int8(folder):
    formats = {name: matrix.format for name, matrix in read_quantised(folder).packed.matrices.items()}
    assert {name for name, format_ in formats.items() if format_ == "int8"} == {"output"}
    assert set(formats.values()) == {"int4", "int8"}
    with pytest.raises(SettingsError, match="int8 requires the original model"):
        uwaga.load(folder, dtype="int8")
    with pytest.raises(SettingsError, match="int4 need the native engine"):
        uwaga.load(folder, engine="torch")
    with pytest.raises(ModelError, match="already quantised"):
        quantise(folder, folder.parent / "again", precision="int4")


def test_quantise_overwrites_only_quantised_models(original, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(ModelError, match=r"thesis\.txt.*not overwritten"):
        quantise(original, folder)
    with pytest.raises(ModelError, match="not overwritten"):
        quantise(original, original)
    quantise(original, tmp_path / "twice")
    quantise(original, tmp_path / "twice", ("output",))
    assert json.loads((tmp_path / "twice" / CONFIG).read_text())["weights"]["kept"] == ["output"]
    assert "spread" not in json.loads((tmp_path / "twice" / CONFIG).read_text())["weights"]


def test_quantised_marian_model_gives_the_same_results_as_loading_in_int8(tmp_path):
    make_marian(tmp_path / "marian")
    report = quantise(tmp_path / "marian", tmp_path / "int8", sample=tiny.ENGLISH)
    assert report.sentences == len(tiny.ENGLISH)
    loaded = uwaga.load(tmp_path / "int8")
    expected = uwaga.load(tmp_path / "marian", dtype="int8")
    assert loaded.decoding == expected.decoding
    assert loaded.translate(tiny.ENGLISH) == expected.translate(tiny.ENGLISH)


def test_model_with_tokenizer_json_can_be_quantised(tmp_path):
    pytest.importorskip("transformers")
    from fairseq_folders import model_folder

    model_folder(tmp_path / "bart", "bart")
    quantise(tmp_path / "bart", tmp_path / "int8")
    loaded, expected = uwaga.load(tmp_path / "int8"), uwaga.load(tmp_path / "bart", dtype="int8")
    assert isinstance(loaded, uwaga.Translator) and loaded.decoding == expected.decoding
    assert loaded.translate(tiny.ENGLISH, beam=3) == expected.translate(tiny.ENGLISH, beam=3)


def test_convert_command_reports_agreement_with_the_original_model(original, tmp_path):
    (tmp_path / "sample").write_text("\n".join(tiny.ENGLISH) + "\n")
    out = tmp_path / "int8"
    for arguments in (
        ["--int8", original, out, "--keep", "output", "--sample", tmp_path / "sample"],
        ["--int8", "--force", original, out],
    ):
        output = run_uwaga("convert", *arguments).stdout
        assert "written in int8" in output
        assert "identical translations" in output
    run_uwaga("convert", original, out, code=1)


def test_models_translate_without_torch(folder, original, tmp_path):
    """Float32 models, int8 models and the bundled model translate where torch cannot be imported."""
    make_marian(tmp_path / "marian")
    quantise(tmp_path / "marian", tmp_path / "marian8")
    code = (
        "import sys; sys.modules['torch'] = None; import uwaga\n"
        "for name in sys.argv[1:]:\n"
        "    print(len(uwaga.load(name or None).translate('The dog sees the cat.').text))"
    )
    names = [str(folder), str(original), str(tmp_path / "marian"), str(tmp_path / "marian8"), ""]
    process = subprocess.run(
        [sys.executable, "-c", code, *names], capture_output=True, text=True, env=os.environ, check=False
    )
    assert process.returncode == 0, process.stderr
    assert len(process.stdout.split()) == 5

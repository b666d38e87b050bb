"""Model folders: saving and loading, rejection of damaged folders, atomic writes."""

import errno
import fcntl
import hashlib
import json
import os
import stat

import numpy as np
import pytest
import safetensors.torch
import tiny_models as tiny
import torch
from full_disk import limited_file_size
from hypothesis import given
from hypothesis import strategies as st
from json_files import set_value
from torch_models import load_torch

from uwaga.checkpoints.formats.uwaga.read import read_folder
from uwaga.checkpoints.to_engine import pack_weights
from uwaga.checkpoints.to_torch import distinct_tensors
from uwaga.errors import ModelError
from uwaga.files import atomic
from uwaga.search.options import options_from_settings
from uwaga.settings import TransformerSettings

VARIANTS = [
    {"tie": "all"}, {"tie": "decoder"}, {"tie": "none"},
    {"positions": "learned", "norm": "pre", "gated": True, "activation": "silu"}, {"self_attention": "ssru"},
    {"self_attention": "aan"}, {"self_attention": "aan", "aan_layers": 3, "aan_gate": False},
]  # fmt: skip


def parts(joint=True, **changes):
    shape = tiny.TINY.model_copy(update=changes)
    source = tiny.tokeniser("joint" if joint else "source")
    target = source if joint else tiny.tokeniser("target", size=330)
    return tiny.transformer(shape, source, target), source, target


def save_folder(folder, joint=True, dtype="float32", card="# card", **changes):
    model, source, target = parts(joint, **changes)
    tiny.save(folder, model, source, target, dtype, card=card)
    return model


@pytest.fixture
def folder(tmp_path):
    save_folder(tmp_path / "model")
    return tmp_path / "model"


def edit(folder, *keys, value):
    """Change a value of config.json."""
    set_value(folder / "config.json", *keys, value=value)


def load_model(folder, **options):
    return load_torch(folder, read=read_folder, **options)


def assert_rejected(folder, *words):
    with pytest.raises(ModelError) as caught:
        load_model(folder)
    for word in words:
        assert word in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("changes", VARIANTS)
def test_loaded_model_equals_the_saved_model(tmp_path, changes):
    joint = changes.get("tie") not in ("decoder", "none")
    model = save_folder(tmp_path / "m", joint, card="# Käse\n", **changes)
    loaded = load_model(tmp_path / "m")
    expected, actual = model.state_dict(), loaded.model.state_dict()
    assert expected.keys() == actual.keys()
    assert all(torch.equal(expected[name], actual[name]) for name in expected)
    assert not loaded.model.training
    assert loaded.checkpoint.settings == tiny.TINY.model_copy(update=changes)
    assert (loaded.options, loaded.checkpoint.text) == options_from_settings(tiny.DECODING)
    assert loaded.languages == ("en", "de")
    assert (loaded.target is loaded.source) == joint
    assert (tmp_path / "m/card.md").read_text(encoding="utf-8") == "# Käse\n"
    names = {"config.json", "model.safetensors", "source.spm", "card.md"} | (
        set() if joint else {"target.spm"}
    )
    assert {path.name for path in (tmp_path / "m").iterdir()} == names
    source = torch.tensor([[5, 6, 7, 3]])
    assert torch.equal(model(source, source), loaded.model(source, source))


def test_models_without_decoder_self_attention_are_written_as_version_3(tmp_path):
    """Readers of version 2 lack the settings of these models; version 3 makes them raise an error."""
    for kind, version in (("attention", 1), ("ssru", 3), ("aan", 3)):
        save_folder(tmp_path / kind, self_attention=kind)
        config = json.loads((tmp_path / kind / "config.json").read_text())
        assert config["version"] == version
        assert ("self_attention" in config["model"]) == (version == 3)
        assert ("aan_gate" in config["model"]) == (kind == "aan")


def test_tied_weights_are_stored_once(tmp_path):
    for tie, tables in (("all", 1), ("decoder", 2), ("none", 3)):
        model = save_folder(tmp_path / tie, tie=tie)
        with safetensors.safe_open(tmp_path / tie / "model.safetensors", "pt") as file:
            names = set(file.keys())
            numbers = sum(file.get_tensor(name).numel() for name in names)
        assert sum(name.endswith(("embedding.weight", "output_weight")) for name in names) == tables
        assert numbers == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bit_weights_are_stored_and_loaded(tmp_path, dtype):
    model = save_folder(tmp_path / "full")
    save_folder(tmp_path / "half", dtype=dtype)
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("full", "half")]
    numbers = sum(parameter.numel() for parameter in model.parameters())
    assert abs(sizes[0] - sizes[1] - 2 * numbers) < 200  # the headers differ a little
    loaded = load_model(tmp_path / "half").model
    for name, tensor in distinct_tensors(loaded).items():
        assert tensor.dtype == torch.float32
        assert torch.equal(tensor, distinct_tensors(model)[name].to(getattr(torch, dtype)).float())
    assert load_model(tmp_path / "half", dtype=dtype).model.output.weight.dtype == getattr(torch, dtype)


@pytest.mark.parametrize("changes", VARIANTS)
def test_int8_weights_equal_weights_rounded_by_the_native_engine(tmp_path, changes):
    model, source, target = parts(changes.get("tie") not in ("decoder", "none"), **changes)
    with torch.no_grad():
        next(model.parameters())[0] = 0.0  # a row of zeros
    for dtype in ("float32", "int8"):
        tiny.save(tmp_path / dtype, model, source, target, dtype)
    full, stored = (read_folder(tmp_path / name) for name in ("float32", "int8"))
    for name, tensor in distinct_tensors(load_model(tmp_path / "int8").model).items():
        exact = full.weights.read(name)
        if exact.ndim == 2:
            half_step = np.abs(exact).max(axis=1, keepdims=True) / 254
            assert (np.abs(tensor.numpy() - exact) <= half_step * (1 + 1e-5)).all()
        else:
            assert np.array_equal(tensor.numpy(), exact)
    if changes.get("self_attention") != "aan":  # aan needs torch
        actual, expected = (pack_weights(checkpoint, "int8") for checkpoint in (stored, full))
        assert actual.matrices.keys() == expected.matrices.keys()
        for name, matrix in actual.matrices.items():
            assert all(map(np.array_equal, matrix.arrays, expected.matrices[name].arrays)), name


SCALES = "output_weight:scales"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda tensors: tensors.pop(SCALES), [SCALES, "missing"]),
        (lambda tensors: tensors.update({SCALES: tensors[SCALES][1:]}), [SCALES, "(339,)", "(340,)"]),
        (lambda tensors: tensors.update({SCALES: tensors[SCALES].half()}), [SCALES, "F16", "F32"]),
        (lambda tensors: tensors[SCALES].fill_(float("inf")), [SCALES, "not finite"]),
        (lambda tensors: tensors.update({"x:scales": tensors[SCALES].clone()}),
         ["x:scales", "does not have"]),
        (lambda tensors: tensors.update({SCALES[:-7]: tensors[SCALES[:-7]].float()}),
         [SCALES[:-7], "F32", "I8"]),
    ],
)  # fmt: skip
def test_damaged_int8_weights_are_rejected(tmp_path, change, words):
    save_folder(tmp_path / "m", dtype="int8")
    rewrite_weights(tmp_path / "m", change)
    assert_rejected(tmp_path / "m", "model.safetensors", *words)


def test_loading_keeps_the_random_state_and_disables_gradients(folder):
    torch.manual_seed(4)
    before = torch.random.get_rng_state()
    loaded = load_model(folder)
    assert torch.equal(before, torch.random.get_rng_state())
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())


# --- damaged folders


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "source.spm"])
def test_missing_file_is_rejected(folder, name):
    (folder / name).unlink()
    assert_rejected(folder, str(folder / name), "no such file")


def test_missing_target_tokeniser_is_rejected(tmp_path):
    save_folder(tmp_path / "m", joint=False)
    (tmp_path / "m/target.spm").unlink()
    assert_rejected(tmp_path / "m", "target.spm", "no such file")


@pytest.mark.parametrize("size", [0, 4, 8, 100, -1, -1000])
def test_truncated_weight_file_is_rejected(folder, size):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    assert_rejected(folder, str(path), "again" if size else "")


@pytest.mark.parametrize("name", ["model.safetensors", "source.spm", "config.json"])
def test_file_of_arbitrary_bytes_is_rejected(folder, name):
    (folder / name).write_bytes(bytes(range(256)) * 40)
    assert_rejected(folder, str(folder / name))


@pytest.mark.parametrize("name", ["model.safetensors", "source.spm", "config.json"])
def test_folder_or_pipe_instead_of_a_file_is_rejected(folder, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert_rejected(folder, str(folder / name))
    (folder / name).unlink()
    (folder / name).mkdir()
    assert_rejected(folder, str(folder / name))


def rewrite_weights(folder, change):
    path = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(path)
    change(tensors)
    safetensors.torch.save_file(tensors, path)
    edit(folder, "sha256", value=hashlib.sha256(path.read_bytes()).hexdigest())


def test_shape_mismatch_error_names_both_shapes(folder):
    name = "encoder.0.attention_norm.weight"
    rewrite_weights(folder, lambda tensors: tensors.update({name: torch.ones(17)}))
    assert_rejected(folder, "model.safetensors", name, "(17,)", "(16,)")


def test_missing_weight_is_rejected(folder):
    rewrite_weights(folder, lambda tensors: tensors.pop("decoder.1.self_attention_norm.bias"))
    assert_rejected(folder, "decoder.1.self_attention_norm.bias", "missing")


def test_unknown_weight_is_rejected(folder):
    rewrite_weights(folder, lambda tensors: tensors.update(surplus=torch.ones(2)))
    assert_rejected(folder, "'surplus'", "does not have")


def test_number_format_mismatch_error_names_both_formats(folder):
    name = "output_weight"
    rewrite_weights(folder, lambda tensors: tensors.update({name: tensors[name].double()}))
    assert_rejected(folder, name, "F64", "F32")


def test_non_finite_weights_are_rejected(folder):
    name = "output_weight"
    rewrite_weights(folder, lambda tensors: tensors[name][3].fill_(float("nan")))
    assert_rejected(folder, name, "finite")


def test_vocabulary_that_does_not_fit_the_weights_is_rejected(folder):
    name = "output_weight"
    rewrite_weights(folder, lambda tensors: tensors.update({name: tensors[name][:-5].clone()}))
    assert_rejected(folder, name, "(335, 16)", "(340, 16)")


def test_tokeniser_of_another_model_is_rejected(folder):
    (folder / "source.spm").write_bytes(tiny.tokeniser("source", size=330).model_bytes)
    assert_rejected(folder, "source.spm", "330 pieces", "340")


def test_tokeniser_with_another_normalisation_is_rejected(folder):
    (folder / "source.spm").write_bytes(tiny.tokeniser(normalisation="identity").model_bytes)
    assert_rejected(folder, "source.spm", "identity", "nfkc")


@pytest.mark.parametrize(
    ("keys", "value", "words"),
    [
        (("beams",), 3, ["'beams'"]),
        (("model", "widht"), 16, ["model.widht", "'width'"]),
        (("decoding", "lenght_penalty"), 1.0, ["decoding.lenght_penalty", "'length_penalty'"]),
        (("model", "family"), "mamba", ["'mamba'", "transformer"]),
        (("version",), 5, ["version 5", "newer version of uwaga"]),
        (("version",), "one", ["version"]),
        (("format",), "something", ["not the configuration of a uwaga model"]),
        (("model", "heads"), 3, ["width 16", "heads 3"]),
        (("model", "width"), 18, ["(16,)", "(18,)"]),
        (("model", "decoder_layers"), 3, ["decoder.2.", "missing"]),
        (("model", "decoder_layers"), 1, ["decoder.1.", "does not have"]),
        (("model", "tie"), "none", ["target_embedding.weight", "missing"]),
        (("vocabulary", "target"), 300, ["340", "300"]),
        (("symbols", "end"), 999, ["symbols.end is 999", "340"]),
        (("symbols", "end"), 5, ["source.spm", "end=5", "end=3"]),
        (("symbols", "pad"), -1, ["symbols.pad"]),
        (("languages",), ["en", "../../etc"], ["languages"]),
        (("languages",), ["en"], ["languages"]),
        (("weights",), "float16", ["F32", "F16"]),
        (("weights",), "int3", ["weights"]),
        # excessive sizes: rejected before allocating memory
        (("model", "width"), 10**12, ["bytes"]),
        (("model", "feed_forward"), 10**15, ["bytes"]),
        (("model", "encoder_layers"), 10**12, ["layers", "weights"]),
        (("model", "aan_layers"), 10**12, ["model.aan_layers"]),
        (("model", "self_attention"), "ssru", ["ssru.forget.weight", "missing"]),
        (("model", "self_attention"), "lstm", ["model.self_attention", "'attention', 'ssru' or 'aan'"]),
        (("model", "max_length"), 10**12, ["max_length"]),
        (("model", "max_length"), 10**400, ["max_length"]),
        (("vocabulary",), {"source": 2**23, "target": 2**23, "joint": True}, ["8388608"]),
        (("vocabulary", "source"), 10**18, ["vocabulary.source"]),
        (("decoding", "max_ratio"), float("nan"), ["NaN"]),
        (("model", "dropout"), 2.0, ["model.dropout"]),
        (("model",), [], ["model"]),
    ],
)
def test_invalid_setting_is_rejected(folder, keys, value, words):
    edit(folder, *keys, value=value)
    assert_rejected(folder, "config.json" if words[0] != "F32" else "model.safetensors", *words)


@pytest.mark.parametrize(
    "content", ["", "[]", "3", "{", "[" * 100_000, '{"a": ' * 50_000, "\ufeff{}", " " * (1 << 21)]
)
def test_malformed_config_is_rejected(folder, content):
    (folder / "config.json").write_text(content, encoding="utf-8")
    assert_rejected(folder, "config.json")


def test_error_for_a_hugging_face_config_names_its_model_type(folder):
    (folder / "config.json").write_text('{"model_type": "marian", "d_model": 512}')
    assert_rejected(folder, "'marian'", "uwaga train")


@given(data=st.data())
def test_changed_config_byte_is_harmless_or_raises_model_error(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "flipped"
    if not folder.exists():
        save_folder(folder)
    path = folder / "config.json"
    content = path.read_bytes()
    position = data.draw(st.integers(0, len(content) - 1))
    try:
        path.write_bytes(
            content[:position] + bytes([data.draw(st.integers(0, 255))]) + content[position + 1 :]
        )
        load_model(folder)
    except ModelError as error:
        if "flipped" not in str(error):
            raise
    finally:
        path.write_bytes(content)


def test_unavailable_device_raises_model_error(folder):
    with pytest.raises(ModelError, match="cuda:99"):
        load_model(folder, device="cuda:99")


# --- writing


def test_saving_replaces_an_existing_model(folder):
    model = save_folder(folder, joint=False, tie="none")
    assert torch.equal(load_model(folder).model.output_weight, model.output_weight)
    save_folder(folder)
    assert not (folder / "target.spm").exists()
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("name", ["thesis.txt", ".git", "pytorch_model.bin"])
def test_folder_with_other_files_is_not_overwritten(folder, name):
    (folder / name).write_text("mine")
    before = sorted(folder.iterdir())
    with pytest.raises(ModelError, match="not overwritten"):
        save_folder(folder)
    assert sorted(folder.iterdir()) == before


def test_config_of_another_program_is_not_overwritten(tmp_path):
    (tmp_path / "m").mkdir()
    (tmp_path / "m/config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ModelError, match="not overwritten"):
        save_folder(tmp_path / "m")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ModelError, match="is a file; give another folder"):
        save_folder(tmp_path / "file")


def test_model_is_saved_into_empty_or_missing_folders(tmp_path):
    (tmp_path / "empty").mkdir()
    save_folder(tmp_path / "empty")
    save_folder(tmp_path / "a/b/c")
    load_model(tmp_path / "empty")
    load_model(tmp_path / "a/b/c")


def test_temporary_files_of_killed_writers_are_removed(tmp_path):
    old = tmp_path / ".m.00000000.old"
    save_folder(old)
    before = {path.name: path.read_bytes() for path in old.iterdir()}
    (tmp_path / ".m.00000000.part").mkdir()
    (tmp_path / ".m.00000001.part").mkdir()
    (tmp_path / ".m.00000001.part/config.json").write_text("half")
    busy = tmp_path / ".m.00000002.part"
    busy.mkdir()
    handle = os.open(busy, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        atomic.remove_leftovers(tmp_path / "m")  # killed between two renames: the old folder is restored
        assert {path.name: path.read_bytes() for path in (tmp_path / "m").iterdir()} == before
        save_folder(tmp_path / "m", card="another")
        assert sorted(path.name for path in tmp_path.iterdir()) == [busy.name, "m"]
    finally:
        os.close(handle)
    save_folder(tmp_path / "m")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_saved_files_respect_the_umask(folder):
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o777 & ~mask
    assert stat.S_IMODE((folder / "config.json").stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("call", ["fsync", "rename"])
@pytest.mark.parametrize("existing", [False, True])
def test_full_disk_leaves_the_existing_model_unchanged(tmp_path, monkeypatch, call, existing):
    if existing:
        save_folder(tmp_path / "m")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if call == "fsync":
        monkeypatch.setattr(atomic.os, "fsync", lambda handle: (_ for _ in ()).throw(full))
    else:
        rename = atomic.Path.rename

        def fail(path, target):
            if path.name.endswith(".part"):
                raise full
            return rename(path, target)

        monkeypatch.setattr(atomic.Path, "rename", fail)
        monkeypatch.setattr(atomic.ctypes, "CDLL", lambda name: None)  # folders cannot change places
    with pytest.raises(ModelError, match="no space left") as caught:
        save_folder(tmp_path / "m", card="another")
    assert "nothing was changed" in str(caught.value)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert existing or not list(tmp_path.iterdir())


def test_exceeded_file_size_limit_leaves_no_files(tmp_path):
    parts()
    with limited_file_size(20_000), pytest.raises(ModelError, match="no space left"):
        save_folder(tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_overflowing_weights_are_not_saved(tmp_path):
    model, source, target = parts()
    with torch.no_grad():
        model.output.weight[0, 0] = 1e6
    with pytest.raises(ModelError, match="not finite in float16"):
        tiny.save(tmp_path / "m", model, source, target, "float16")
    assert not (tmp_path / "m").exists()


def test_model_with_mismatched_settings_or_an_invalid_language_is_not_saved(tmp_path):
    model, source, target = parts()
    other_settings = TransformerSettings.model_validate(model.settings.model_dump() | {"feed_forward": 25})
    for contents, message in (
        ({"settings": other_settings}, r"feed_forward.*\(24,.*\(25,"),
        ({"languages": ("en us", "de")}, "'en us'"),
    ):
        with pytest.raises(ModelError, match=message):
            tiny.save(tmp_path / "m", model, source, target, **contents)
    assert not (tmp_path / "m").exists()

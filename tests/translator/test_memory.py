"""The ``memory`` option: weights copied to huge pages, or mapped and shared between processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import run_uwaga

import uwaga
from uwaga.conversion.quantise import quantise
from uwaga.errors import ModelError, SettingsError

MODEL = Path(__file__).parents[1] / "support/models/numbers-en-de"
TEXTS = ["twenty one", "nine hundred and ninety nine", "seven"]
LINUX = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc/self/maps")


@pytest.fixture(scope="module")
def int8_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory") / "int8"
    quantise(MODEL, folder)
    return folder


@pytest.fixture
def folder(int8_model, tmp_path):
    for path in int8_model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def is_mapped(folder):
    """Return True if the weight file of a folder is mapped into the memory of this process."""
    return str(folder / "engine.safetensors") in Path("/proc/self/maps").read_text()


@LINUX
def test_memory_mapped_weights_give_equal_translations(folder):
    copied = uwaga.load(folder)
    assert not is_mapped(folder)
    shared = uwaga.load(folder, memory="shared")
    assert is_mapped(folder)
    assert shared.translate(TEXTS) == copied.translate(TEXTS)


@pytest.mark.parametrize("change", ["cut", "rewritten"])
def test_changed_shared_weight_file_is_detected(folder, change):
    """The test uses a child process, since reading past the end of a mapped file kills the process."""
    code = f"""
import os, uwaga
path = {str(folder / "engine.safetensors")!r}
model = uwaga.load({str(folder)!r}, memory="shared")
assert str(model.translate("seven"))
os.utime(path, ns=(1, 1))
if {change!r} == "cut":
    os.truncate(path, 1000)
else:
    with open(path, "r+b") as file:
        file.write(b"x" * 1000)
try:
    model.translate("seven")
except uwaga.errors.ModelError as error:
    print(error)
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    assert "engine.safetensors: the file was changed while it was shared" in process.stdout


def test_shared_weight_file_can_be_replaced_or_removed(folder):
    model = uwaga.load(folder, memory="shared")
    expected = model.translate(TEXTS)
    path = folder / "engine.safetensors"
    (folder / "new").write_bytes(b"another model")
    os.replace(folder / "new", path)
    assert model.translate(TEXTS) == expected
    path.unlink()
    assert model.translate(TEXTS) == expected


def test_damaged_shared_weight_file_is_rejected(folder):
    path = folder / "engine.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match="checksum"):
        uwaga.load(folder, memory="shared")
    path.write_bytes(b"")
    with pytest.raises(ModelError, match="engine"):
        uwaga.load(folder, memory="shared")


def test_only_quantised_weights_can_be_shared():
    with pytest.raises(SettingsError, match="only for int8 and int4 folders"):
        uwaga.load(MODEL, memory="shared")
    with pytest.raises(SettingsError, match="memory must be one of fast, shared, not 'slow'"):
        uwaga.load(MODEL, memory="slow")


def test_all_model_classes_validate_the_memory_option(folder, tmp_path):
    for load in (uwaga.Translator.load, uwaga.TextGenerator.load, uwaga.MaskFiller.load):
        with pytest.raises(SettingsError, match="memory must be one of"):
            load(MODEL, memory="slow")
        with pytest.raises(SettingsError, match="only for int8 and int4 folders"):
            load(MODEL, memory="shared")
    ensemble = uwaga.load([folder, folder], memory="shared")
    assert str(ensemble.translate("seven")) == str(uwaga.load(folder).translate("seven"))


def test_command_line_accepts_the_weights_option(folder):
    for command in (["translate", "seven"], ["score", str(MODEL / "nothing.tsv")]):
        result = run_uwaga(command[0], "--model", folder, "--weights", "slow", *command[1:], code=None)
        assert result.exit_code
    first, second = (
        run_uwaga("translate", "--model", folder, "--weights", memory, "seven").stdout
        for memory in ("fast", "shared")
    )
    assert first == second

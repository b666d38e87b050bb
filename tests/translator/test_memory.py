"""Where weights lie: copied on huge pages, or mapped and shared among processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import uwaga
from uwaga.cli.main import main
from uwaga.conversion.quantise import quantise
from uwaga.errors import ModelError, SettingsError

MODEL = Path(__file__).parents[1] / "support/models/numbers-en-de"
TEXTS = ["twenty one", "nine hundred and ninety nine", "seven"]
LINUX = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="/proc says what is mapped")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory") / "int8"
    quantise(MODEL, folder)
    return folder


@pytest.fixture
def folder(made, tmp_path):
    for path in made.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def mapped(folder):
    """Whether a file of the folder's weights is mapped here."""
    return str(folder / "engine.safetensors") in Path("/proc/self/maps").read_text()


@LINUX
def test_shared_weights_stay_in_their_file_and_translate_alike(folder):
    copied = uwaga.load(folder)
    assert not mapped(folder)
    shared = uwaga.load(folder, memory="shared")
    assert mapped(folder)
    assert shared.translate(TEXTS) == copied.translate(TEXTS)


@pytest.mark.parametrize("harm", ["cut", "rewritten"])
def test_a_change_of_a_shared_file_is_told_before_it_is_read(folder, harm):
    """In a process of its own: one that reads behind the end of a mapped file dies."""
    code = f"""
import os, uwaga
path = {str(folder / "engine.safetensors")!r}
model = uwaga.load({str(folder)!r}, memory="shared")
assert str(model.translate("seven"))
os.utime(path, ns=(1, 1))
if {harm!r} == "cut":
    os.truncate(path, 1000)
else:
    with open(path, "r+b") as file:
        file.write(b"x" * 1000)
try:
    model.translate("seven")
except uwaga.errors.ModelError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "engine.safetensors: was changed while it is shared" in done.stdout


def test_a_shared_file_may_be_replaced_or_removed(folder):
    model = uwaga.load(folder, memory="shared")
    before = model.translate(TEXTS)
    path = folder / "engine.safetensors"
    (folder / "new").write_bytes(b"another model")
    os.replace(folder / "new", path)
    assert model.translate(TEXTS) == before
    path.unlink()
    assert model.translate(TEXTS) == before


def test_a_damaged_file_is_refused_when_it_is_shared_too(folder):
    path = folder / "engine.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match="checksum"):
        uwaga.load(folder, memory="shared")
    path.write_bytes(b"")
    with pytest.raises(ModelError, match="engine"):
        uwaga.load(folder, memory="shared")


def test_only_weights_that_are_used_as_they_lie_can_be_shared():
    with pytest.raises(SettingsError, match="only with int8 and int4 folders"):
        uwaga.load(MODEL, memory="shared")
    with pytest.raises(SettingsError, match="memory must be one of fast, shared, not 'slow'"):
        uwaga.load(MODEL, memory="slow")


def test_every_kind_of_model_takes_the_choice(folder, tmp_path):
    for load in (uwaga.Translator.load, uwaga.TextGenerator.load, uwaga.MaskFiller.load):
        with pytest.raises(SettingsError, match="memory must be one of"):
            load(MODEL, memory="slow")
        with pytest.raises(SettingsError, match="only with int8 and int4 folders"):
            load(MODEL, memory="shared")
    together = uwaga.load([folder, folder], memory="shared")
    assert str(together.translate("seven")) == str(uwaga.load(folder).translate("seven"))


def test_the_command_line_shares(folder, capsys):
    for verb in (["translate", "seven"], ["score", str(MODEL / "nothing.tsv")]):
        with pytest.raises(SystemExit) as done:
            main([verb[0], "--model", str(folder), "--memory", "slow", *verb[1:]])
        assert done.value.code
    capsys.readouterr()
    for memory in ("fast", "shared"):
        with pytest.raises(SystemExit) as done:
            main(["translate", "--model", str(folder), "--memory", memory, "seven"])
        assert not done.value.code
    first, second = capsys.readouterr().out.splitlines()
    assert first == second

"""Files that strangers made: archives that unpack to gigabytes, broken streams, pipes in a file's place."""

import io
import json
import os
import shutil
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

import uwaga
from uwaga.checkpoints.formats.argos.package import read_package
from uwaga.checkpoints.registry import describe
from uwaga.checkpoints.storage.safetensors_files import open_tensors
from uwaga.checkpoints.storage.tensors import read_npz
from uwaga.checkpoints.storage.torch_files import open_torch_file
from uwaga.errors import MissingExtraError, ModelError, UwagaError
from uwaga.files.zip import MODEL_FILES, open_archive

MODEL = Path(__file__).parents[1] / "support" / "models" / "numbers-en-de"


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def packed(path, members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members:
            file.writestr(name, content)
    return path


def refused(path, readers, words, most=32 << 20):
    """Every reader of such a file refuses it and takes no memory for it."""
    for read in readers:
        tracemalloc.start()
        with pytest.raises(ModelError, match=words) as caught:
            read(path)
        taken = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert str(path) in str(caught.value)
        assert taken < most


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_I11_10_members_are_stored_or_deflated(method, tmp_path):
    array = npy(np.zeros(10_000_000, dtype=np.float32))
    path = packed(tmp_path / "m.npz", [("special:model.yml.npy", array)], method)
    refused(path, [read_npz, describe], "compressed by method")
    content = b" " * (40 << 20)
    names = [("p/metadata.json", content), ("p/model/model.bin", content)]
    refused(
        packed(tmp_path / "m.argosmodel", names, method), [read_package, describe], "compressed by method"
    )


def test_I11_10_what_is_inflated_is_bounded(tmp_path):
    zeros = npy(np.zeros(20_000_000, dtype=np.float32))
    path = packed(tmp_path / "m.npz", [("special:model.yml.npy", zeros)], zipfile.ZIP_DEFLATED)
    refused(path, [read_npz, describe], "would unpack")
    lying = bytearray(path.read_bytes())
    for place in (lying.rindex(b"PK\1\2") + 24, lying.index(b"PK\3\4") + 22):  # the size that is stated
        lying[place : place + 4] = (4000).to_bytes(4, "little")
    path.write_bytes(lying)
    refused(path, [read_npz, describe], "damaged|bytes|YAML|whole")


def test_I11_10_members_are_counted_before_they_are_listed(tmp_path):
    many = packed(tmp_path / "many.npz", [(f"{n}.npy", b"") for n in range(MODEL_FILES.max_members + 1)])
    refused(many, [read_npz, describe], "members")
    names = [("n" * 60_000 + f"{n}.npy", b"") for n in range(MODEL_FILES.max_directory // 60_000 + 2)]
    refused(packed(tmp_path / "long.npz", names), [read_npz, describe], "a directory of", most=8 << 20)


@pytest.mark.parametrize("kind", ["cp437", "twice", "NUL", "link", "encrypted", "overlap"])
def test_I11_10_names_and_kinds_of_members_are_checked(kind, tmp_path):
    one = npy(np.arange(64, dtype=np.float32))
    path = tmp_path / "m.npz"
    if kind == "link":
        with zipfile.ZipFile(path, "w") as file:
            info = zipfile.ZipInfo("a.npy")
            info.external_attr = 0o120777 << 16
            file.writestr(info, one)
    else:
        packed(path, [("a.npy", one), ("b.npy", one)])
    content = path.read_bytes()
    if kind == "twice":
        content = content.replace(b"b.npy", b"a.npy")
    elif kind == "NUL":
        content = content.replace(b"b.npy", b"a\0npy")
    elif kind == "cp437":
        content = content.replace(b"b.npy", b"\xff.npy")
    elif kind == "encrypted":
        place = content.index(b"PK\1\2") + 8
        content = content[:place] + b"\1\0" + content[place + 2 :]
    elif kind == "overlap":
        content = bytearray(content)
        for place in (content.index(b"PK\1\2"), content.rindex(b"PK\1\2")):
            content[place + 20 : place + 28] = (9 << 20).to_bytes(4, "little") * 2
    path.write_bytes(content)
    refused(path, [read_npz, describe], "refused|damaged")


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (True, 4)}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, -4)}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (4.0,)}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': 4}",
        b"{'descr': 'V0', 'fortran_order': False, 'shape': (4,)}",
        b"{'descr': [('a', 'O')], 'fortran_order': False, 'shape': (4,)}",
        b"{'descr': {}, 'fortran_order': False, 'shape': (4,)}",
        b"{'descr': None, 'fortran_order': 0, 'shape': None}",
        b"(" * 900 + b")" * 900,
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"9" * 5000 + b",)}",
        b"\xff\xfe",
        b"",
    ],
)
def test_I11_15_odd_shapes_and_headers_of_arrays_are_refused(header, tmp_path):
    content = b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header + b"\0" * 16
    path = packed(tmp_path / "m.npz", [("a.npy", content)])
    refused(path, [read_npz, describe], "m.npz")


STREAMS = [
    b"",
    b".",
    b"(",
    b"\x80\x02.",
    b"\x80\x02a.",
    b"\x80\x02R.",
    b"\x80\x02K\x01K\x02R.",
    b"\x80\x02h\xff.",
]
STREAMS += [
    b"\x80\x02}K\x01s.",
    b"\x80\x02cos\nsystem\n.",
    b"\x80\x02]K\x01\x86.",
    b"\x80\x02Q.",
    b"\x80\x02K\x01b.",
]


@pytest.mark.parametrize("stream", STREAMS)
def test_I11_15_a_broken_pickle_stream_is_an_error_of_ours(stream, tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": torch.zeros(4)}, path)
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    packed(
        path, [(name, stream if name.endswith("data.pkl") else content) for name, content in members.items()]
    )
    with pytest.raises(ModelError, match=r"pytorch_model\.bin"):
        open_torch_file(path)
    path.write_bytes(stream)
    with pytest.raises(ModelError, match=r"pytorch_model\.bin"):
        open_torch_file(path)


@pytest.mark.parametrize("version", ["2.5.1+cpu", "2.9.1", "1.13.0a0+git1"])
def test_a_torch_that_may_execute_code_of_a_file_does_not_read_it(version, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": torch.zeros(4)}, path)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", version)
        patch.setattr(torch, "load", None)
        with pytest.raises(MissingExtraError, match=r"pytorch_model\.bin: .* 2\.10 or newer, .*safetensors"):
            open_torch_file(path)
    assert open_torch_file(path)["a"].values.shape == (4,)


def test_I11_16_sums_of_a_torch_file_are_checked(tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": torch.arange(1000.0)}, path)
    assert np.array_equal(open_torch_file(path)["a"].values, np.arange(1000, dtype=np.float32))
    content = bytearray(path.read_bytes())
    content[content.index(np.arange(1000, dtype=np.float32).tobytes()) + 70] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match="CRC"):
        open_torch_file(path)


@pytest.mark.parametrize("name", ["card.md", "README.md", "config.json", "source.spm"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_I11_14_a_pipe_in_the_place_of_a_file_is_not_waited_for(name, kind, tmp_path):
    folder = tmp_path / "m"
    shutil.copytree(MODEL, folder)
    (folder / "card.md").unlink(missing_ok=True)
    (folder / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to("/dev/zero")
    for read in (describe, uwaga.load):
        try:
            read(folder)
        except UwagaError:
            assert name.startswith(("config", "source"))


def test_I11_15_infinities_and_lone_surrogates_in_other_formats(tmp_path):
    from uwaga.checkpoints.formats.ctranslate2.vocabulary import read_side
    from uwaga.conversion.quantise import quantise

    (tmp_path / "shared_vocabulary.json").write_text(json.dumps(["<unk>", "\ud800"]))
    with pytest.raises(ModelError, match="vocabulary"):
        read_side(tmp_path, "source")
    quantise(MODEL, tmp_path / "int8")
    path = tmp_path / "int8" / "config.json"
    values = json.loads(path.read_text())
    values.pop("decoding")
    for search in ({"length_penalty": float("nan")}, {"max_ratio": float("inf")}, {"unknown": "x"}):
        path.write_text(json.dumps(values | {"search": search}))
        for read in (describe, uwaga.load):
            with pytest.raises(ModelError, match="search"):
                read(tmp_path / "int8")


def test_I11_15_what_is_no_text_is_refused_by_name_and_generators_are_taken():
    translator = uwaga.load(MODEL)
    for wrong in (None, 5, b"x", 1.5):
        with pytest.raises(UwagaError, match="text"):
            translator.translate(wrong)
    for prefix in (5, [5], b"x"):
        with pytest.raises(UwagaError, match="prefix"):
            translator.translate("twenty one", prefix=prefix)
    texts = ["twenty one", "three"]
    assert translator.translate(text for text in texts) == translator.translate(texts)
    assert translator.translate(texts, prefix=iter(["", ""])) == translator.translate(texts)


def test_I11_what_a_library_quotes_of_a_file_is_cut_in_messages(tmp_path):
    header = json.dumps({"a": {"dtype": "9" * 5000, "shape": [1], "data_offsets": [0, 4]}}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(ModelError, match="'a' is stored as '999") as caught:
        open_tensors(path)
    assert len(str(caught.value)) < 400 + len(str(path))


def test_I11_10_a_sound_archive_is_read(tmp_path):
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        path = packed(tmp_path / "m.npz", [("é.npy", npy(np.arange(5)))], method)
        assert list(read_npz(path)) == ["é"]
        with open_archive(path, "a file") as archive:
            archive.check_sums()


LARGE = {"max_position_embeddings": 10**9, "encoder_layers": 10**6, "vocab_size": 10**9, "d_model": 10**9}


@pytest.mark.parametrize("key", [*LARGE, "decoder_layers", "encoder_ffn_dim"])
def test_I11_11_stated_sizes_are_held_against_the_weights_first(key, tmp_path):
    from marian_folders import make

    make(tmp_path / "m")
    path = tmp_path / "m" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: LARGE.get(key, 10**6)}))
    refused(tmp_path / "m", [uwaga.load, describe], "m")


def test_I11_11_an_int8_folder_with_a_million_layers_is_not_listed(tmp_path):
    from uwaga.conversion.quantise import quantise

    quantise(MODEL, tmp_path / "int8")
    path = tmp_path / "int8" / "config.json"
    values = json.loads(path.read_text())
    values["model"]["encoder_layers"] = 10**6
    path.write_text(json.dumps(values))
    refused(tmp_path / "int8", [uwaga.load], "cut short or of another model")
    tracemalloc.start()
    assert describe(tmp_path / "int8").problems
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("kind", ["int8", "uwaga", "marian"])
@pytest.mark.parametrize("engine", ["native", "torch"])
def test_I11_12_a_file_cut_or_rewritten_under_a_loaded_model_changes_nothing(kind, engine, tmp_path):
    """In a process of its own: a mapped file that is cut short kills it."""
    from marian_folders import make

    from uwaga.conversion.quantise import quantise

    if (kind, engine) == ("int8", "torch"):
        pytest.skip("int8 and int4 are the native engine's")
    folder = tmp_path / "m"
    if kind == "int8":
        quantise(MODEL, folder)
    elif kind == "uwaga":
        shutil.copytree(MODEL, folder)
    else:
        make(folder)
    shutil.copytree(folder, tmp_path / "other")
    code = f"""
import pathlib, uwaga
text = "twenty one"
for name, harm in (("m", "cut"), ("other", "rewritten")):
    folder = pathlib.Path({str(tmp_path)!r}, name)
    model = uwaga.load(folder, engine={engine!r}, threads=1)
    before = uwaga.load(folder, engine={engine!r}, threads=1).translate(text, max_length=9)
    for path in folder.glob("*.safetensors"):
        size = path.stat().st_size
        with path.open("r+b") as file:
            if harm == "cut":
                file.truncate(size // 3)
            else:
                file.write(b"\\xff" * size)
    assert model.translate(text, max_length=9) == before
    try:
        uwaga.load(folder, engine={engine!r}, threads=1)
    except uwaga.errors.ModelError:
        print("held")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "held\n" * 2), done.stderr[-2000:]


def test_I11_12_a_file_changed_between_reading_its_header_and_its_weights_is_refused(tmp_path):
    from uwaga.checkpoints.storage.safetensors_files import open_tensors

    shutil.copytree(MODEL, tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    tensors = open_tensors(path)
    first, *_, last = tensors
    kept = tensors[first].values
    assert np.shares_memory(kept, tensors[first].values)
    os.truncate(path, path.stat().st_size - 4)
    assert kept.sum() == tensors[first].values.sum()
    with pytest.raises(ModelError, match="changed while it was read"):
        tensors[last].values.sum()


def test_I11_12_a_shortlist_cut_under_a_loaded_model_changes_nothing(tmp_path):
    from hostile_files import make_files

    folder, shortlist = make_files(MODEL, tmp_path)
    model = uwaga.load(folder, shortlist=shortlist, threads=1)
    before = model.translate("twenty one")
    os.truncate(shortlist, 100)
    assert model.translate("twenty one") == before
    with pytest.raises(ModelError, match="list"):
        uwaga.load(folder, shortlist=shortlist)


def test_I11_16_every_flipped_bit_of_a_float_folder_is_found(tmp_path):
    bundled = Path(uwaga.__file__).parent / "bundled"
    folder = tmp_path / "m"
    shutil.copytree(bundled, folder)
    path, rng = folder / "model.safetensors", np.random.default_rng(3)
    whole = bytearray(path.read_bytes())
    for place in rng.integers(0, len(whole), 20).tolist():
        whole[place] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(whole)
        with pytest.raises(ModelError, match=r"model\.safetensors"):
            uwaga.load(folder)
        path.write_bytes(whole := bytearray((bundled / path.name).read_bytes()))
    config = json.loads((folder / "config.json").read_text())
    del config["sha256"]
    (folder / "config.json").write_text(json.dumps(config))
    assert uwaga.load(folder).translate("Hello.") == uwaga.load().translate("Hello.")  # written before


def test_I11_16_folders_are_written_with_their_sum(tmp_path):
    import hashlib

    import tiny_models as tiny

    from uwaga.checkpoints.formats.uwaga.folder import save_model

    joint = tiny.tokeniser()
    model = tiny.transformer(tiny.TINY, joint, joint)
    save_model(tmp_path / "m", model, tiny.TINY, tiny.DECODING, joint, joint, ("en", "de"), "card")
    content = (tmp_path / "m" / "model.safetensors").read_bytes()
    stated = json.loads((tmp_path / "m" / "config.json").read_text())["sha256"]
    assert stated == hashlib.sha256(content).hexdigest()

"""Untrusted files: archives that unpack to gigabytes, malformed pickles, pipes in place of files."""

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
from json_files import edit_json, set_value

import uwaga
from uwaga.checkpoints.formats.argos import read_package
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


def write_zip(path, members, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in members:
            file.writestr(name, content)
    return path


def assert_rejected(path, readers, words, max_memory=32 << 20):
    """Assert that all readers reject a file without allocating memory for it."""
    for read in readers:
        tracemalloc.start()
        with pytest.raises(ModelError, match=words) as caught:
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert str(path) in str(caught.value)
        assert peak < max_memory


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_unsupported_compression_is_rejected(method, tmp_path):
    array = npy(np.zeros(2_000_000, dtype=np.float32))
    path = write_zip(tmp_path / "m.npz", [("special:model.yml.npy", array)], method)
    assert_rejected(path, [read_npz, describe], "compressed by method", max_memory=4 << 20)
    content = b" " * (8 << 20)
    names = [("p/metadata.json", content), ("p/model/model.bin", content)]
    assert_rejected(
        write_zip(tmp_path / "m.argosmodel", names, method),
        [read_package, describe],
        "compressed by method",
        max_memory=4 << 20,
    )


def test_decompressed_size_is_limited(tmp_path):
    zeros = npy(np.zeros(20_000_000, dtype=np.float32))
    path = write_zip(tmp_path / "m.npz", [("special:model.yml.npy", zeros)], zipfile.ZIP_DEFLATED)
    assert_rejected(path, [read_npz, describe], "would unpack")
    falsified = bytearray(path.read_bytes())
    for offset in (falsified.rindex(b"PK\1\2") + 24, falsified.index(b"PK\3\4") + 22):  # the stated size
        falsified[offset : offset + 4] = (4000).to_bytes(4, "little")
    path.write_bytes(falsified)
    assert_rejected(path, [read_npz, describe], "damaged|bytes|YAML|whole")


@pytest.mark.slow
def test_archive_member_count_and_directory_size_are_limited(tmp_path):
    archive = write_zip(
        tmp_path / "many.npz", [(f"{n}.npy", b"") for n in range(MODEL_FILES.max_members + 1)]
    )
    assert_rejected(archive, [read_npz, describe], "members")
    names = [("n" * 60_000 + f"{n}.npy", b"") for n in range(MODEL_FILES.max_directory // 60_000 + 2)]
    assert_rejected(
        write_zip(tmp_path / "long.npz", names), [read_npz, describe], "a directory of", max_memory=8 << 20
    )


@pytest.mark.parametrize("kind", ["cp437", "twice", "NUL", "link", "encrypted", "overlap"])
def test_invalid_archive_members_are_rejected(kind, tmp_path):
    array = npy(np.arange(64, dtype=np.float32))
    path = tmp_path / "m.npz"
    if kind == "link":
        with zipfile.ZipFile(path, "w") as file:
            info = zipfile.ZipInfo("a.npy")
            info.external_attr = 0o120777 << 16
            file.writestr(info, array)
    else:
        write_zip(path, [("a.npy", array), ("b.npy", array)])
    content = path.read_bytes()
    if kind == "twice":
        content = content.replace(b"b.npy", b"a.npy")
    elif kind == "NUL":
        content = content.replace(b"b.npy", b"a\0npy")
    elif kind == "cp437":
        content = content.replace(b"b.npy", b"\xff.npy")
    elif kind == "encrypted":
        offset = content.index(b"PK\1\2") + 8
        content = content[:offset] + b"\1\0" + content[offset + 2 :]
    elif kind == "overlap":
        content = bytearray(content)
        for offset in (content.index(b"PK\1\2"), content.rindex(b"PK\1\2")):
            content[offset + 20 : offset + 28] = (9 << 20).to_bytes(4, "little") * 2
    path.write_bytes(content)
    assert_rejected(path, [read_npz, describe], "refused|damaged")


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
        b"{'descr': None, 'fortran_order': 0, 'shape': None}", b"(" * 900 + b")" * 900,
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"9" * 5000 + b",)}", b"\xff\xfe", b"",
    ],
)  # fmt: skip
def test_invalid_array_headers_are_rejected(header, tmp_path):
    content = b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header + b"\0" * 16
    path = write_zip(tmp_path / "m.npz", [("a.npy", content)])
    assert_rejected(path, [read_npz, describe], "m.npz")


MALFORMED_PICKLES = [
    b"", b".", b"(", b"\x80\x02.", b"\x80\x02a.", b"\x80\x02R.", b"\x80\x02K\x01K\x02R.", b"\x80\x02h\xff.",
]  # fmt: skip
MALFORMED_PICKLES += [
    b"\x80\x02}K\x01s.", b"\x80\x02cos\nsystem\n.", b"\x80\x02]K\x01\x86.", b"\x80\x02Q.", b"\x80\x02K\x01b.",
]  # fmt: skip


@pytest.mark.parametrize("stream", MALFORMED_PICKLES)
def test_malformed_pickle_raises_model_error(stream, tmp_path):
    torch = pytest.importorskip("torch")
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": torch.zeros(4)}, path)
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    write_zip(
        path, [(name, stream if name.endswith("data.pkl") else content) for name, content in members.items()]
    )
    with pytest.raises(ModelError, match=r"pytorch_model\.bin"):
        open_torch_file(path)
    path.write_bytes(stream)
    with pytest.raises(ModelError, match=r"pytorch_model\.bin"):
        open_torch_file(path)


@pytest.mark.parametrize("version", ["2.5.1+cpu", "2.9.1", "1.13.0a0+git1"])
def test_vulnerable_torch_versions_are_not_used_to_read_files(version, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": torch.zeros(4)}, path)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", version)
        patch.setattr(torch, "load", None)
        with pytest.raises(MissingExtraError, match=r"pytorch_model\.bin: .* 2\.10 or newer, .*safetensors"):
            open_torch_file(path)
    assert open_torch_file(path)["a"].values.shape == (4,)


def test_torch_file_checksums_are_verified(tmp_path):
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
def test_pipe_or_device_instead_of_a_file_does_not_block(name, kind, tmp_path):
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


def test_non_finite_numbers_and_lone_surrogates_in_json_files_are_rejected(tmp_path):
    from uwaga.checkpoints.formats.ctranslate2.vocabulary import read_vocabulary
    from uwaga.conversion.quantise import quantise

    (tmp_path / "shared_vocabulary.json").write_text(json.dumps(["<unk>", "\ud800"]))
    with pytest.raises(ModelError, match="vocabulary"):
        read_vocabulary(tmp_path, "source")
    quantise(MODEL, tmp_path / "int8")
    path = tmp_path / "int8" / "config.json"
    values = json.loads(path.read_text())
    values.pop("decoding")
    for search in ({"length_penalty": float("nan")}, {"max_ratio": float("inf")}, {"unknown": "x"}):
        path.write_text(json.dumps(values | {"search": search}))
        for read in (describe, uwaga.load):
            with pytest.raises(ModelError, match="search"):
                read(tmp_path / "int8")


def test_non_string_texts_are_rejected_and_generators_accepted():
    translator = uwaga.load(MODEL)
    for value in (None, 5, b"x", 1.5):
        with pytest.raises(UwagaError, match="text"):
            translator.translate(value)
    for prefix in (5, [5], b"x"):
        with pytest.raises(UwagaError, match="prefix"):
            translator.translate("twenty one", prefix=prefix)
    texts = ["twenty one", "three"]
    assert translator.translate(text for text in texts) == translator.translate(texts)
    assert translator.translate(texts, prefix=iter(["", ""])) == translator.translate(texts)


def test_quoted_file_contents_are_truncated_in_error_messages(tmp_path):
    header = json.dumps({"a": {"dtype": "9" * 5000, "shape": [1], "data_offsets": [0, 4]}}).encode()
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(ModelError, match="'a' is stored as '999") as caught:
        open_tensors(path)
    assert len(str(caught.value)) < 400 + len(str(path))


def test_valid_archive_with_a_non_ascii_member_name_is_read(tmp_path):
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        path = write_zip(tmp_path / "m.npz", [("é.npy", npy(np.arange(5)))], method)
        assert list(read_npz(path)) == ["é"]
        with open_archive(path, "a file") as archive:
            archive.verify_checksums()


LARGE_SIZES = {
    "max_position_embeddings": 10**9, "encoder_layers": 10**6, "vocab_size": 10**9, "d_model": 10**9,
}  # fmt: skip


@pytest.mark.parametrize("key", [*LARGE_SIZES, "decoder_layers", "encoder_ffn_dim"])
def test_config_sizes_are_checked_against_weights_before_allocation(key, tmp_path):
    from marian_folders import make

    make(tmp_path / "m")
    set_value(tmp_path / "m" / "config.json", key, value=LARGE_SIZES.get(key, 10**6))
    assert_rejected(tmp_path / "m", [uwaga.load, describe], "m")


def test_int8_model_config_with_a_million_layers_is_rejected(tmp_path):
    from uwaga.conversion.quantise import quantise

    quantise(MODEL, tmp_path / "int8")
    set_value(tmp_path / "int8" / "config.json", "model", "encoder_layers", value=10**6)
    assert_rejected(tmp_path / "int8", [uwaga.load], "truncated or belongs to another model")
    tracemalloc.start()
    assert describe(tmp_path / "int8").problems
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


@pytest.mark.slow
def test_changing_files_does_not_affect_a_loaded_model(tmp_path):
    """Run in a separate process, since truncating a memory-mapped file would kill the process."""
    from marian_folders import make

    from uwaga.conversion.quantise import quantise

    quantise(MODEL, tmp_path / "int8")  # int8 is the native engine's
    shutil.copytree(MODEL, tmp_path / "uwaga")
    make(tmp_path / "marian")
    cases = [
        (kind, engine, change)
        for kind, engine in [
            ("int8", "native"), ("uwaga", "native"), ("uwaga", "torch"), ("marian", "native"),
            ("marian", "torch"),
        ]
        for change in ("cut", "rewritten")
    ]  # fmt: skip
    for kind, engine, change in cases:
        shutil.copytree(tmp_path / kind, tmp_path / f"{kind}-{engine}-{change}")
    code = f"""
import pathlib, uwaga
text = "twenty one"
for kind, engine, change in {cases}:
    folder = pathlib.Path({str(tmp_path)!r}, f"{{kind}}-{{engine}}-{{change}}")
    model = uwaga.load(folder, engine=engine, threads=1)
    before = uwaga.load(folder, engine=engine, threads=1).translate(text, max_length=9)
    for path in folder.glob("*.safetensors"):
        size = path.stat().st_size
        with path.open("r+b") as file:
            if change == "cut":
                file.truncate(size // 3)
            else:
                file.write(b"\\xff" * size)
    assert model.translate(text, max_length=9) == before
    try:
        uwaga.load(folder, engine=engine, threads=1)
    except uwaga.errors.ModelError:
        print("rejected")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "rejected\n" * len(cases)), result.stderr[-2000:]


def test_file_changed_after_reading_its_header_is_rejected(tmp_path):
    from uwaga.checkpoints.storage.safetensors_files import open_tensors

    shutil.copytree(MODEL, tmp_path / "m")
    path = tmp_path / "m" / "model.safetensors"
    tensors = open_tensors(path)
    first, *_, last = tensors
    values = tensors[first].values
    assert np.shares_memory(values, tensors[first].values)
    os.truncate(path, path.stat().st_size - 4)
    assert values.sum() == tensors[first].values.sum()
    with pytest.raises(ModelError, match="changed while it was read"):
        tensors[last].values.sum()


def test_truncating_the_shortlist_file_does_not_affect_a_loaded_model(tmp_path):
    from hostile_files import make_files

    folder, shortlist = make_files(MODEL, tmp_path)
    model = uwaga.load(folder, shortlist=shortlist, threads=1)
    before = model.translate("twenty one")
    os.truncate(shortlist, 100)
    assert model.translate("twenty one") == before
    with pytest.raises(ModelError, match="list"):
        uwaga.load(folder, shortlist=shortlist)


def test_bit_flips_in_the_weights_of_a_float_model_folder_are_detected(tmp_path):
    bundled = Path(uwaga.__file__).parent / "bundled"
    folder = tmp_path / "m"
    shutil.copytree(bundled, folder)
    path, rng = folder / "model.safetensors", np.random.default_rng(3)
    content = bytearray(path.read_bytes())
    for position in rng.integers(0, len(content), 20).tolist():
        content[position] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(content)
        with pytest.raises(ModelError, match=r"model\.safetensors"):
            uwaga.load(folder)
        path.write_bytes(content := bytearray((bundled / path.name).read_bytes()))
    edit_json(folder / "config.json", sha256=None)
    assert uwaga.load(folder).translate("Hello.") == uwaga.load().translate(
        "Hello."
    )  # a folder from before checksums


def test_saved_config_contains_the_checksum_of_the_weights(tmp_path):
    import hashlib

    import tiny_models as tiny

    joint = tiny.tokeniser()
    model = tiny.transformer(tiny.TINY, joint, joint)
    tiny.save(tmp_path / "m", model, joint)
    content = (tmp_path / "m" / "model.safetensors").read_bytes()
    checksum = json.loads((tmp_path / "m" / "config.json").read_text())["sha256"]
    assert checksum == hashlib.sha256(content).hexdigest()

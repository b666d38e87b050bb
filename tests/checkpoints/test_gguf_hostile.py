"""Untrusted GGUF files: false sizes and counts, invalid offsets, mutated bytes."""

import struct
import tracemalloc

import gguf_files
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.formats.gguf import file as gguf_file
from uwaga.checkpoints.formats.gguf.file import read_file
from uwaga.checkpoints.formats.gguf.read import read_gguf
from uwaga.errors import ModelError

MAX_MEMORY = 8 << 20
"""Maximum number of bytes of memory used to reject a file."""


def encoded_string(content):
    content = content if isinstance(content, bytes) else content.encode()
    return struct.pack("<Q", len(content)) + content


def entry(key, kind, content):
    return encoded_string(key) + struct.pack("<I", kind) + content


def info(name="t", shape=(4,), form=0, offset=0):
    return encoded_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, form, offset)


def header(metadata=(), infos=(), version=3, counts=None):
    tensors, values = counts or (len(infos), len(metadata))
    return b"GGUF" + struct.pack("<IQQ", version, tensors, values) + b"".join((*metadata, *infos))


def gguf(metadata=(), infos=(), data=256, **options):
    content = header(metadata, infos, **options)
    return content + bytes(-len(content) % 32 + data)


HUGE_NUMBER = 1 << 60
CASES = {
    "empty": (b"", "needs 4 bytes, but only 0 remain: the file is truncated"),
    "other": (b"PK\3\4" + bytes(99), "not a GGUF file"),
    "version 1": (gguf(version=1), "GGUF version 1; uwaga reads versions 2 and 3"),
    "big-endian": (gguf(version=3 << 24), "big-endian"),
    "cut in the counts": (b"GGUF" + bytes((3, 0, 0, 0, 1)), "the number of tensors needs 8 bytes"),
    "more metadata than bytes": (gguf(counts=(0, HUGE_NUMBER)), "'' occurs twice|a metadata key"),
    "more tensors than bytes": (gguf(counts=(HUGE_NUMBER, 0)), "tensor '' has 0 axes"),
    "a long key": (gguf([struct.pack("<Q", HUGE_NUMBER)]), "a metadata key has 1152921504606846976 bytes"),
    "a long string": (gguf([encoded_string("k") + struct.pack("<IQ", 8, HUGE_NUMBER)]),
        "the value of 'k' has 1152921504606846976"),
    "a string beyond the end":
        (gguf([entry("k", 8, struct.pack("<Q", 5000))]), "the value of 'k' needs 5000"),
    "not UTF-8": (gguf([entry("k", 8, encoded_string(b"\xff"))]), "the value of 'k' is not UTF-8"),
    "a key that is not UTF-8":
        (gguf([entry(b"\xff", 8, encoded_string("v"))]), "a metadata key is not UTF-8"),
    "an unknown type": (gguf([entry("k", 13, bytes(8))]), "the value of 'k' is of the unknown type 13"),
    "a long array": (gguf([entry("k", 9, struct.pack("<IQ", 4, HUGE_NUMBER))]), "the value of 'k' needs"),
    "an array of 2^64":
        (gguf([entry("k", 9, struct.pack("<IQ", 12, (1 << 64) - 1))]), "the value of 'k' needs"),
    "many empty strings":
        (gguf([entry("k", 9, struct.pack("<IQ", 8, HUGE_NUMBER))]), r"entry \d+ of 'k' needs 8 bytes"),
    "a string of an array": (
        gguf(
            [entry("k", 9, struct.pack("<IQ", 8, 2) + encoded_string("a") + struct.pack("<Q", HUGE_NUMBER))]
        ),
        "entry 1 of 'k' has 1152921504606846976 bytes",
    ),
    "an array that is not UTF-8": (
        gguf([entry("k", 9, struct.pack("<IQ", 8, 2) + encoded_string("a") + encoded_string(b"\xff"))]),
        "entry 1 of 'k' is not UTF-8"),
    "an array of arrays": (gguf([entry("k", 9, struct.pack("<IQ", 9, 1) * 9)]),
        "'k' is an array of arrays, which is not supported"),
    "an array of unknown type":
        (gguf([entry("k", 9, struct.pack("<IQ", 99, 1))]), "an array of the unknown type 99"),
    "a key twice": (gguf([entry("k", 4, bytes(4))] * 2), "the key 'k' occurs twice"),
    "a tensor twice": (gguf(infos=[info(), info(offset=32)]), "the tensor 't' occurs twice"),
    "no axes": (gguf(infos=[info(shape=())]), "tensor 't' has 0 axes"),
    "many axes": (gguf(infos=[info(shape=(1,) * 5)]), "tensor 't' has 5 axes"),
    "2^32 axes": (gguf(infos=[encoded_string("t") + b"\xff" * 4]), "tensor 't' has 4294967295 axes"),
    "an empty axis": (gguf(infos=[info(shape=(4, 0))]), r"tensor 't' has the shape \(0, 4\)"),
    "a huge axis": (gguf(infos=[info(shape=(HUGE_NUMBER, HUGE_NUMBER, HUGE_NUMBER, HUGE_NUMBER))]),
        "ends beyond the end of the file"),
    "a huge axis of blocks":
        (gguf(infos=[info(shape=(HUGE_NUMBER, HUGE_NUMBER), form=8)]), "ends beyond the end"),
    "a tensor beyond the end": (gguf(infos=[info(offset=256)]), "'t' .*ends beyond the end"),
    "a tensor at 2^64": (gguf(infos=[info(offset=(1 << 64) - 32)]), "'t' .*ends beyond the end"),
    "unaligned":
        (gguf(infos=[info(offset=8)]), "'t' is at byte 8 of the data, which is not a multiple of 32"),
    "overlapping": (gguf(infos=[info(shape=(9,)), info("u", offset=32)]), "'t' and 'u' overlap"),
    "two in one place": (gguf(infos=[info(), info("u")]), "'t' and 'u' overlap"),
    "an unread format":
        (gguf(infos=[info(shape=(256,), form=23)]), "'t' is stored as IQ4_XS; uwaga reads F32"),
    "an unknown format": (gguf(infos=[info(form=77)]), "'t' is stored as the unknown format 77"),
    "rows that are no blocks": (gguf(infos=[info(shape=(33,), form=8)]),
        "rows of 33 numbers, which cannot be divided into blocks of 32"),
    "alignment 0":
        (gguf([entry("general.alignment", 4, bytes(4))]), "'general.alignment' must be a multiple of 8"),
    "alignment 7": (gguf([entry("general.alignment", 4, b"\7\0\0\0")]), "'general.alignment' must be"),
    "alignment 2^31": (gguf([entry("general.alignment", 4, b"\0\0\0\x80")]), "'general.alignment' must be"),
    "alignment in words":
        (gguf([entry("general.alignment", 8, encoded_string("32"))]), "'general.alignment' must be"),
    "no architecture": (gguf(), "'general.architecture' must be a string, not missing"),
    "architecture 7": (gguf([entry("general.architecture", 4, b"\7\0\0\0")]), "must be a string, not 7"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_invalid_header_is_rejected_without_large_allocations(tmp_path, name):
    content, words = CASES[name]
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    for read in (formats.read, formats.describe):
        tracemalloc.start()
        with pytest.raises(ModelError, match=words) as caught:
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert str(path) in str(caught.value) and len(str(caught.value)) < 1000
        assert peak < MAX_MEMORY


def test_metadata_of_all_types_and_versions_is_read(tmp_path):
    numbers = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 10: "<Q", 11: "<q", 12: "<d"}
    metadata = [entry(f"k{kind}", kind, struct.pack(form, 77)) for kind, form in numbers.items()]
    metadata += [
        entry(f"a{kind}", 9, struct.pack("<IQ", kind, 3) + struct.pack("<" + form[1] * 3, 1, 2, 3))
        for kind, form in numbers.items()
    ]
    metadata += [
        entry("yes", 7, b"\1"),
        entry("words", 9, struct.pack("<IQ", 8, 2) + encoded_string("é") + encoded_string("")),
    ]
    metadata += [
        entry("truths", 9, struct.pack("<IQ", 7, 2) + b"\1\0"),
        entry("tenth", 6, struct.pack("<f", 0.1)),
    ]
    for version in (2, 3):
        path = tmp_path / "m.gguf"
        path.write_bytes(gguf(metadata, version=version))
        metadata_read = read_file(path).metadata
        for kind in numbers:
            assert metadata_read[f"k{kind}"] == 77 and metadata_read[f"a{kind}"].tolist() == [1, 2, 3]
        assert (
            metadata_read["yes"] is True
            and metadata_read["words"].decode_all() == ["é", ""]
            and metadata_read["tenth"] == 0.1
        )
        assert metadata_read["truths"].tolist() == [1, 0]


@given(blocks=st.integers(1, 64), words=st.lists(st.text(max_size=9), max_size=30))
def test_metadata_strings_that_span_read_blocks_are_decoded(tmp_path_factory, blocks, words):
    path = tmp_path_factory.mktemp("blocks") / "m.gguf"
    content = struct.pack("<IQ", 8, len(words)) + b"".join(map(encoded_string, words))
    path.write_bytes(gguf([entry("words", 9, content), entry("end", 8, encoded_string("end"))]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gguf_file, "BLOCK_BYTES", blocks)
        metadata = read_file(path).metadata
    assert (
        metadata["words"].decode_all() == [metadata["words"][index] for index in range(len(words))] == words
    )
    assert metadata["end"] == "end"


def test_gguf_header_is_read_once(tmp_path, monkeypatch):
    """The number of bytes read is at most the size of the header plus one block."""
    monkeypatch.setattr(gguf_file, "BLOCK_BYTES", 4096)
    read, part = [], gguf_file.PrivateFile.part

    def counted(file, start, size):
        read.append(size)
        return part(file, start, size)

    monkeypatch.setattr(gguf_file.PrivateFile, "part", counted)
    names = [f"n{number}" for number in range(3000)]
    words = struct.pack("<IQ", 8, len(names)) + b"".join(map(encoded_string, names))
    metadata = [entry("words", 9, words), *(entry(name, 4, bytes(4)) for name in names)]
    infos = [info(name, offset=32 * index) for index, name in enumerate(names)]
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf(metadata, infos, data=32 * len(names)))
    assert len(read_file(path).tensors) == len(names)
    assert sum(read) < 1.1 * len(header(metadata, infos)) + 4096


@pytest.fixture(scope="module")
def valid_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "m.gguf"
    content = gguf_files.write(path, "gemma3", form="Q8_0").read_bytes()
    return content, path


def use_model(path):
    checkpoint = read_gguf(path)
    for name in checkpoint.weights.names():
        checkpoint.weights.read(name)
    checkpoint.source.decode(checkpoint.source.encode("abcd the x"))


BOUNDARY_VALUES = [
    0, 1, 2, 7, 8, 9, 255, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 60, (1 << 63) - 1,
    (1 << 64) - 1,
]  # fmt: skip


@settings(max_examples=60)
@given(data=st.data())
def test_mutated_file_is_read_or_raises_model_error(valid_file, data):
    content, path = valid_file
    mutated = bytearray(content)
    tensors = len(content) - 10_000
    for _ in range(data.draw(st.sampled_from([1, 1, 2, 5]))):
        position = data.draw(st.integers(0, len(content) - 1 if data.draw(st.booleans()) else tensors))
        kind = data.draw(st.sampled_from(["bits", "number", "cut", "remove", "repeat"]))
        if kind == "bits":
            mutated[position % len(mutated)] ^= 1 << data.draw(st.integers(0, 7))
        elif kind == "number":
            size = data.draw(st.sampled_from([4, 8]))
            number = data.draw(st.sampled_from(BOUNDARY_VALUES)) % (1 << 8 * size)
            mutated[position : position + size] = number.to_bytes(size, "little")
        elif kind == "cut":
            del mutated[position:]
        elif kind == "remove":
            del mutated[position : position + data.draw(st.integers(1, 64))]
        else:
            mutated[position:position] = mutated[position : position + data.draw(st.integers(1, 64))]
        mutated = mutated or bytearray(1)
    path.write_bytes(mutated)
    tracemalloc.start()
    message = str(path)
    try:
        use_model(path)
    except ModelError as error:
        message = str(error)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(path) in message and len(message) < 1000
    assert peak < MAX_MEMORY

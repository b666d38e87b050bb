"""safetensors files are read, written and rejected as by the library ``safetensors``."""

import json

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from uwaga.checkpoints.storage.safetensors_files import (
    FORMAT_NAMES,
    aligned_bytes,
    open_tensors,
    parse_tensors,
    read_header,
    read_metadata,
)
from uwaga.errors import ModelError

ARRAYS = st.dictionaries(
    st.text(max_size=8).filter(lambda name: name != "__metadata__"),
    st.sampled_from(sorted(FORMAT_NAMES)).flatmap(
        lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))
    ),
    max_size=4,
)
EXAMPLES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
METADATA = {"format": "pt", "ü": "\n"}


def assert_equal(left, right):
    assert left.keys() == right.keys()
    for name, array in left.items():
        assert (array.dtype, array.shape) == (right[name].dtype, right[name].shape)
        assert array.tobytes() == right[name].tobytes()


@EXAMPLES
@given(ARRAYS)
def test_files_are_interchangeable_with_those_of_safetensors(tmp_path, arrays):
    path = tmp_path / "m.safetensors"
    for content in (safetensors.numpy.save(arrays, METADATA), aligned_bytes(arrays, METADATA)):
        path.write_bytes(content)
        assert_equal({name: tensor.values for name, tensor in open_tensors(path).items()}, arrays)
        data = np.frombuffer(content, np.uint8)
        assert_equal({name: tensor.values for name, tensor in parse_tensors(path, data).items()}, arrays)
        assert {name: shape for name, (shape, _) in read_header(path).items()} == {
            name: array.shape for name, array in arrays.items()
        }
        assert read_metadata(path) == METADATA
    assert_equal(safetensors.numpy.load(content), arrays)


def can_read(load):
    try:
        load()
    except (ModelError, safetensors.SafetensorError):
        return False
    return True


@EXAMPLES
@given(ARRAYS, st.data())
def test_files_rejected_by_safetensors_are_rejected(tmp_path, arrays, data):
    content = bytearray(safetensors.numpy.save(arrays, METADATA))
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] = data.draw(st.sampled_from(b'0123456789[]{}",:-. eF') | st.integers(0, 255))
    path = tmp_path / "m.safetensors"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))])
    if can_read(lambda: open_tensors(path)):
        assert can_read(lambda: safetensors.safe_open(path, "np"))


def header(size=4, **entries):
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + bytes(size)


def entry(start=0, end=4, shape=(1,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "shorter than 8 bytes"),
        (b"\xff" * 9, "header is longer than"),
        ((9).to_bytes(8, "little") + b"{}", "ends within its header"),
        ((2).to_bytes(8, "little") + b"[]", "damaged"),
        (header(w=entry(end=8)), "'w' does not match its data_offsets"),
        (header(w=entry(shape=[-1, -1])), "'w' are not whole numbers"),
        (header(w=entry(shape=[True])), "'w' are not whole numbers"),
        (header(w=entry(shape=[0, 1 << 70], end=0)), "'w' are not whole numbers"),
        (header(w=entry(dtype="F4")), "'w' is stored as 'F4', which is not supported"),
        (header(8, a=entry(), b=entry()), "'b' does not begin where the previous tensor ends"),
        (header(8, a=entry(4, 8)), "'a' does not begin where the previous tensor ends"),
        (header(5, w=entry()), "its tensors take 4 bytes, but it contains 5"),
        (header(3, w=entry()), "its tensors take 4 bytes, but it contains 3"),
        (header(0, __metadata__={"a": 1}), "__metadata__ in its header contains values that are not strings"),
        (header(0, __metadata__=[]), "damaged"),
        ((15).to_bytes(8, "little") + b'{"a":1,"a":[1]}', "a name occurs twice in its header"),
    ],
)
def test_damaged_file_is_rejected(tmp_path, content, problem):
    path = tmp_path / "m.safetensors"
    path.write_bytes(content)
    for read in (
        open_tensors,
        read_header,
        lambda path: parse_tensors(path, np.frombuffer(content, np.uint8)),
    ):
        with pytest.raises(ModelError, match=problem) as caught:
            read(path)
        assert str(path) in str(caught.value)

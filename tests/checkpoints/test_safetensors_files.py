"""safetensors files: read and written as the library does, and refused where it refuses."""

import json

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from uwaga.checkpoints.storage.safetensors_files import (
    NAMES,
    aligned_bytes,
    open_tensors,
    read_header,
    read_metadata,
    tensors_of,
)
from uwaga.errors import ModelError

ARRAYS = st.dictionaries(
    st.text(max_size=8).filter(lambda name: name != "__metadata__"),
    st.sampled_from(sorted(NAMES)).flatmap(
        lambda kind: hnp.arrays(kind, hnp.array_shapes(min_dims=0, min_side=0, max_side=4))
    ),
    max_size=4,
)
EXAMPLES = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
METADATA = {"format": "pt", "ü": "\n"}


def equal(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        assert (array.dtype, array.shape) == (other[name].dtype, other[name].shape)
        assert array.tobytes() == other[name].tobytes()


@EXAMPLES
@given(ARRAYS)
def test_files_are_those_of_the_library(tmp_path, arrays):
    path = tmp_path / "m.safetensors"
    for content in (safetensors.numpy.save(arrays, METADATA), aligned_bytes(arrays, METADATA)):
        path.write_bytes(content)
        equal({name: one.values for name, one in open_tensors(path).items()}, arrays)
        whole = np.frombuffer(content, np.uint8)
        equal({name: one.values for name, one in tensors_of(path, whole).items()}, arrays)
        assert {name: shape for name, (shape, _) in read_header(path).items()} == {
            name: array.shape for name, array in arrays.items()
        }
        assert read_metadata(path) == METADATA
    equal(safetensors.numpy.load(content), arrays)


def is_read(load):
    try:
        load()
    except (ModelError, safetensors.SafetensorError):
        return False
    return True


@EXAMPLES
@given(ARRAYS, st.data())
def test_no_damaged_file_is_read_that_the_library_refuses(tmp_path, arrays, data):
    content = bytearray(safetensors.numpy.save(arrays, METADATA))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.sampled_from(b'0123456789[]{}",:-. eF') | st.integers(0, 255))
    path = tmp_path / "m.safetensors"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)) | st.just(len(content)))])
    if is_read(lambda: open_tensors(path)):
        assert is_read(lambda: safetensors.safe_open(path, "np"))


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
        (header(w=entry(end=8)), "'w' does not fit its data_offsets"),
        (header(w=entry(shape=[-1, -1])), "'w' are not whole numbers"),
        (header(w=entry(shape=[True])), "'w' are not whole numbers"),
        (header(w=entry(shape=[0, 1 << 70], end=0)), "'w' are not whole numbers"),
        (header(w=entry(dtype="F4")), "'w' is stored as 'F4', which is not supported"),
        (header(8, a=entry(), b=entry()), "'b' does not begin where the tensor before it ends"),
        (header(8, a=entry(4, 8)), "'a' does not begin where the tensor before it ends"),
        (header(5, w=entry()), "its tensors take 4 bytes and it has 5"),
        (header(3, w=entry()), "its tensors take 4 bytes and it has 3"),
        (header(0, __metadata__={"a": 1}), "__metadata__ holds more than texts"),
        (header(0, __metadata__=[]), "damaged"),
        ((15).to_bytes(8, "little") + b'{"a":1,"a":[1]}', "a name is in its header twice"),
    ],
)
def test_what_is_damaged_is_named(tmp_path, content, problem):
    path = tmp_path / "m.safetensors"
    path.write_bytes(content)
    for read in (open_tensors, read_header, lambda path: tensors_of(path, np.frombuffer(content, np.uint8))):
        with pytest.raises(ModelError, match=problem) as caught:
            read(path)
        assert str(path) in str(caught.value)

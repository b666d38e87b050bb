"""Tensors stored in files of any format, and reading of ``.npz`` files."""

from __future__ import annotations

import math
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from uwaga.checkpoints.storage.memory import PrivateTensor
from uwaga.engine.packing import MAX_LEVELS, MIN_QUANTISED
from uwaga.errors import ModelError, quoted
from uwaga.results.attention import Floats

if TYPE_CHECKING:
    from uwaga.files.zip import Archive

NUMPY_TYPES: Mapping[str, Any] = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "BF16": np.uint16, "U64": np.uint64,
    "U32": np.uint32, "U16": np.uint16, "U8": np.uint8, "I64": np.int64, "I32": np.int32, "I16": np.int16,
    "I8": np.int8, "BOOL": np.bool_,
}  # fmt: skip
"""NumPy types of supported number formats by safetensors name; bfloat16 numbers are read as bits."""
FLOATING_FORMATS = frozenset({"F64", "F32", "F16", "BF16"})
FORMAT_NAMES: Mapping[str, str] = {
    np.dtype(kind).name: name for name, kind in NUMPY_TYPES.items() if name not in ("BF16",)
}
"""Names of number formats in safetensors, by their names in NumPy."""


@dataclass(frozen=True)
class StoredTensor:
    """A tensor stored in a file.

    Attributes:
        name: name of the tensor in the file.
        path: path of the file.
        format: name of the number format in safetensors.
        content: the values, or their location in the file; bfloat16 values are represented by their bits.
    """

    name: str
    path: Path
    format: str
    content: NDArray[Any] | PrivateTensor

    @property
    def values(self) -> NDArray[Any]:
        """The values, read on demand; bfloat16 values are represented by their bits."""
        return self.content.read() if isinstance(self.content, PrivateTensor) else self.content

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the stored values."""
        return self.content.shape

    @property
    def is_floating(self) -> bool:
        """True if the values are floating-point numbers or represent them, which is required of weights."""
        return self.format in FLOATING_FORMATS

    def floats(self) -> Floats:
        """Return the values in float32, without a copy if they are stored in float32."""
        if self.format == "BF16":
            return (self.values.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return self.values.astype(np.float32, copy=False)

    def equals(self, other: StoredTensor) -> bool:
        """Return True if another tensor has the same shape and the same values."""
        if self.content is other.content:
            return True
        if self.shape != other.shape:
            return False
        left, right = self.values, other.values
        if left.shape != right.shape or self.format != other.format:
            return left.shape == right.shape and bool(np.array_equal(self.floats(), other.floats()))
        same_memory = left.ctypes.data == right.ctypes.data and left.strides == right.strides
        return same_memory or bool(np.array_equal(left, right))

    def rows(self, first: int, last: int) -> StoredTensor:
        """Return the tensor of rows ``first`` to ``last`` - 1 of the first axis; other rows are not read."""
        content = self.content
        part = content.rows(first, last) if isinstance(content, PrivateTensor) else content[first:last]
        return replace(self, content=part)

    def with_name(self, name: str) -> StoredTensor:
        """Return the same tensor under another name."""
        return replace(self, name=name)


@dataclass(frozen=True)
class QuantisedTensor(StoredTensor):
    """A tensor of quantised weights.

    Attributes:
        scale: factor by which the integers are multiplied, or one factor per row, (rows,).
        transposed: True if the file contains the transpose of the matrix.
    """

    scale: float | Floats = 1.0
    transposed: bool = False

    @property
    def values(self) -> NDArray[Any]:
        stored_values = super().values
        return stored_values.T if self.transposed else stored_values

    @property
    def shape(self) -> tuple[int, ...]:
        return self.content.shape[::-1] if self.transposed else self.content.shape

    @property
    def is_floating(self) -> bool:
        return True

    def floats(self) -> Floats:
        """Return the weights in float32."""
        factor = self.scale[:, None] if isinstance(self.scale, np.ndarray) else np.float32(self.scale)
        weights: Floats = np.multiply(self.values, factor, dtype=np.float32)
        return weights

    def equals(self, other: StoredTensor) -> bool:
        """Return True if another tensor has the same weights."""
        return self.shape == other.shape and bool(np.array_equal(self.floats(), other.floats()))


SCALES = ":scales"
"""Name suffix of the tensor (rows,) that contains an int8 matrix's float32 factors."""


def to_int8(matrix: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Return a matrix (rows, columns) quantised to int8 as in the engine, and the factor of each row.

    If a row contains a number that is not finite, its factor is not finite.
    """
    largest = np.abs(matrix).max(axis=1, initial=0.0)
    divisor = np.where(largest < MIN_QUANTISED, np.float32(np.inf), largest)
    with np.errstate(invalid="ignore"):
        integers = (
            np.rint(matrix * (np.float32(MAX_LEVELS) / divisor)[:, None])
            .clip(-MAX_LEVELS, MAX_LEVELS)
            .astype(np.int8)
        )
    return integers, np.where(largest < MIN_QUANTISED, np.float32(0), largest / np.float32(MAX_LEVELS))


def join_scales(stored_tensors: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Return the tensors of a file, with each int8 matrix combined with its scale factors."""
    tensors = {name: tensor for name, tensor in stored_tensors.items() if not name.endswith(SCALES)}
    factors = {
        name.removesuffix(SCALES): tensor for name, tensor in stored_tensors.items() if name.endswith(SCALES)
    }
    for name, tensor in tensors.items():
        if tensor.format != "I8":
            continue
        rows = factors.pop(name, None)
        if rows is None or rows.format != "F32" or len(tensor.shape) != 2 or rows.shape != tensor.shape[:1]:
            raise ModelError(
                f"{tensor.path}: {quoted(name)} is stored as I8 with the shape {tensor.shape}, and "
                f"{quoted(name + SCALES)} does not contain one F32 factor per row; save the model again"
            )
        scale = rows.floats()
        if not np.isfinite(scale).all():
            raise ModelError(
                f"{tensor.path}: {quoted(rows.name)} contains numbers that are not finite; the file is "
                "damaged"
            )
        tensors[name] = QuantisedTensor(name, tensor.path, tensor.format, tensor.content, scale)
    for name, rows in factors.items():
        raise ModelError(
            f"{rows.path}: {quoted(rows.name)} contains factors for {quoted(name)}, which is not an int8 "
            "matrix"
        )
    return tensors


@dataclass(frozen=True)
class OffsetTensor(StoredTensor):
    """A tensor of weights that are stored minus 1, such as Gemma's norm gains."""

    def floats(self) -> Floats:
        """Return the weights in float32."""
        weights: Floats = super().floats() + np.float32(1.0)
        return weights

    def equals(self, other: StoredTensor) -> bool:
        """Return True if another tensor has the same weights."""
        return self.shape == other.shape and bool(np.array_equal(self.floats(), other.floats()))


MAX_ARRAY_BYTES = 1 << 36
"""Maximum size of an array in bytes."""
MAX_HEADER_LENGTH = 10_000
HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_npz(path: Path, selected_name: str | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays of an ``.npz`` file by name.

    Args:
        path: path of the file.
        selected_name: name of the only array whose values are read; None to read all. Arrays that are
            not read have the correct shape and number format but contain only zeros.
    """
    from uwaga.files.zip import open_archive

    with open_archive(path, "a .npz file") as archive:
        return {
            name.removesuffix(".npy"): _array(
                path, archive, name, selected_name in (None, name.removesuffix(".npy"))
            )
            for name in archive.members
        }


def read_array_header(
    path: Path, name: str, stream: IO[bytes]
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return an array's shape, a flag that is True for column-major order, and the number format."""
    version = npy.read_magic(stream)
    if version not in HEADER_READERS:
        raise ModelError(f"{path}: {quoted(name)} has the unknown .npy format version {version}")
    try:
        shape, is_column_major, dtype = HEADER_READERS[version](stream, MAX_HEADER_LENGTH)
    except (
        tokenize.TokenError,
        ValueError,
        TypeError,
        LookupError,
        SyntaxError,
        RuntimeError,
        AttributeError,
        MemoryError,
    ) as error:
        raise ModelError(f"{path}: {quoted(name)} has a damaged header ({str(error)[:80]})") from None
    if any(type(axis) is not int or axis < 0 for axis in shape):
        raise ModelError(f"{path}: {quoted(name)} has the invalid shape {quoted(shape)}")
    if dtype.hasobject:
        raise ModelError(
            f"{path}: {quoted(name)} contains Python objects, not numbers; it is refused, and nothing was "
            "executed"
        )
    return shape, is_column_major, dtype


def _array(path: Path, archive: Archive, name: str, with_contents: bool) -> NDArray[Any]:
    archive.check_size(name, MAX_ARRAY_BYTES)
    with archive.open(name) as stream:
        shape, is_column_major, dtype = read_array_header(path, name, stream)
        if not with_contents:
            return np.broadcast_to(np.zeros((), dtype), shape)  # takes no memory
        content = stream.read()
    size = math.prod(shape) * dtype.itemsize
    if size != len(content):
        raise ModelError(
            f"{path}: {quoted(name)} of shape {quoted(shape)} needs {quoted(size)} bytes, but "
            f"{len(content)} are stored; the file is damaged"
        )
    if not dtype.itemsize:
        raise ModelError(f"{path}: {quoted(name)} has the number format {dtype}, which is not supported")
    array: NDArray[Any] = np.frombuffer(content, dtype)
    return array.reshape(shape, order="F" if is_column_major else "C")

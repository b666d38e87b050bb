"""Stored tensors, independent of the file format, and the arrays of ``.npz`` files."""

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
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": np.uint16,
    "U64": np.uint64,
    "U32": np.uint32,
    "U16": np.uint16,
    "U8": np.uint8,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "BOOL": np.bool_,
}
"""numpy's types of the supported number formats by their safetensors names; bfloat16 as its bits."""
FLOATING_FORMATS = frozenset({"F64", "F32", "F16", "BF16"})
FORMAT_NAMES: Mapping[str, str] = {
    np.dtype(kind).name: name for name, kind in NUMPY_TYPES.items() if name not in ("BF16",)
}
"""Safetensors names of number formats by their names in numpy."""


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file.

    Attributes:
        name: its name in the file.
        path: the file.
        format: number format by its safetensors name.
        content: its values, or their location in a file; bfloat16 as its bits.
    """

    name: str
    path: Path
    format: str
    content: NDArray[Any] | PrivateTensor

    @property
    def values(self) -> NDArray[Any]:
        """The values, read on demand; bfloat16 as its bits."""
        return self.content.read() if isinstance(self.content, PrivateTensor) else self.content

    @property
    def shape(self) -> tuple[int, ...]:
        """The stored shape."""
        return self.content.shape

    @property
    def is_floating(self) -> bool:
        """True if the number format is a floating-point format, as required for weights."""
        return self.format in FLOATING_FORMATS

    def floats(self) -> Floats:
        """Return the values in float32; a copy unless they are stored in float32."""
        if self.format == "BF16":
            return (self.values.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return self.values.astype(np.float32, copy=False)

    def equals(self, other: StoredTensor) -> bool:
        """Return True if another tensor holds the same numbers."""
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
        """Return rows ``first`` to ``last`` - 1 along the first stored axis, without reading the others."""
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
        scale: factor of the integers, or (rows,) a factor for each row.
        transposed: True if the file holds the transpose.
    """

    scale: float | Floats = 1.0
    transposed: bool = False

    @property
    def values(self) -> NDArray[Any]:
        stored = super().values
        return stored.T if self.transposed else stored

    @property
    def shape(self) -> tuple[int, ...]:
        return self.content.shape[::-1] if self.transposed else self.content.shape

    @property
    def is_floating(self) -> bool:
        return True

    def floats(self) -> Floats:
        """Return a copy of the weights in float32."""
        factor = self.scale[:, None] if isinstance(self.scale, np.ndarray) else np.float32(self.scale)
        weights: Floats = np.multiply(self.values, factor, dtype=np.float32)
        return weights

    def equals(self, other: StoredTensor) -> bool:
        """Return True if another tensor holds the same weights."""
        return self.shape == other.shape and bool(np.array_equal(self.floats(), other.floats()))


SCALES = ":scales"
"""Suffix of the tensor (rows,) that holds the factors of an int8 matrix in float32."""


def to_int8(matrix: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Quantise a matrix (rows, columns) like the engine; return the integers and the factor of each row.

    A row that is not finite has a factor that is not finite.
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


def join_scales(stored: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Return the tensors of a file; each int8 matrix is joined with its scale factors, which are read."""
    tensors = {name: tensor for name, tensor in stored.items() if not name.endswith(SCALES)}
    factors = {name.removesuffix(SCALES): tensor for name, tensor in stored.items() if name.endswith(SCALES)}
    for name, tensor in tensors.items():
        if tensor.format != "I8":
            continue
        rows = factors.pop(name, None)
        if rows is None or rows.format != "F32" or len(tensor.shape) != 2 or rows.shape != tensor.shape[:1]:
            raise ModelError(
                f"{tensor.path}: {quoted(name)} is stored as I8 with the shape {tensor.shape}, and "
                f"{quoted(name + SCALES)} does not hold a factor for each row in F32; save the model again"
            )
        scale = rows.floats()
        if not np.isfinite(scale).all():
            raise ModelError(
                f"{tensor.path}: {quoted(rows.name)} holds numbers that are not finite; the file is damaged"
            )
        tensors[name] = QuantisedTensor(name, tensor.path, tensor.format, tensor.content, scale)
    for name, rows in factors.items():
        raise ModelError(
            f"{rows.path}: {quoted(rows.name)} belongs to {quoted(name)}, which is not an int8 matrix"
        )
    return tensors


@dataclass(frozen=True)
class OffsetTensor(StoredTensor):
    """A tensor whose values are increased by 1: Gemma stores gains as their difference from 1."""

    def floats(self) -> Floats:
        """Return a copy of the weights in float32."""
        weights: Floats = super().floats() + np.float32(1.0)
        return weights

    def equals(self, other: StoredTensor) -> bool:
        """Return True if another tensor holds the same weights."""
        return self.shape == other.shape and bool(np.array_equal(self.floats(), other.floats()))


MAX_ARRAY_BYTES = 1 << 36
"""Maximum bytes of an array."""
MAX_HEADER_LENGTH = 10_000
HEADER_READERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_npz(path: Path, only: str | None = None) -> dict[str, NDArray[Any]]:
    """Return all arrays by name.

    Args:
        path: the file.
        only: name of the only array whose numbers are read; the others have the correct shape and number
            format but contain only zeros; None reads all.
    """
    from uwaga.files.zip import open_archive

    with open_archive(path, "a .npz file") as archive:
        return {
            name.removesuffix(".npy"): _array(path, archive, name, only in (None, name.removesuffix(".npy")))
            for name in archive.members
        }


def read_array_header(
    path: Path, name: str, stream: IO[bytes]
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape of an array, True if it is in column-major order, and its number format."""
    version = npy.read_magic(stream)
    if version not in HEADER_READERS:
        raise ModelError(f"{path}: {quoted(name)} is of the unknown format {version}")
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
        raise ModelError(f"{path}: {quoted(name)} has the shape {quoted(shape)}")
    if dtype.hasobject:
        raise ModelError(f"{path}: {quoted(name)} holds objects, not numbers; refused, nothing was executed")
    return shape, is_column_major, dtype


def _array(path: Path, archive: Archive, name: str, contents: bool) -> NDArray[Any]:
    archive.check_size(name, MAX_ARRAY_BYTES)
    with archive.open(name) as stream:
        shape, is_column_major, dtype = read_array_header(path, name, stream)
        if not contents:
            return np.broadcast_to(np.zeros((), dtype), shape)  # takes no memory
        content = stream.read()
    size = math.prod(shape) * dtype.itemsize
    if size != len(content):
        raise ModelError(
            f"{path}: {quoted(name)} of shape {quoted(shape)} needs {quoted(size)} bytes, but has "
            f"{len(content)}; the file is damaged"
        )
    if not dtype.itemsize:
        raise ModelError(f"{path}: {quoted(name)} has the number format {dtype}, which is not supported")
    array: NDArray[Any] = np.frombuffer(content, dtype)
    return array.reshape(shape, order="F" if is_column_major else "C")

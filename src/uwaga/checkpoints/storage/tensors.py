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
from uwaga.engine.packing import LEVELS, SMALLEST
from uwaga.errors import ModelError, shown
from uwaga.results.attention import Floats

if TYPE_CHECKING:
    from uwaga.files.zip import Archive

NUMPY: Mapping[str, Any] = {
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
"""Number formats, as safetensors calls them, that can be read in numpy; bfloat16 as its bits."""
FLOATING = frozenset({"F64", "F32", "F16", "BF16"})
FORMATS: Mapping[str, str] = {
    np.dtype(kind).name: name for name, kind in NUMPY.items() if name not in ("BF16",)
}
"""The same by numpy's names."""


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file.

    Attributes:
        name: its name in the file.
        path: the file.
        format: number format by its safetensors name.
        content: its values, or their place in a file; bfloat16 as its bits.
    """

    name: str
    path: Path
    format: str
    content: NDArray[Any] | PrivateTensor

    @property
    def values(self) -> NDArray[Any]:
        """Its values, read on demand; bfloat16 as its bits."""
        return self.content.read() if isinstance(self.content, PrivateTensor) else self.content

    @property
    def shape(self) -> tuple[int, ...]:
        """Its stored shape."""
        return self.content.shape

    @property
    def floating(self) -> bool:
        """True if its number format is a floating-point one, as weights have."""
        return self.format in FLOATING

    def floats(self) -> Floats:
        """Return its values in float32; a copy unless they are stored in float32."""
        if self.format == "BF16":
            return (self.values.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return self.values.astype(np.float32, copy=False)

    def equals(self, other: StoredTensor) -> bool:
        """Return True if another tensor holds the same numbers."""
        if self.content is other.content:
            return True
        if self.shape != other.shape:
            return False
        ours, theirs = self.values, other.values
        if ours.shape != theirs.shape or self.format != other.format:
            return ours.shape == theirs.shape and bool(np.array_equal(self.floats(), other.floats()))
        same_place = ours.ctypes.data == theirs.ctypes.data and ours.strides == theirs.strides
        return same_place or bool(np.array_equal(ours, theirs))

    def rows(self, first: int, last: int) -> StoredTensor:
        """Return a part along the first axis of the file, up to row ``last`` - 1; the rest is not read."""
        content = self.content
        part = content.rows(first, last) if isinstance(content, PrivateTensor) else content[first:last]
        return replace(self, content=part)

    def named(self, name: str) -> StoredTensor:
        """Return the same tensor under another name."""
        return replace(self, name=name)


@dataclass(frozen=True)
class QuantisedTensor(StoredTensor):
    """A tensor of integers that are quantised weights.

    Attributes:
        scale: factor by which the integers are multiplied: one, or (rows,) one of each row.
        turned: the file holds the transpose.
    """

    scale: float | Floats = 1.0
    turned: bool = False

    @property
    def values(self) -> NDArray[Any]:
        found = super().values
        return found.T if self.turned else found

    @property
    def shape(self) -> tuple[int, ...]:
        return self.content.shape[::-1] if self.turned else self.content.shape

    @property
    def floating(self) -> bool:
        return True

    def floats(self) -> Floats:
        """Return the weights in float32, a copy."""
        factor = self.scale[:, None] if isinstance(self.scale, np.ndarray) else np.float32(self.scale)
        made: Floats = np.multiply(self.values, factor, dtype=np.float32)
        return made

    def equals(self, other: StoredTensor) -> bool:
        """Return True if another tensor holds the same weights."""
        return self.shape == other.shape and bool(np.array_equal(self.floats(), other.floats()))


SCALES = ":scales"
"""After the name of an int8 matrix: the name of the tensor (rows,) of its factors, in float32."""


def to_int8(matrix: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Return the integers of a matrix (rows, columns) and the factor of each row, as the engine rounds them.

    A row that is not finite has a factor that is not finite.
    """
    largest = np.abs(matrix).max(axis=1, initial=0.0)
    divisor = np.where(largest < SMALLEST, np.float32(np.inf), largest)
    with np.errstate(invalid="ignore"):
        whole = (
            np.rint(matrix * (np.float32(LEVELS) / divisor)[:, None]).clip(-LEVELS, LEVELS).astype(np.int8)
        )
    return whole, np.where(largest < SMALLEST, np.float32(0), largest / np.float32(LEVELS))


def join_scales(stored: Mapping[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Return the tensors of a file whose int8 matrices have their factors; these are read now."""
    found = {name: tensor for name, tensor in stored.items() if not name.endswith(SCALES)}
    factors = {name.removesuffix(SCALES): one for name, one in stored.items() if name.endswith(SCALES)}
    for name, tensor in found.items():
        if tensor.format != "I8":
            continue
        rows = factors.pop(name, None)
        if rows is None or rows.format != "F32" or len(tensor.shape) != 2 or rows.shape != tensor.shape[:1]:
            raise ModelError(
                f"{tensor.path}: {shown(name)} is stored as I8 with the shape {tensor.shape}, and "
                f"{shown(name + SCALES)} does not hold a factor of each row in F32; save the model again"
            )
        scale = rows.floats()
        if not np.isfinite(scale).all():
            raise ModelError(
                f"{tensor.path}: {shown(rows.name)} holds numbers that are not finite; the file is damaged"
            )
        found[name] = QuantisedTensor(name, tensor.path, tensor.format, tensor.content, scale)
    for name, rows in factors.items():
        raise ModelError(f"{rows.path}: {shown(rows.name)} belongs to {shown(name)}, which is no int8 matrix")
    return found


@dataclass(frozen=True)
class OffsetTensor(StoredTensor):
    """A tensor to whose numbers one is added: gains that Gemma stores as their distance from 1."""

    def floats(self) -> Floats:
        """Return the weights in float32, a copy."""
        made: Floats = super().floats() + np.float32(1.0)
        return made

    def equals(self, other: StoredTensor) -> bool:
        """Return True if another tensor holds the same weights."""
        return self.shape == other.shape and bool(np.array_equal(self.floats(), other.floats()))


LARGEST = 1 << 36
"""Bytes of one array."""
LONGEST_HEADER = 10_000
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_npz(path: Path, only: str | None = None) -> dict[str, NDArray[Any]]:
    """Return all arrays by name.

    Args:
        path: the file.
        only: name of the one array whose numbers are read, while the others have the right shape and number
            format and are all 0; None reads all.
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
    """Return the shape of an array, True if it is stored column by column, and its number format."""
    version = npy.read_magic(stream)
    if version not in HEADERS:
        raise ModelError(f"{path}: {shown(name)} is of the unknown format {version}")
    try:
        shape, by_column, dtype = HEADERS[version](stream, LONGEST_HEADER)
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
        raise ModelError(f"{path}: {shown(name)} has a damaged header ({str(error)[:80]})") from None
    if any(type(axis) is not int or axis < 0 for axis in shape):
        raise ModelError(f"{path}: {shown(name)} has the shape {shown(shape)}")
    if dtype.hasobject:
        raise ModelError(f"{path}: {shown(name)} holds objects, not numbers; refused, nothing was executed")
    return shape, by_column, dtype


def _array(path: Path, archive: Archive, name: str, contents: bool) -> NDArray[Any]:
    archive.check_size(name, LARGEST)
    with archive.open(name) as stream:
        shape, by_column, dtype = read_array_header(path, name, stream)
        if not contents:
            return np.broadcast_to(np.zeros((), dtype), shape)  # takes no memory
        content = stream.read()
    size = math.prod(shape) * dtype.itemsize
    if size != len(content):
        raise ModelError(
            f"{path}: {shown(name)} of shape {shown(shape)} needs {shown(size)} bytes, but has "
            f"{len(content)}; the file is damaged"
        )
    if not dtype.itemsize:
        raise ModelError(f"{path}: {shown(name)} is of {dtype}, not numbers that are read here")
    array: NDArray[Any] = np.frombuffer(content, dtype)
    return array.reshape(shape, order="F" if by_column else "C")

"""One tensor as it lies in a file, whichever library wrote it. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uwaga.checkpoints.files.private_memory import PrivateTensor
from uwaga.results.attention import Floats

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
        name: as the file has it.
        path: the file.
        format: number format as safetensors calls it.
        content: its numbers, or where they lie in a file; bfloat16 as its bits.
    """

    name: str
    path: Path
    format: str
    content: NDArray[Any] | PrivateTensor

    @property
    def values(self) -> NDArray[Any]:
        """Its numbers, read when they are asked for; bfloat16 as its bits.

        Raises:
            ModelError: the file was changed since it was opened.
        """
        return self.content.read() if isinstance(self.content, PrivateTensor) else self.content

    @property
    def shape(self) -> tuple[int, ...]:
        """Its axes as they are stored."""
        return self.content.shape

    @property
    def floating(self) -> bool:
        """Whether its numbers can be weights."""
        return self.format in FLOATING

    def floats(self) -> Floats:
        """Its numbers as float32; a copy unless they are stored so.

        Raises:
            ModelError: they cannot be read.
        """
        if self.format == "BF16":
            return (self.values.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return self.values.astype(np.float32, copy=False)

    def equals(self, other: StoredTensor) -> bool:
        """Whether another holds the same numbers."""
        if self.content is other.content:
            return True
        if self.shape != other.shape:
            return False
        ours, theirs = self.values, other.values
        if ours.shape != theirs.shape or self.format != other.format:
            return ours.shape == theirs.shape and bool(np.array_equal(self.floats(), other.floats()))
        same_place = ours.ctypes.data == theirs.ctypes.data and ours.strides == theirs.strides
        return same_place or bool(np.array_equal(ours, theirs))

    def named(self, name: str) -> StoredTensor:
        """The same under another name."""
        return replace(self, name=name)


@dataclass(frozen=True)
class QuantisedTensor(StoredTensor):
    """A tensor of whole numbers that stand for weights.

    Attributes:
        scale: a weight is its number times this.
        turned: the file holds the transpose.
    """

    scale: float = 1.0
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
        """The weights as float32, a copy."""
        made: Floats = np.multiply(self.values, np.float32(self.scale), dtype=np.float32)
        return made

    def equals(self, other: StoredTensor) -> bool:
        """Whether another holds the same weights."""
        return self.shape == other.shape and bool(np.array_equal(self.floats(), other.floats()))

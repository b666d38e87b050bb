"""CTranslate2's ``model.bin``: a short header and named arrays; none of its sizes is trusted.

The layout is that of its ``python/ctranslate2/specs/model_spec.py``: version, name and revision of the
specification, arrays (name, shape, number format, bytes), then aliases of arrays. Everything is
little-endian; versions encode the number format differently, and the first (2019) names no specification.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uwaga.checkpoints.storage.memory import PrivateFile
from uwaga.engine.packing import Bytes
from uwaga.errors import ModelError
from uwaga.files.regular import read_regular
from uwaga.results.attention import Floats

VERSIONS = range(1, 7)
FIRST_REVISION = 1
"""Of specifications; its names are those of OpenNMT-tf."""
MOST_AXES = 8
LARGEST = 1 << 37
"""Bytes of a file."""
SMALL = 1 << 10
"""Bytes of an array that holds a setting, at most."""
BFLOAT16 = "bfloat16"
FORMATS = ("<f4", "<i1", "<i2", "<i4", "<f2", BFLOAT16)
"""By number, as ``DataType`` in its ``types.h``."""
BY_SIZE = {4: "<f4", 2: "<i2", 1: "<i1"}
"""Before version 4 only the size of a number was said."""
INT16_SCALE = 1000.0
"""Of 16-bit weights without a scale of their own."""

Array = NDArray[Any]


@dataclass(frozen=True)
class Variable:
    """An array as it is stored; its integers are divided by ``scale``."""

    name: str
    stored: Array
    bfloat16: bool = False
    scale: Array | None = None

    def floats(self, path: Path) -> Floats:
        """Return a copy in float32; integers are divided by their scale, one for the array or one per row."""
        if self.bfloat16:
            widened = self.stored.astype(np.uint32) << 16
            values = widened.view(np.float32)
        elif self.stored.dtype.kind == "f":
            values = self.stored.astype(np.float32)
        else:
            values = self._dequantised(path)
        if not math.isfinite(float(values.sum(dtype=np.float64))):
            raise ModelError(f"{path}: {self.name!r} contains numbers that are not finite")
        return values

    def _dequantised(self, path: Path) -> Floats:
        scale = self.scale
        if scale is None:
            if self.stored.dtype != np.int16:
                raise ModelError(
                    f"{path}: {self.name!r} holds whole numbers, but no scale for them is stored"
                )
            scale = np.full((), INT16_SCALE, dtype=np.float32)
        rows = self.stored.shape[:1]
        if scale.dtype.kind != "f" or scale.shape not in ((), (1,), rows):
            raise ModelError(
                f"{path}: the scale of {self.name!r} has shape {scale.shape}, for numbers of "
                f"{self.stored.shape}"
            )
        if scale.shape == (1,):
            scale = scale[0]
        scale = scale.astype(np.float32)
        if not bool((np.isfinite(scale) & (scale > 0)).all()):
            raise ModelError(f"{path}: the scale of {self.name!r} contains values that are not above 0")
        if scale.ndim:
            scale = scale.reshape(-1, *([1] * (self.stored.ndim - 1)))  # (rows, 1)
        values: Floats = self.stored.astype(np.float32)
        values /= scale
        return values


@dataclass(frozen=True)
class ModelFile:
    """A ``model.bin``; aliases of an array share one :class:`Variable`."""

    path: Path
    version: int
    specification: str
    revision: int
    variables: Mapping[str, Variable]


def read_model_file(path: Path, contents: bool = True) -> ModelFile:
    """Read a ``model.bin`` into memory.

    Args:
        path: the file.
        contents: False reads no array of more than :data:`SMALL` bytes; its numbers are then all 0.
    """
    bytes_ = _Bytes(path, contents)
    version = bytes_.whole("I")
    if version not in VERSIONS:
        raise ModelError(
            f"{path}: CTranslate2 format {version}, or not such a file; uwaga reads formats {VERSIONS.start} "
            f"to {VERSIONS.stop - 1}: convert the model again with CTranslate2 2 to 4"
        )
    specification, revision = (bytes_.text(), bytes_.whole("I")) if version >= 2 else ("", FIRST_REVISION)
    stored: dict[str, tuple[Array, bool]] = {}
    for _ in range(bytes_.whole("I")):
        name, shape = bytes_.text(), bytes_.shape()
        if revision == FIRST_REVISION:
            name = _renamed(name)
        if name in stored:
            raise ModelError(f"{path}: {name!r} occurs twice; the file is damaged")
        stored[name] = bytes_.array(name, shape, version)
    names = {name: name for name in stored}
    if version >= 3:
        for _ in range(bytes_.whole("I")):
            second, first = bytes_.text(), bytes_.text()
            if first not in stored or second in names:
                raise ModelError(
                    f"{path}: {second!r} is to be another name of {first!r}; the file is damaged"
                )
            names[second] = first
            if f"{first}_scale" in stored:
                names.setdefault(f"{second}_scale", f"{first}_scale")
    if bytes_.left:
        raise ModelError(f"{path}: {bytes_.left} bytes more than it says; the file is damaged")
    made = {
        name: Variable(name, array, bfloat16, stored.get(f"{name}_scale", (None, False))[0])
        for name, (array, bfloat16) in stored.items()
    }
    return ModelFile(path, version, specification, revision, {name: made[one] for name, one in names.items()})


def _renamed(name: str) -> str:
    """Convert a name of the first revision to later ones; each rule applies once, as in CTranslate2."""
    rules = [
        *(("transformer/", ""), (":0", ""), ("w_embs", "embeddings/weight"), ("kernel", "weight")),
        *(
            ("LayerNorm", "layer_norm"),
            ("dense", "projection"),
            ("conv1d_", "linear_"),
            ("conv1d", "linear_0"),
        ),
    ]
    for old, new in rules:
        name = name.replace(old, new, 1)
    if "encoder" in name:
        return name.replace("multi_head", "self_attention", 1)
    return name.replace("masked_multi_head", "self_attention", 1).replace("multi_head", "attention", 1)


class _Bytes:
    """A file read sequentially; every read is checked against the bytes left."""

    def __init__(self, path: Path, contents: bool) -> None:
        self._path, self._file, self._map = path, None, None
        if not contents:
            self._file = PrivateFile(path)
            self._size = self._file.size
        else:
            try:
                self._map = np.frombuffer(read_regular(path, LARGEST), dtype=np.uint8)
            except OSError as error:
                reason = error.strerror or str(error)
                raise ModelError(
                    f"{path}: cannot be read: {reason}; fetch or convert the model again"
                ) from None
            self._size = len(self._map)
        if not self._size:
            raise ModelError(f"{path}: the file is empty; fetch or convert the model again")
        self._at = 0

    @property
    def left(self) -> int:
        """Number of bytes not yet read."""
        return self._size - self._at

    def whole(self, kind: str) -> int:
        """Read an unsigned integer: ``B`` of 1 byte, ``H`` of 2, ``I`` of 4."""
        number: int = struct.unpack(f"<{kind}", self._take(struct.calcsize(kind), "a number"))[0]
        return number

    def text(self) -> str:
        """Read a string, stored after its length and ending in a zero byte."""
        content = self._take(self.whole("H"), "a name")
        try:
            return content.split(b"\0", 1)[0].decode("utf-8")
        except UnicodeDecodeError:
            raise ModelError(
                f"{self._path}: a name at byte {self._at - len(content)} is not text; the file is damaged"
            ) from None

    def shape(self) -> tuple[int, ...]:
        """Read the shape of an array."""
        axes = self.whole("B")
        if axes > MOST_AXES:
            raise ModelError(f"{self._path}: an array of {axes} axes at byte {self._at}; the file is damaged")
        return tuple(self.whole("I") for _ in range(axes))

    def array(self, name: str, shape: tuple[int, ...], version: int) -> tuple[Array, bool]:
        """Read an array of this shape; return it and True if it is bfloat16, which numpy lacks."""
        number = self.whole("B")
        count = self.whole("I")
        if version >= 4:
            kind = FORMATS[number] if number < len(FORMATS) else None
        else:
            kind = BY_SIZE.get(number)
            count *= number
        if kind is None:
            raise ModelError(f"{self._path}: {name!r} has the unknown number format {number}")
        plain = np.dtype("<u2" if kind == BFLOAT16 else kind)
        size = math.prod(shape) * plain.itemsize
        if size != count:
            raise ModelError(
                f"{self._path}: {name!r} of shape {shape} needs {size} bytes, but has {count}; the file is "
                "damaged"
            )
        if count > self.left:
            raise self._short(f"{name!r} of {count} bytes")
        if self._map is None and count > SMALL:
            array: Array = np.broadcast_to(np.zeros((), plain), shape)  # takes no memory
        elif self._map is None:
            array = np.ndarray(shape, plain, buffer=self._part(count))
        else:
            array = np.ndarray(shape, plain, buffer=self._map, offset=self._at)
        self._at += count
        return array, kind == BFLOAT16

    def _take(self, count: int, what: str) -> bytes:
        if count > self.left:
            raise self._short(what)
        content = self._part(count).tobytes()
        self._at += count
        return content

    def _part(self, count: int) -> Bytes:
        if self._file is not None:
            return self._file.part(self._at, count)
        assert self._map is not None
        return self._map[self._at : self._at + count]

    def _short(self, what: str) -> ModelError:
        return ModelError(
            f"{self._path}: cut short or damaged: at byte {self._at} {what} should stand, and {self.left} "
            "bytes are left; fetch or convert the model again"
        )

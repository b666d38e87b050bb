"""CTranslate2's ``model.bin``: a short header and named arrays, all sizes checked.

The layout is defined by its ``python/ctranslate2/specs/model_spec.py``: version, name and revision of the
specification, arrays (name, shape, number format, bytes), then aliases of arrays. Everything is
little-endian; versions encode the number format differently, and version 1 (2019) has no specification name.
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
"""First revision of specifications, which uses the names of OpenNMT-tf."""
MAX_AXES = 8
MAX_BYTES = 1 << 37
"""Maximum bytes of a file."""
MAX_SETTING_BYTES = 1 << 10
"""Maximum bytes of an array that holds a setting."""
BFLOAT16 = "bfloat16"
NUMBER_FORMATS = ("<f4", "<i1", "<i2", "<i4", "<f2", BFLOAT16)
"""Number formats by number, as in ``DataType`` of its ``types.h``."""
FORMATS_BY_SIZE = {4: "<f4", 2: "<i2", 1: "<i1"}
"""Files before version 4 state only the size of a number."""
INT16_SCALE = 1000.0
"""Default scale of 16-bit weights."""

Array = NDArray[Any]


@dataclass(frozen=True)
class Variable:
    """A stored array; its integers are divided by ``scale``."""

    name: str
    stored: Array
    bfloat16: bool = False
    scale: Array | None = None

    def floats(self, path: Path) -> Floats:
        """Return a copy in float32; integers are divided by their scale, one for the array or one per row."""
        if self.bfloat16:
            bits = self.stored.astype(np.uint32) << 16
            values = bits.view(np.float32)
        elif self.stored.dtype.kind == "f":
            values = self.stored.astype(np.float32)
        else:
            values = self._dequantise(path)
        if not math.isfinite(float(values.sum(dtype=np.float64))):
            raise ModelError(f"{path}: {self.name!r} contains numbers that are not finite")
        return values

    def _dequantise(self, path: Path) -> Floats:
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
                f"{path}: the scale of {self.name!r} has shape {scale.shape}, but the numbers have "
                f"{self.stored.shape}"
            )
        if scale.shape == (1,):
            scale = scale[0]
        scale = scale.astype(np.float32)
        if not bool((np.isfinite(scale) & (scale > 0)).all()):
            raise ModelError(f"{path}: the scale of {self.name!r} contains values that are not positive")
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
        contents: False skips arrays of more than :data:`MAX_SETTING_BYTES` bytes; their numbers are then 0.
    """
    reader = _Reader(path, contents)
    version = reader.unsigned("I")
    if version not in VERSIONS:
        raise ModelError(
            f"{path}: CTranslate2 format {version}, or not a CTranslate2 file; uwaga reads formats "
            f"{VERSIONS.start} to {VERSIONS.stop - 1}: convert the model again with CTranslate2 2 to 4"
        )
    specification, revision = (
        (reader.string(), reader.unsigned("I")) if version >= 2 else ("", FIRST_REVISION)
    )
    stored: dict[str, tuple[Array, bool]] = {}
    for _ in range(reader.unsigned("I")):
        name, shape = reader.string(), reader.shape()
        if revision == FIRST_REVISION:
            name = _current_name(name)
        if name in stored:
            raise ModelError(f"{path}: {name!r} occurs twice; the file is damaged")
        stored[name] = reader.array(name, shape, version)
    names = {name: name for name in stored}
    if version >= 3:
        for _ in range(reader.unsigned("I")):
            alias, stored_name = reader.string(), reader.string()
            if stored_name not in stored or alias in names:
                raise ModelError(
                    f"{path}: {alias!r} is an invalid alias of {stored_name!r}; the file is damaged"
                )
            names[alias] = stored_name
            if f"{stored_name}_scale" in stored:
                names.setdefault(f"{alias}_scale", f"{stored_name}_scale")
    if reader.remaining:
        raise ModelError(f"{path}: has {reader.remaining} bytes too many; the file is damaged")
    variables = {
        name: Variable(name, array, bfloat16, stored.get(f"{name}_scale", (None, False))[0])
        for name, (array, bfloat16) in stored.items()
    }
    return ModelFile(
        path,
        version,
        specification,
        revision,
        {name: variables[stored_name] for name, stored_name in names.items()},
    )


def _current_name(name: str) -> str:
    """Convert a name of the first revision to the current one; each rule applies once, as in CTranslate2."""
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


class _Reader:
    """A sequential reader of a file; every read is checked against the remaining bytes."""

    def __init__(self, path: Path, contents: bool) -> None:
        self._path, self._file, self._map = path, None, None
        if not contents:
            self._file = PrivateFile(path)
            self._size = self._file.size
        else:
            try:
                self._map = np.frombuffer(read_regular(path, MAX_BYTES), dtype=np.uint8)
            except OSError as error:
                reason = error.strerror or str(error)
                raise ModelError(
                    f"{path}: cannot be read: {reason}; fetch or convert the model again"
                ) from None
            self._size = len(self._map)
        if not self._size:
            raise ModelError(f"{path}: the file is empty; fetch or convert the model again")
        self._position = 0

    @property
    def remaining(self) -> int:
        """Number of remaining bytes."""
        return self._size - self._position

    def unsigned(self, kind: str) -> int:
        """Read an unsigned integer: ``B`` of 1 byte, ``H`` of 2, ``I`` of 4."""
        number: int = struct.unpack(f"<{kind}", self._read(struct.calcsize(kind), "a number"))[0]
        return number

    def string(self) -> str:
        """Read a string, stored after its length and ending in a zero byte."""
        content = self._read(self.unsigned("H"), "a name")
        try:
            return content.split(b"\0", 1)[0].decode("utf-8")
        except UnicodeDecodeError:
            raise ModelError(
                f"{self._path}: a name at byte {self._position - len(content)} is not text; the file is "
                "damaged"
            ) from None

    def shape(self) -> tuple[int, ...]:
        """Read the shape of an array."""
        axes = self.unsigned("B")
        if axes > MAX_AXES:
            raise ModelError(
                f"{self._path}: an array with {axes} axes at byte {self._position}; the file is damaged"
            )
        return tuple(self.unsigned("I") for _ in range(axes))

    def array(self, name: str, shape: tuple[int, ...], version: int) -> tuple[Array, bool]:
        """Read an array with a given shape; return it, and True if it is bfloat16, which numpy lacks."""
        number = self.unsigned("B")
        count = self.unsigned("I")
        if version >= 4:
            kind = NUMBER_FORMATS[number] if number < len(NUMBER_FORMATS) else None
        else:
            kind = FORMATS_BY_SIZE.get(number)
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
        if count > self.remaining:
            raise self._truncation_error(f"{name!r} of {count} bytes")
        if self._map is None and count > MAX_SETTING_BYTES:
            array: Array = np.broadcast_to(np.zeros((), plain), shape)  # takes no memory
        elif self._map is None:
            array = np.ndarray(shape, plain, buffer=self._slice(count))
        else:
            array = np.ndarray(shape, plain, buffer=self._map, offset=self._position)
        self._position += count
        return array, kind == BFLOAT16

    def _read(self, count: int, label: str) -> bytes:
        if count > self.remaining:
            raise self._truncation_error(label)
        content = self._slice(count).tobytes()
        self._position += count
        return content

    def _slice(self, count: int) -> Bytes:
        if self._file is not None:
            return self._file.part(self._position, count)
        assert self._map is not None
        return self._map[self._position : self._position + count]

    def _truncation_error(self, label: str) -> ModelError:
        return ModelError(
            f"{self._path}: cut short or damaged: {label} is expected at byte {self._position}, but "
            f"{self.remaining} bytes are left; fetch or convert the model again"
        )

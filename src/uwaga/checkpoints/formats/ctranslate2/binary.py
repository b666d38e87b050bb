"""Reader of CTranslate2's ``model.bin``, a short header followed by named arrays; all sizes are checked.

The layout is defined in ``python/ctranslate2/specs/model_spec.py`` of CTranslate2: format version, name and
revision of the specification, arrays (name, shape, number format, bytes), and aliases of arrays. Everything
is little-endian. Format versions encode the number format differently, and version 1 (2019) has no
specification name.
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
"""First revision of the specifications, in which arrays have OpenNMT-tf's names."""
MAX_AXES = 8
MAX_BYTES = 1 << 37
"""Maximum size of a file in bytes."""
MAX_SETTING_BYTES = 1 << 10
"""Maximum size in bytes of an array that represents a setting."""
BFLOAT16 = "bfloat16"
NUMBER_FORMATS = ("<f4", "<i1", "<i2", "<i4", "<f2", BFLOAT16)
"""Number formats by code, as in ``DataType`` of CTranslate2's ``types.h``."""
FORMATS_BY_SIZE = {4: "<f4", 2: "<i2", 1: "<i1"}
"""Number formats by size in bytes; files before version 4 state only the size."""
INT16_SCALE = 1000.0
"""Default scale of int16 weights."""

Array = NDArray[Any]


@dataclass(frozen=True)
class Variable:
    """A stored array, whose weights are its floating-point numbers or its integers divided by ``scale``."""

    name: str
    array: Array
    bfloat16: bool = False
    scale: Array | None = None

    def floats(self, path: Path) -> Floats:
        """Return the weights in float32; integers have one scale for the whole array or one per row."""
        if self.bfloat16:
            bits = self.array.astype(np.uint32) << 16
            values = bits.view(np.float32)
        elif self.array.dtype.kind == "f":
            values = self.array.astype(np.float32)
        else:
            values = self._dequantise(path)
        if not math.isfinite(float(values.sum(dtype=np.float64))):
            raise ModelError(f"{path}: {self.name!r} contains numbers that are not finite")
        return values

    def _dequantise(self, path: Path) -> Floats:
        scale = self.scale
        if scale is None:
            if self.array.dtype != np.int16:
                raise ModelError(f"{path}: {self.name!r} contains integers, but no scale for them is stored")
            scale = np.full((), INT16_SCALE, dtype=np.float32)
        rows = self.array.shape[:1]
        if scale.dtype.kind != "f" or scale.shape not in ((), (1,), rows):
            raise ModelError(
                f"{path}: the scale of {self.name!r} has shape {scale.shape}, but the array has shape "
                f"{self.array.shape}"
            )
        if scale.shape == (1,):
            scale = scale[0]
        scale = scale.astype(np.float32)
        if not bool((np.isfinite(scale) & (scale > 0)).all()):
            raise ModelError(f"{path}: the scale of {self.name!r} contains values that are not positive")
        if scale.ndim:
            scale = scale.reshape(-1, *([1] * (self.array.ndim - 1)))  # (rows, 1)
        values: Floats = self.array.astype(np.float32)
        values /= scale
        return values


@dataclass(frozen=True)
class ModelFile:
    """The contents of a ``model.bin``; an array and its aliases share one :class:`Variable`."""

    path: Path
    version: int
    specification: str
    revision: int
    variables: Mapping[str, Variable]


def read_model_file(path: Path, with_contents: bool = True) -> ModelFile:
    """Read a ``model.bin`` into memory.

    Args:
        path: path of the file.
        with_contents: False to skip arrays of more than :data:`MAX_SETTING_BYTES` bytes, which are then
            filled with zeros.
    """
    reader = _Reader(path, with_contents)
    version = reader.unsigned("I")
    if version not in VERSIONS:
        raise ModelError(
            f"{path}: unknown CTranslate2 format version {version}, or not a CTranslate2 file; uwaga reads "
            f"versions {VERSIONS.start} to {VERSIONS.stop - 1}: convert the model again with "
            "version 2, 3 or 4 of CTranslate2"
        )
    specification, revision = (
        (reader.string(), reader.unsigned("I")) if version >= 2 else ("", FIRST_REVISION)
    )
    arrays: dict[str, tuple[Array, bool]] = {}
    for _ in range(reader.unsigned("I")):
        name, shape = reader.string(), reader.shape()
        if revision == FIRST_REVISION:
            name = _current_name(name)
        if name in arrays:
            raise ModelError(f"{path}: {name!r} occurs twice; the file is damaged")
        arrays[name] = reader.array(name, shape, version)
    names = {name: name for name in arrays}
    if version >= 3:
        for _ in range(reader.unsigned("I")):
            alias, stored_name = reader.string(), reader.string()
            if stored_name not in arrays or alias in names:
                raise ModelError(
                    f"{path}: {alias!r} is not a valid alias of {stored_name!r}; the file is damaged"
                )
            names[alias] = stored_name
            if f"{stored_name}_scale" in arrays:
                names.setdefault(f"{alias}_scale", f"{stored_name}_scale")
    if reader.remaining:
        raise ModelError(f"{path}: has {reader.remaining} bytes after its last array; the file is damaged")
    variables = {
        name: Variable(name, array, bfloat16, arrays.get(f"{name}_scale", (None, False))[0])
        for name, (array, bfloat16) in arrays.items()
    }
    return ModelFile(
        path,
        version,
        specification,
        revision,
        {name: variables[stored_name] for name, stored_name in names.items()},
    )


def _current_name(name: str) -> str:
    """Convert a first-revision name to the current name, applying each rule once, as CTranslate2 does."""
    rules = [
        *(("transformer/", ""), (":0", ""), ("w_embs", "embeddings/weight"), ("kernel", "weight")),
        *(
            ("LayerNorm", "layer_norm"),
            ("dense", "projection"),
            ("conv1d_", "linear_"),
            ("conv1d", "linear_0"),
        ),
    ]
    for old_name, new_name in rules:
        name = name.replace(old_name, new_name, 1)
    if "encoder" in name:
        return name.replace("multi_head", "self_attention", 1)
    return name.replace("masked_multi_head", "self_attention", 1).replace("multi_head", "attention", 1)


class _Reader:
    """A sequential reader of a file that checks every size against the number of remaining bytes."""

    def __init__(self, path: Path, with_contents: bool) -> None:
        self._path, self._file, self._map = path, None, None
        if not with_contents:
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
        """Read an unsigned integer of 1 byte (``B``), 2 bytes (``H``) or 4 bytes (``I``)."""
        number: int = struct.unpack(f"<{kind}", self._read(struct.calcsize(kind), "a number"))[0]
        return number

    def string(self) -> str:
        """Read a string, which is preceded by its length and ends with a zero byte."""
        content = self._read(self.unsigned("H"), "a name")
        try:
            return content.split(b"\0", 1)[0].decode("utf-8")
        except UnicodeDecodeError:
            raise ModelError(
                f"{self._path}: a name at byte {self._position - len(content)} is not UTF-8; the file is "
                "damaged"
            ) from None

    def shape(self) -> tuple[int, ...]:
        """Read the shape of an array."""
        axes = self.unsigned("B")
        if axes > MAX_AXES:
            raise ModelError(
                f"{self._path}: the array at byte {self._position} has {axes} axes; the file is damaged"
            )
        return tuple(self.unsigned("I") for _ in range(axes))

    def array(self, name: str, shape: tuple[int, ...], version: int) -> tuple[Array, bool]:
        """Read an array and return it with a flag that is True for bfloat16 numbers, which NumPy lacks."""
        code = self.unsigned("B")
        byte_count = self.unsigned("I")
        if version >= 4:
            number_format = NUMBER_FORMATS[code] if code < len(NUMBER_FORMATS) else None
        else:
            number_format = FORMATS_BY_SIZE.get(code)
            byte_count *= code
        if number_format is None:
            raise ModelError(f"{self._path}: {name!r} has the unknown number format {code}")
        dtype = np.dtype("<u2" if number_format == BFLOAT16 else number_format)
        size = math.prod(shape) * dtype.itemsize
        if size != byte_count:
            raise ModelError(
                f"{self._path}: {name!r} of shape {shape} needs {size} bytes, but {byte_count} are stored; "
                "the file is damaged"
            )
        if byte_count > self.remaining:
            raise self._truncation_error(f"{name!r} of {byte_count} bytes")
        if self._map is None and byte_count > MAX_SETTING_BYTES:
            array: Array = np.broadcast_to(np.zeros((), dtype), shape)  # takes no memory
        elif self._map is None:
            array = np.ndarray(shape, dtype, buffer=self._slice(byte_count))
        else:
            array = np.ndarray(shape, dtype, buffer=self._map, offset=self._position)
        self._position += byte_count
        return array, number_format == BFLOAT16

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
            f"{self._path}: truncated or damaged: {label} is expected at byte {self._position}, but "
            f"only {self.remaining} bytes remain; fetch or convert the model again"
        )

"""Metadata and tensors of GGUF files (``docs/gguf.md`` of ggml); all sizes are checked.

A model may be split into several files, which llama.cpp names ``name-00001-of-00003.gguf`` and so on. The
first file contains the metadata, and all files contain tensors.

A file begins with a header of four letters, a format version and the numbers of tensors and of metadata
entries. It is followed by the metadata entries (key, type, value), the tensor entries (name, shape, format,
offset) and the aligned data of the tensors. Strings and arrays are preceded by their length. Everything is
little-endian.
"""

from __future__ import annotations

import math
import re
import struct
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uwaga.checkpoints.formats.gguf.blocks import BLOCK_KINDS, PLAIN_FORMATS, UNSUPPORTED_FORMATS, BlockTensor
from uwaga.checkpoints.storage.memory import PrivateFile, PrivateTensor
from uwaga.checkpoints.storage.tensors import NUMPY_TYPES, StoredTensor
from uwaga.errors import ModelError, quoted

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_HEADER_BYTES = 1 << 28
"""Maximum size in bytes of everything before the data.

The largest known vocabulary, of 262,144 tokens, takes 8 million bytes.
"""
MAX_AXES = 4
MAX_NAME_BYTES = 1 << 16
"""Maximum size in bytes of a key or of a tensor's name."""
ALIGNMENT_KEY, ALIGNMENT, MAX_ALIGNMENT = "general.alignment", 32, 1 << 20
BLOCK_BYTES = 1 << 20
"""Number of bytes that are read at a time."""

BOOL, STRING, ARRAY = 7, 8, 9
NUMBER_TYPES: Mapping[int, np.dtype[Any]] = {
    number: np.dtype(name)
    for number, name in {
        **{0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4"},
        **{10: "<u8", 11: "<i8", 12: "<f8"},
    }.items()
}
"""Numeric types of metadata values by code."""


class StringArray:
    """An array of strings that are decoded on access, which saves about 100 bytes per string."""

    def __init__(self) -> None:
        self._content, self._ends = bytearray(), array("Q", (0,))

    def append(self, text: bytes) -> None:
        """Append a string, given as UTF-8."""
        text.decode("utf-8")
        self._content += text
        self._ends.append(len(self._content))

    def __repr__(self) -> str:
        return f"{len(self)} strings"

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> str:
        """Return the string at an index."""
        return self._content[self._ends[index] : self._ends[index + 1]].decode("utf-8")

    def decode_all(self) -> list[str]:
        """Return all strings as a list."""
        return [self._content[start:end].decode("utf-8") for start, end in pairwise(self._ends)]


Value = bool | int | float | str | NDArray[Any] | StringArray
"""A metadata value."""

PART_NAME = re.compile(r"(?P<name>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})\.gguf")


@dataclass(frozen=True)
class GgufFile:
    """The metadata and tensors of a GGUF file or of a split model; tensors are read on demand."""

    path: Path
    version: int
    metadata: Mapping[str, Value]
    tensors: Mapping[str, StoredTensor]

    def integer(self, key: str, default: int | None = None, minimum: int = 0) -> int:
        """Return an integer of at least ``minimum``; the key is required if ``default`` is None."""
        value = self.metadata.get(key, default)
        if type(value) is not int or not minimum <= value < 1 << 31:
            raise self._invalid_value_error(key, f"a whole number, {minimum} or more")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Return a positive number; the key is required if ``default`` is None."""
        value = self.metadata.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise self._invalid_value_error(key, "a number above 0")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """Return a boolean, or the default if the key is missing."""
        value = self.metadata.get(key, default)
        if type(value) is not bool:
            raise self._invalid_value_error(key, "true or false")
        return value

    def string(self, key: str, default: str | None = None) -> str:
        """Return a string; the key is required if ``default`` is None."""
        value = self.metadata.get(key, default)
        if not isinstance(value, str):
            raise self._invalid_value_error(key, "a string")
        return value

    def strings(self, key: str) -> StringArray:
        """Return an array of strings; the key is required."""
        value = self.metadata.get(key)
        if not isinstance(value, StringArray):
            raise self._invalid_value_error(key, "an array of strings")
        return value

    def numbers(self, key: str, size: int) -> NDArray[Any]:
        """Return an array of ``size`` finite numbers; the key is required."""
        value = self.metadata.get(key)
        if not isinstance(value, np.ndarray) or len(value) != size or not np.isfinite(value).all():
            raise self._invalid_value_error(key, f"an array of {size} numbers")
        return value

    def _invalid_value_error(self, key: str, expected: str) -> ModelError:
        value = self.metadata.get(key)
        if isinstance(value, StringArray | np.ndarray):
            actual = f"an array of {len(value)}"
        else:
            actual = "missing" if value is None else quoted(value)
        return ModelError(
            f"{self.path}: {key!r} must be {expected}, not {actual}; the file is damaged or incomplete"
        )


def read_parts(path: Path) -> GgufFile:
    """Read the header of a GGUF file or, given the first part of a split model, the headers of all parts."""
    first_file = read_file(path)
    count = first_file.integer("split.count", 1)
    if count < 2:
        return first_file
    match, part_number = PART_NAME.fullmatch(path.name), first_file.integer("split.no") + 1
    if match is None or (int(match["number"]), int(match["count"])) != (part_number, count):
        raise ModelError(
            f"{path}: this is part {part_number} of {count} of a model, but its name does not end in "
            f"-{part_number:05d}-of-{count:05d}.gguf, so the other parts cannot be found; rename the file"
        )
    parts = [
        path.with_name(f"{match['name']}-{number:05d}-of-{count:05d}.gguf") for number in range(1, count + 1)
    ]
    if path != parts[0]:
        raise ModelError(
            f"{path}: not the first of the {count} parts of a model; give {parts[0].name} instead"
        )
    tensors = dict(first_file.tensors)
    for number, part_path in enumerate(parts[1:], start=1):
        if not part_path.exists():
            raise ModelError(
                f"{part_path}: the file is missing, but the model of {path.name} has {count} parts; fetch "
                "all of them"
            )
        part = read_file(part_path)
        for key, expected in (("split.no", number), ("split.count", count)):
            if (actual := part.integer(key)) != expected:
                raise ModelError(f"{part_path}: {key!r} is {actual}, not {expected} as in the file name")
        if duplicates := tensors.keys() & part.tensors.keys():
            raise ModelError(
                f"{part_path}: tensor {quoted(min(duplicates))} is also in an earlier part; check that "
                "all parts belong to the same model"
            )
        tensors |= part.tensors
    tensor_count = first_file.integer("split.tensors.count")
    if len(tensors) != tensor_count:
        raise ModelError(
            f"{path}: its {count} parts have {len(tensors)} tensors, but the first part states "
            f"{tensor_count}; fetch all parts again"
        )
    return replace(first_file, tensors=tensors)


def read_file(path: Path) -> GgufFile:
    """Read the header of a single GGUF file."""
    file = PrivateFile(path)
    reader = _Reader(file)
    if reader.read(4, "the file") != MAGIC:
        raise ModelError(f"{path}: not a GGUF file, because it does not begin with {MAGIC.decode()}")
    version = reader.number("<u4", "the version")
    if version not in VERSIONS:
        byte_order = "big-endian, " if int.from_bytes(struct.pack("<I", version), "big") in VERSIONS else ""
        raise ModelError(
            f"{path}: {byte_order}GGUF version {version}; uwaga reads versions {VERSIONS[0]} and "
            f"{VERSIONS[1]}, little-endian: convert the model again with llama.cpp"
        )
    tensor_count = reader.number("<u8", "the number of tensors")
    metadata: dict[str, Value] = {}
    for _ in range(reader.number("<u8", "the number of metadata entries")):
        key = reader.string("a metadata key", MAX_NAME_BYTES)
        if key in metadata:
            raise ModelError(f"{path}: the key {quoted(key)} occurs twice; the file is damaged")
        metadata[key] = reader.value(key)
    infos: dict[str, _TensorInfo] = {}
    for _ in range(tensor_count):
        info = _read_info(reader)
        if info.name in infos:
            raise ModelError(f"{path}: the tensor {quoted(info.name)} occurs twice; the file is damaged")
        infos[info.name] = info
    alignment = metadata.get(ALIGNMENT_KEY, ALIGNMENT)
    if type(alignment) is not int or not 8 <= alignment <= MAX_ALIGNMENT or alignment % 8:
        raise ModelError(
            f"{path}: {ALIGNMENT_KEY!r} must be a multiple of 8 up to {MAX_ALIGNMENT}, not "
            f"{quoted(alignment)}; the file is damaged"
        )
    start = -(-reader.position // alignment) * alignment
    _check_offsets(path, list(infos.values()), alignment, file.size - start)
    return GgufFile(
        path, version, metadata, {name: _tensor(path, file, start, info) for name, info in infos.items()}
    )


@dataclass(frozen=True)
class _TensorInfo:
    """A tensor's entry in the header: name, shape, code of the number format, and offset in the data."""

    name: str
    shape: tuple[int, ...]
    format: int
    offset: int

    @property
    def row_bytes(self) -> int:
        """Number of bytes of a row, which extends along the last axis."""
        if self.format in PLAIN_FORMATS:
            return self.shape[-1] * int(np.dtype(NUMPY_TYPES[PLAIN_FORMATS[self.format]]).itemsize)
        kind = BLOCK_KINDS[self.format]
        return self.shape[-1] // kind.size * kind.layout.itemsize

    @property
    def bytes(self) -> int:
        """Number of bytes of the tensor."""
        return math.prod(self.shape[:-1]) * self.row_bytes


def _read_info(reader: _Reader) -> _TensorInfo:
    """Read the entry of a tensor and check its shape and format."""
    name = reader.string("the name of a tensor", MAX_NAME_BYTES)
    label, path = f"the entry of tensor {quoted(name)}", reader.path
    axes = reader.number("<u4", label)
    if not 1 <= axes <= MAX_AXES:
        raise ModelError(f"{path}: tensor {quoted(name)} has {axes} axes; the file is damaged")
    shape = tuple(reader.number("<u8", label) for _ in range(axes))[::-1]  # stored with the rows' axis first
    number_format, offset = reader.number("<u4", label), reader.number("<u8", label)
    if not all(shape):
        raise ModelError(f"{path}: tensor {quoted(name)} has the shape {quoted(shape)}; the file is damaged")
    if number_format not in PLAIN_FORMATS and number_format not in BLOCK_KINDS:
        supported = (*PLAIN_FORMATS.values(), *(kind.name for kind in BLOCK_KINDS.values()))
        raise ModelError(
            f"{path}: tensor {quoted(name)} is stored as "
            f"{UNSUPPORTED_FORMATS.get(number_format, f'the unknown format {number_format}')}; "
            f"uwaga reads {', '.join(supported)}: quantise the model to one of these"
        )
    if number_format in BLOCK_KINDS and shape[-1] % BLOCK_KINDS[number_format].size:
        raise ModelError(
            f"{path}: tensor {quoted(name)} has rows of {shape[-1]} numbers, which cannot be divided into "
            f"blocks of {BLOCK_KINDS[number_format].size} ({BLOCK_KINDS[number_format].name}); the file is "
            "damaged"
        )
    return _TensorInfo(name, shape, number_format, offset)


def _check_offsets(path: Path, infos: list[_TensorInfo], alignment: int, data_size: int) -> None:
    """Check that all tensors are aligned, end within the file and do not overlap.

    Args:
        path: the file, for messages.
        infos: the entries of the tensors.
        alignment: required divisor of the offsets.
        data_size: size of the data in bytes.
    """
    sorted_infos = sorted(infos, key=lambda info: info.offset)
    for info in sorted_infos:
        if info.offset + info.bytes > data_size:
            raise ModelError(
                f"{path}: tensor {quoted(info.name)} of shape {quoted(info.shape)} ends beyond the end of "
                "the file, which is truncated or damaged; fetch it again"
            )
        if info.offset % alignment:
            raise ModelError(
                f"{path}: tensor {quoted(info.name)} is at byte {info.offset} of the data, which is not a "
                f"multiple of {alignment}; the file is damaged"
            )
    for first, second in pairwise(sorted_infos):
        if first.offset + first.bytes > second.offset:
            raise ModelError(
                f"{path}: tensors {quoted(first.name)} and {quoted(second.name)} overlap; the file is damaged"
            )


def _tensor(path: Path, file: PrivateFile, start: int, info: _TensorInfo) -> StoredTensor:
    offset = start + info.offset
    if info.format in PLAIN_FORMATS:
        number_format = PLAIN_FORMATS[info.format]
        content = PrivateTensor(file, offset, info.shape, np.dtype(NUMPY_TYPES[number_format]))
        return StoredTensor(info.name, path, number_format, content)
    kind = BLOCK_KINDS[info.format]
    content = PrivateTensor(file, offset, (*info.shape[:-1], info.row_bytes), np.dtype(np.uint8))
    return BlockTensor(info.name, path, kind.name, content, kind)


class _Reader:
    """A sequential reader of the header that checks every size against the number of remaining bytes."""

    def __init__(self, file: PrivateFile) -> None:
        self.path, self.position = file.path, 0
        self._file, self._end = file, min(file.size, MAX_HEADER_BYTES)
        self._block, self._block_start = b"", 0

    def read(self, size: int, label: str) -> bytes:
        """Return the next ``size`` bytes; ``label`` describes them in messages."""
        if size > self._end - self.position:
            cause = "its header is too long" if self._end == MAX_HEADER_BYTES else "the file is truncated"
            raise ModelError(
                f"{self.path}: {label} needs {quoted(size)} bytes, but only {self._end - self.position} "
                f"remain: {cause}, or it is damaged; fetch it again"
            )
        offset = self.position - self._block_start
        if offset + size > len(self._block):
            self._block_start, offset = self.position, 0
            self._block = self._file.part(
                self.position, min(max(size, BLOCK_BYTES), self._end - self.position)
            ).tobytes()
        self.position += size
        return self._block[offset : offset + size]

    def number(self, kind: str, label: str) -> int:
        """Return the next unsigned integer, in a NumPy format such as ``<u4``."""
        return int.from_bytes(self.read(int(kind[-1]), label), "little")

    def string(self, label: str, max_bytes: int = MAX_HEADER_BYTES) -> str:
        """Return the next string."""
        size = self.number("<u8", label)
        if size > max_bytes:
            raise ModelError(f"{self.path}: {label} has {quoted(size)} bytes; the file is damaged")
        content = self.read(size, label)
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise ModelError(f"{self.path}: {label} is not UTF-8 text; the file is damaged") from None

    def value(self, key: str) -> Value:
        """Return the next metadata value, which is stored as a type followed by the content."""
        label = f"the value of {quoted(key)}"
        kind = self.number("<u4", label)
        if kind == STRING:
            return self.string(label)
        if kind == ARRAY:
            return self._array(key, label)
        if kind == BOOL:
            return bool(self._numbers(np.dtype("u1"), 1, label)[0])
        if kind not in NUMBER_TYPES:
            raise ModelError(f"{self.path}: {label} is of the unknown type {kind}")
        number = self._numbers(NUMBER_TYPES[kind], 1, label)[0]
        # A float32 setting stands for its shortest decimal: 1e-05, not 9.99999975e-06.
        return float(str(number)) if kind == 6 else number.item()

    def _array(self, key: str, label: str) -> Value:
        kind, count = self.number("<u4", label), self.number("<u8", label)
        if kind == STRING:
            return self._strings(key, count)
        if kind not in NUMBER_TYPES and kind != BOOL:
            name = "arrays" if kind == ARRAY else f"the unknown type {kind}"
            raise ModelError(f"{self.path}: {label} is an array of {name}, which is not supported")
        return self._numbers(NUMBER_TYPES.get(kind, np.dtype("u1")), count, label)

    def _strings(self, key: str, count: int) -> StringArray:
        """Return the next ``count`` strings, using one loop, since there may be hundreds of thousands."""
        strings = StringArray()
        while len(strings) < count:
            strings.append(self.string(f"entry {len(strings)} of {quoted(key)}").encode())
            block, offset = self._block, self.position - self._block_start
            try:
                while len(strings) < count and offset + 8 <= len(block):
                    end = offset + 8 + int.from_bytes(block[offset : offset + 8], "little")
                    if end > len(block):
                        break  # the next block, or an error
                    strings.append(block[offset + 8 : end])
                    offset = end
            except UnicodeDecodeError:
                pass  # string() reports the entry
            self.position = self._block_start + offset
        return strings

    def _numbers(self, kind: np.dtype[Any], count: int, label: str) -> NDArray[Any]:
        return np.frombuffer(self.read(count * kind.itemsize, label), kind)

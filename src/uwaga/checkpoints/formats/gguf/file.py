"""GGUF files (``docs/gguf.md`` of ggml): their metadata and tensors; none of their sizes is trusted.

A model may be split into several files, which llama.cpp names ``name-00001-of-00003.gguf`` and so on: the
first has the metadata, each has tensors.

A file begins with the header: four letters, a version, the counts of tensors and of metadata; then come the
metadata (key, type, value), the tensors' infos (name, axes, format, place) and, aligned, their data. Strings
and arrays are preceded by their length. Everything is little-endian.
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

from uwaga.checkpoints.formats.gguf.blocks import KINDS, PLAIN, UNREAD, BlockTensor
from uwaga.checkpoints.storage.memory import PrivateFile, PrivateTensor
from uwaga.checkpoints.storage.tensors import NUMPY, StoredTensor
from uwaga.errors import ModelError, shown

MAGIC = b"GGUF"
VERSIONS = (2, 3)
LARGEST_HEADER = 1 << 28
"""Bytes before the data; those of the largest known vocabulary, 262,144 tokens, are 8 million."""
MOST_AXES = 4
LONGEST_NAME = 1 << 16
"""Bytes of a key, or of a tensor's name."""
ALIGNMENT_KEY, ALIGNMENT, LARGEST_ALIGNMENT = "general.alignment", 32, 1 << 20
BLOCK = 1 << 20
"""Bytes that are read at once."""

BOOL, STRING, ARRAY = 7, 8, 9
NUMBERS: Mapping[int, np.dtype[Any]] = {
    number: np.dtype(name)
    for number, name in {
        **{0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4"},
        **{10: "<u8", 11: "<i8", 12: "<f8"},
    }.items()
}
"""Types of metadata that are numbers."""


class Strings:
    """An array of strings, decoded where they are used: those of a vocabulary would take 100 bytes each."""

    def __init__(self) -> None:
        self._content, self._ends = bytearray(), array("Q", (0,))

    def append(self, text: bytes) -> None:
        """Add a string."""
        text.decode("utf-8")
        self._content += text
        self._ends.append(len(self._content))

    def __repr__(self) -> str:
        return f"{len(self)} strings"

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, number: int) -> str:
        """Return one of the strings, counted from 0."""
        return self._content[self._ends[number] : self._ends[number + 1]].decode("utf-8")

    def decoded(self) -> list[str]:
        """Return all strings."""
        return [self._content[start:end].decode("utf-8") for start, end in pairwise(self._ends)]


Value = bool | int | float | str | NDArray[Any] | Strings
"""A value of the metadata."""

PART_NAME = re.compile(r"(?P<name>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})\.gguf")


@dataclass(frozen=True)
class GgufFile:
    """An open GGUF file, or the files of a split model, all sizes checked; its tensors are read on demand."""

    path: Path
    version: int
    metadata: Mapping[str, Value]
    tensors: Mapping[str, StoredTensor]

    def whole(self, key: str, default: int | None = None, least: int = 0) -> int:
        """Return an integer of at least ``least``; without ``default`` the key is required."""
        value = self.metadata.get(key, default)
        if type(value) is not int or not least <= value < 1 << 31:
            raise self._refused(key, f"a whole number, {least} or more")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Return a positive number; without ``default`` the key is required."""
        value = self.metadata.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise self._refused(key, "a number above 0")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """Return a boolean."""
        value = self.metadata.get(key, default)
        if type(value) is not bool:
            raise self._refused(key, "true or false")
        return value

    def word(self, key: str, default: str | None = None) -> str:
        """Return a string; without ``default`` the key is required."""
        value = self.metadata.get(key, default)
        if not isinstance(value, str):
            raise self._refused(key, "a string")
        return value

    def words(self, key: str) -> Strings:
        """Return a required array of strings."""
        value = self.metadata.get(key)
        if not isinstance(value, Strings):
            raise self._refused(key, "an array of strings")
        return value

    def numbers(self, key: str, size: int) -> NDArray[Any]:
        """Return a required array of ``size`` finite numbers."""
        value = self.metadata.get(key)
        if not isinstance(value, np.ndarray) or len(value) != size or not np.isfinite(value).all():
            raise self._refused(key, f"an array of {size} numbers")
        return value

    def _refused(self, key: str, wanted: str) -> ModelError:
        value = self.metadata.get(key)
        if isinstance(value, Strings | np.ndarray):
            found = f"an array of {len(value)}"
        else:
            found = "missing" if value is None else shown(value)
        return ModelError(
            f"{self.path}: {key!r} must be {wanted}, not {found}; the file is damaged or incomplete"
        )


def read_parts(path: Path) -> GgufFile:
    """Read the headers of a GGUF file and, if it is the first part of a split model, of the other parts."""
    first = read_file(path)
    count = first.whole("split.count", 1)
    if count < 2:
        return first
    named, own = PART_NAME.fullmatch(path.name), first.whole("split.no") + 1
    if named is None or (int(named["number"]), int(named["count"])) != (own, count):
        raise ModelError(
            f"{path}: part {own} of {count} of a model, but its name does not end in "
            f"-{own:05d}-of-{count:05d}.gguf; the other parts are found by their names"
        )
    parts = [path.with_name(f"{named['name']}-{one:05d}-of-{count:05d}.gguf") for one in range(1, count + 1)]
    if path != parts[0]:
        raise ModelError(f"{path}: not the first of {count} parts of a model; give {parts[0].name}")
    tensors = dict(first.tensors)
    for number, place in enumerate(parts[1:], start=1):
        if not place.exists():
            raise ModelError(
                f"{place}: missing: the model of {path.name} has {count} parts; fetch all of them"
            )
        part = read_file(place)
        for key, wanted in (("split.no", number), ("split.count", count)):
            if (stated := part.whole(key)) != wanted:
                raise ModelError(f"{place}: {key!r} is {stated}, not {wanted} as by its name and place")
        if twice := tensors.keys() & part.tensors.keys():
            raise ModelError(
                f"{place}: tensor {shown(min(twice))} is in an earlier part, too: parts of several models?"
            )
        tensors |= part.tensors
    stated = first.whole("split.tensors.count")
    if len(tensors) != stated:
        raise ModelError(
            f"{path}: its {count} parts have {len(tensors)} tensors, but {stated} are stated; fetch all "
            "parts of one model again"
        )
    return replace(first, tensors=tensors)


def read_file(path: Path) -> GgufFile:
    """Read the header of one GGUF file."""
    file = PrivateFile(path)
    reader = _Reader(file)
    if reader.take(4, "the file") != MAGIC:
        raise ModelError(f"{path}: not a GGUF file: does not begin with {MAGIC.decode()}")
    version = reader.number("<u4", "the version")
    if version not in VERSIONS:
        why = "big-endian, " if int.from_bytes(struct.pack("<I", version), "big") in VERSIONS else ""
        raise ModelError(
            f"{path}: {why}GGUF version {version}; uwaga reads versions {VERSIONS[0]} and {VERSIONS[1]}, "
            "little-endian: convert the model again with llama.cpp"
        )
    tensor_count = reader.number("<u8", "the count of tensors")
    metadata: dict[str, Value] = {}
    for _ in range(reader.number("<u8", "the count of metadata")):
        key = reader.text("a key of the metadata", LONGEST_NAME)
        if key in metadata:
            raise ModelError(f"{path}: the key {shown(key)} occurs twice; the file is damaged")
        metadata[key] = reader.value(key)
    infos: dict[str, _Info] = {}
    for _ in range(tensor_count):
        info = _read_info(reader)
        if info.name in infos:
            raise ModelError(f"{path}: the tensor {shown(info.name)} occurs twice; the file is damaged")
        infos[info.name] = info
    alignment = metadata.get(ALIGNMENT_KEY, ALIGNMENT)
    if type(alignment) is not int or not 8 <= alignment <= LARGEST_ALIGNMENT or alignment % 8:
        raise ModelError(
            f"{path}: {ALIGNMENT_KEY!r} must be a multiple of 8 up to {LARGEST_ALIGNMENT}, not "
            f"{shown(alignment)}; the file is damaged"
        )
    start = -(-reader.at // alignment) * alignment
    _check_places(path, list(infos.values()), alignment, file.size - start)
    return GgufFile(
        path, version, metadata, {name: _tensor(path, file, start, info) for name, info in infos.items()}
    )


@dataclass(frozen=True)
class _Info:
    """The entry of a tensor: its shape, its format by number, and its offset in the data."""

    name: str
    shape: tuple[int, ...]
    format: int
    offset: int

    @property
    def row_bytes(self) -> int:
        """Bytes of a row, the last axis."""
        if self.format in PLAIN:
            return self.shape[-1] * int(np.dtype(NUMPY[PLAIN[self.format]]).itemsize)
        kind = KINDS[self.format]
        return self.shape[-1] // kind.size * kind.layout.itemsize

    @property
    def bytes(self) -> int:
        """Bytes of the tensor."""
        return math.prod(self.shape[:-1]) * self.row_bytes


def _read_info(reader: _Reader) -> _Info:
    """Read the entry of a tensor and check its shape and format."""
    name = reader.text("the name of a tensor", LONGEST_NAME)
    what, path = f"the entry of tensor {shown(name)}", reader.path
    axes = reader.number("<u4", what)
    if not 1 <= axes <= MOST_AXES:
        raise ModelError(f"{path}: tensor {shown(name)} has {axes} axes; the file is damaged")
    shape = tuple(reader.number("<u8", what) for _ in range(axes))[::-1]  # stored with the rows' axis first
    form, offset = reader.number("<u4", what), reader.number("<u8", what)
    if not all(shape):
        raise ModelError(f"{path}: tensor {shown(name)} has the shape {shown(shape)}; the file is damaged")
    if form not in PLAIN and form not in KINDS:
        known = (*PLAIN.values(), *(kind.name for kind in KINDS.values()))
        raise ModelError(
            f"{path}: tensor {shown(name)} is stored as {UNREAD.get(form, f'the unknown format {form}')}; "
            f"uwaga reads {', '.join(known)}: quantise the model to one of these"
        )
    if form in KINDS and shape[-1] % KINDS[form].size:
        raise ModelError(
            f"{path}: tensor {shown(name)} has rows of {shape[-1]} numbers, which blocks of "
            f"{KINDS[form].size} ({KINDS[form].name}) cannot hold; the file is damaged"
        )
    return _Info(name, shape, form, offset)


def _check_places(path: Path, infos: list[_Info], alignment: int, available: int) -> None:
    """Check that every tensor lies in the file, aligned, and apart from the others."""
    ordered = sorted(infos, key=lambda info: info.offset)
    for info in ordered:
        if info.offset + info.bytes > available:
            raise ModelError(
                f"{path}: tensor {shown(info.name)} of shape {shown(info.shape)} ends beyond the end of the "
                "file, which is cut short or damaged; fetch it again"
            )
        if info.offset % alignment:
            raise ModelError(
                f"{path}: tensor {shown(info.name)} is at byte {info.offset} of the data, which is not a "
                f"multiple of {alignment}; the file is damaged"
            )
    for first, second in pairwise(ordered):
        if first.offset + first.bytes > second.offset:
            raise ModelError(
                f"{path}: tensors {shown(first.name)} and {shown(second.name)} overlap; the file is damaged"
            )


def _tensor(path: Path, file: PrivateFile, start: int, info: _Info) -> StoredTensor:
    place = start + info.offset
    if info.format in PLAIN:
        form = PLAIN[info.format]
        content = PrivateTensor(file, place, info.shape, np.dtype(NUMPY[form]))
        return StoredTensor(info.name, path, form, content)
    kind = KINDS[info.format]
    content = PrivateTensor(file, place, (*info.shape[:-1], info.row_bytes), np.dtype(np.uint8))
    return BlockTensor(info.name, path, kind.name, content, kind)


class _Reader:
    """Sequential reading of the header, in blocks; every length is checked against the bytes left."""

    def __init__(self, file: PrivateFile) -> None:
        self.path, self.at = file.path, 0
        self._file, self._end = file, min(file.size, LARGEST_HEADER)
        self._block, self._first = b"", 0

    def take(self, size: int, what: str) -> bytes:
        """Return the next bytes; ``what`` names them in messages."""
        if size > self._end - self.at:
            limit = "its header is too long" if self._end == LARGEST_HEADER else "the file is cut short"
            raise ModelError(
                f"{self.path}: {what} needs {shown(size)} bytes and {self._end - self.at} are left: {limit}, "
                "or damaged; fetch it again"
            )
        offset = self.at - self._first
        if offset + size > len(self._block):
            self._first, offset = self.at, 0
            self._block = self._file.part(self.at, min(max(size, BLOCK), self._end - self.at)).tobytes()
        self.at += size
        return self._block[offset : offset + size]

    def number(self, kind: str, what: str) -> int:
        """Return the next number of a numpy format."""
        return int.from_bytes(self.take(int(kind[-1]), what), "little")

    def text(self, what: str, longest: int = LARGEST_HEADER) -> str:
        """Return the next string."""
        size = self.number("<u8", what)
        if size > longest:
            raise ModelError(f"{self.path}: {what} of {shown(size)} bytes; the file is damaged")
        content = self.take(size, what)
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            raise ModelError(f"{self.path}: {what} is not UTF-8 text; the file is damaged") from None

    def value(self, key: str) -> Value:
        """Return the value of a key: its type, then its content."""
        what = f"the value of {shown(key)}"
        kind = self.number("<u4", what)
        if kind == STRING:
            return self.text(what)
        if kind == ARRAY:
            return self._array(key, what)
        if kind == BOOL:
            return bool(self._numbers(np.dtype("u1"), 1, what)[0])
        if kind not in NUMBERS:
            raise ModelError(f"{self.path}: {what} is of the unknown type {kind}")
        found = self._numbers(NUMBERS[kind], 1, what)[0]
        # A setting in float32 is meant as the shortest decimal that gives it: 1e-05, not 9.99999975e-06.
        return float(str(found)) if kind == 6 else found.item()

    def _array(self, key: str, what: str) -> Value:
        kind, count = self.number("<u4", what), self.number("<u8", what)
        if kind == STRING:
            return self._texts(key, count)
        if kind not in NUMBERS and kind != BOOL:
            name = "arrays" if kind == ARRAY else f"the unknown type {kind}"
            raise ModelError(f"{self.path}: {what} is an array of {name}, which is not supported")
        return self._numbers(NUMBERS.get(kind, np.dtype("u1")), count, what)

    def _texts(self, key: str, count: int) -> Strings:
        """Return an array of strings: hundreds of thousands in a vocabulary, which one loop cuts."""
        found = Strings()
        while len(found) < count:
            found.append(self.text(f"entry {len(found)} of {shown(key)}").encode())
            block, offset = self._block, self.at - self._first
            try:
                while len(found) < count and offset + 8 <= len(block):
                    end = offset + 8 + int.from_bytes(block[offset : offset + 8], "little")
                    if end > len(block):
                        break  # the next block, or an error
                    found.append(block[offset + 8 : end])
                    offset = end
            except UnicodeDecodeError:
                pass  # the error names the entry
            self.at = self._first + offset
        return found

    def _numbers(self, kind: np.dtype[Any], count: int, what: str) -> NDArray[Any]:
        return np.frombuffer(self.take(count * kind.itemsize, what), kind)

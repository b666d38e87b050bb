"""Marian's binary models: headers, names, shapes, then tensors aligned to 256 bytes.

The file begins with two 64-bit numbers, the version (1) and the count of tensors; then follow headers of
four such numbers each (length of the zero-terminated name, number format, axes, bytes), the names, axes as
32-bit numbers, padding preceded by its length, and the data. Quantised matrices (``intgemm8`` and
``intgemm16``: Kim et al. 2019, section 4) hold integers followed by the float32 multiplier that quantised
them; they are stored transposed, with a row for each output, as embeddings always are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uwaga.checkpoints.storage.memory import PrivateFile, PrivateTensor
from uwaga.checkpoints.storage.tensors import QuantisedTensor, StoredTensor
from uwaga.errors import ModelError, quoted

VERSION = 1
HEADER = np.dtype([("name", "<u8"), ("kind", "<u8"), ("axes", "<u8"), ("bytes", "<u8")])
MAX_TENSORS, MAX_NAME_BYTES, MAX_AXES, MAX_PADDING = 1 << 16, 1 << 10, 8, 1 << 16
MAX_HEADER_BYTES = 1 << 20
"""Maximum bytes of all headers, and of a tensor that is not a weight."""
PLAIN_FORMATS: Mapping[int, tuple[str, str]] = {
    0x0404: ("F32", "<f4"),
    0x0402: ("F16", "<f2"),
    0x0408: ("F64", "<f8"),
    0x0101: ("I8", "<i1"),
}
"""Names of number formats in safetensors and in numpy."""
QUANTISED_FORMATS: Mapping[int, tuple[str, str]] = {
    **dict.fromkeys((0x4101, 0x10001), ("I8", "<i1")),
    **dict.fromkeys((0x4102, 0x10002), ("I16", "<i2")),
}
"""Integers with a multiplier, by the format numbers of browsermt's Marian and of marian-nmt's."""
NUMBER_FORMATS = {**PLAIN_FORMATS, **QUANTISED_FORMATS}
PACKED_BITS = 0x0800 | 0x1000 | 0x2000 | 0x8000
"""Bits of formats whose layout is specific to a processor."""
MULTIPLIER_BYTES = 4
"""Bytes of the multiplier after the integers."""
EMBEDDINGS = "Wemb"
ALPHA_SUFFIX = "_QuantMultA"
"""Suffix of the names of tensors that hold a multiplier of activations, calibrated by the model's authors."""


@dataclass(frozen=True)
class Entry:
    """The header of a tensor and its offset in the file."""

    name: str
    kind: int
    shape: tuple[int, ...]
    start: int
    bytes: int

    @property
    def format(self) -> str:
        """Number format by its safetensors name; that of the integers if the tensor is quantised."""
        return NUMBER_FORMATS[self.kind][0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype of its data."""
        return np.dtype(NUMBER_FORMATS[self.kind][1])

    @property
    def data_bytes(self) -> int:
        """Size of its data in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_entries(path: Path, file: PrivateFile) -> list[Entry]:
    """Return the entries of a file, without reading its tensors.

    Args:
        path: the file, for messages.
        file: the open file.
    """
    reader = _Reader(path, file.part(0, min(file.size, MAX_HEADER_BYTES)))
    version, count = reader.numbers(2, "<u8")
    if version != VERSION:
        raise ModelError(f"{path}: not a binary Marian model of version {VERSION} (it begins with {version})")
    if not 0 < count <= MAX_TENSORS:
        raise ModelError(f"{path}: states {count} tensors; the file is damaged")
    headers = reader.array(int(count), HEADER)
    for header in headers:
        if not (0 < header["name"] <= MAX_NAME_BYTES and header["axes"] <= MAX_AXES):
            raise ModelError(f"{path}: a header with impossible lengths; the file is damaged")
    names = [_name(path, reader.array(int(size), np.dtype("u1")).tobytes()) for size in headers["name"]]
    shapes = [tuple(reader.array(int(size), np.dtype("<i4")).tolist()) for size in headers["axes"]]
    (padding,) = reader.numbers(1, "<u8")
    if padding > MAX_PADDING:
        raise ModelError(f"{path}: states {padding} bytes of padding; the file is damaged")
    start = reader.position + int(padding)
    entries: list[Entry] = []
    for name, shape, header in zip(names, shapes, headers, strict=True):
        entry = Entry(name, int(header["kind"]), shape, start, int(header["bytes"]))
        _check(path, entry)
        entries.append(entry)
        start += entry.bytes
    if start != file.size:
        raise ModelError(
            f"{path}: its tensors end at byte {start}, and the file has {file.size}: it is cut short or "
            "damaged; fetch it again"
        )
    if len(set(names)) != len(names):
        raise ModelError(f"{path}: two tensors of one name; the file is damaged")
    return entries


def read_binary(path: Path) -> tuple[dict[str, StoredTensor], dict[str, NDArray[Any]]]:
    """Return the weights, and the other tensors by name, such as the settings."""
    file = PrivateFile(path)
    weights: dict[str, StoredTensor] = {}
    other_tensors: dict[str, NDArray[Any]] = {}
    alphas: dict[str, float] = {}
    for entry in read_entries(path, file):
        if entry.name.endswith(ALPHA_SUFFIX):
            alphas[entry.name] = _alpha(path, entry, file)
        elif entry.kind in QUANTISED_FORMATS:
            weights[entry.name] = _quantised(path, entry, file)
        else:
            content = PrivateTensor(file, entry.start, entry.shape, entry.dtype)
            if entry.dtype.kind == "f":
                weights[entry.name] = StoredTensor(entry.name, path, entry.format, content)
            elif math.prod(entry.shape) <= MAX_HEADER_BYTES:
                other_tensors[entry.name] = content.read()
    _check_alphas(path, weights, alphas)
    return weights, other_tensors


def _quantised(path: Path, entry: Entry, file: PrivateFile) -> QuantisedTensor:
    multiplier = _float(file, entry.start + entry.data_bytes)
    if not (math.isfinite(multiplier) and multiplier > 0):
        raise ModelError(f"{path}: {entry.name!r} was multiplied by {multiplier}; the file is damaged")
    transposed = EMBEDDINGS not in entry.name
    shape = entry.shape[::-1] if transposed else entry.shape
    content = PrivateTensor(file, entry.start, shape, entry.dtype)
    return QuantisedTensor(entry.name, path, entry.format, content, 1.0 / multiplier, transposed)


def _alpha(path: Path, entry: Entry, file: PrivateFile) -> float:
    """Return a multiplier of activations; the multiplier of the embeddings is stored quantised, as 127."""
    if math.prod(entry.shape) != 1:
        raise ModelError(
            f"{path}: {entry.name!r} has the shape {quoted(entry.shape)}, not that of one number"
        )
    if entry.kind in QUANTISED_FORMATS:
        return float(_quantised(path, entry, file).floats()[0, 0])
    return _float(file, entry.start)


def _float(file: PrivateFile, offset: int) -> float:
    return float(file.part(offset, MULTIPLIER_BYTES).view("<f4")[0])


def _check_alphas(path: Path, weights: Mapping[str, StoredTensor], alphas: Mapping[str, float]) -> None:
    """Check that a file with multipliers of activations has a valid one for each quantised matrix.

    The multipliers are not used: a scale per row is closer to float32 (see docs/guides/marian.md).
    """
    for name, value in alphas.items():
        if not (math.isfinite(value) and value > 0):
            raise ModelError(f"{path}: {name!r} holds {value}, which multiplies nothing")
    quantised = [
        name
        for name, tensor in weights.items()
        if isinstance(tensor, QuantisedTensor) and tensor.format == "I8" and EMBEDDINGS not in name
    ]
    missing = [f"{name}{ALPHA_SUFFIX}" for name in quantised if f"{name}{ALPHA_SUFFIX}" not in alphas]
    if alphas and missing:
        raise ModelError(f"{path}: {missing[0]!r} is missing, and other matrices have theirs")


def _check(path: Path, entry: Entry) -> None:
    """Raise ModelError for a tensor whose size contradicts its shape, before reading it."""
    if entry.kind not in NUMBER_FORMATS:
        if entry.kind & PACKED_BITS:
            raise ModelError(
                f"{path}: {entry.name!r} is stored in the layout of one processor ({entry.kind:#x}); convert "
                "the model anew with marian-conv --gemm-type intgemm8 or float32"
            )
        raise ModelError(f"{path}: {entry.name!r} has the unknown number format {entry.kind:#x}")
    if any(axis < 1 for axis in entry.shape):
        raise ModelError(f"{path}: {entry.name!r} has the shape {quoted(entry.shape)}; the file is damaged")
    quantised = entry.kind in QUANTISED_FORMATS
    if quantised and len(entry.shape) != 2:
        raise ModelError(f"{path}: {entry.name!r} is not a matrix: {quoted(entry.shape)}")
    needed = entry.data_bytes + (MULTIPLIER_BYTES if quantised else 0)
    if needed > entry.bytes:
        raise ModelError(
            f"{path}: {entry.name!r} of shape {quoted(entry.shape)} needs {needed} bytes and has "
            f"{entry.bytes}; the file is damaged"
        )


def _name(path: Path, raw: bytes) -> str:
    try:
        name = raw.removesuffix(b"\0").decode("ascii")
    except UnicodeDecodeError:
        name = ""
    if not name.isprintable() or not name:
        raise ModelError(f"{path}: a tensor's name is {quoted(raw)}; the file is damaged")
    return name


class _Reader:
    """A bounded reader of the beginning of a file."""

    def __init__(self, path: Path, content: NDArray[np.uint8]) -> None:
        self.path, self.content, self.position = path, content, 0

    def array(self, count: int, kind: np.dtype[Any]) -> NDArray[Any]:
        end = self.position + count * kind.itemsize
        if end > len(self.content):
            raise ModelError(f"{self.path}: is cut short; fetch it again")
        values = self.content[self.position : end].view(kind)
        self.position = end
        return values

    def numbers(self, count: int, kind: str) -> list[int]:
        values: list[int] = self.array(count, np.dtype(kind)).tolist()
        return values

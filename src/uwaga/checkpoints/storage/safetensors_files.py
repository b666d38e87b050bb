"""Read and write safetensors files without torch: the header is checked, tensors are read on demand.

The format (https://huggingface.co/docs/safetensors) has the length of the header in 8 bytes, the header in
JSON, and the tensors' bytes one after another.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uwaga.checkpoints.storage.memory import PrivateFile, PrivateTensor
from uwaga.checkpoints.storage.tensors import NUMPY, StoredTensor
from uwaga.engine.packing import Bytes
from uwaga.errors import ModelError, reason, shown
from uwaga.files.regular import read_regular

STORED = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
"""Names of number formats in safetensors, by their names in numpy."""
PREFIX = 8
"""Bytes of the header's length."""
LARGEST_HEADER = 100_000_000
"""Maximum bytes of a header, as in the library safetensors."""
LARGEST_INDEX = 1 << 26
"""Maximum bytes of an index of shards."""
SHOWN = 3
"""Maximum number of names in a message."""


def open_tensors(path: Path, sha256: str | None = None) -> dict[str, StoredTensor]:
    """Return the tensors of a file, each of which is read into private memory on demand.

    Args:
        path: the file.
        sha256: the expected checksum, None if it is not known.
    """
    file, header = _open(path)
    if sha256 is not None and file.sha256() != sha256:
        raise ModelError(
            f"{path}: damaged: its checksum differs from that in config.json; fetch or save the model again"
        )
    found = {}
    for entry in header.entries:
        tensor = PrivateTensor(file, header.size + entry.start, entry.shape, entry.kind)
        found[entry.name] = StoredTensor(entry.name, path, entry.format, tensor)
    return found


def tensors_of(path: Path, whole: Bytes) -> dict[str, StoredTensor]:
    """Return the tensors of a file whose bytes are in memory, without a copy."""
    header = _read_header(path, lambda start, size: whole[start : start + size], len(whole))
    data = whole[header.size :]
    found = {}
    for entry in header.entries:
        part = data[entry.start : entry.end]
        if part.ctypes.data % entry.kind.itemsize:
            part = part.copy()
        values = part.view(entry.kind).reshape(entry.shape)
        found[entry.name] = StoredTensor(entry.name, path, entry.format, values)
    return found


class _Entry(NamedTuple):
    """A tensor of a header; ``start`` and ``end`` are offsets after the header."""

    name: str
    format: str
    kind: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    end: int


class _Header(NamedTuple):
    """The tensors of a file in their order, its metadata, and the bytes before the first tensor."""

    entries: list[_Entry]
    metadata: dict[str, str]
    size: int


def _open(path: Path) -> tuple[PrivateFile, _Header]:
    if not path.is_file():
        raise ModelError(f"{path}: no such file, so {path.parent} is not a complete model folder")
    file = PrivateFile(path)
    return file, _read_header(path, file.part, file.size)


def _read_header(path: Path, part: Callable[[int, int], Bytes], size: int) -> _Header:
    """Read and check a header, given a function that returns the bytes from a start, and the file's size."""
    if size < PREFIX:
        raise damaged(path, ValueError(f"it is shorter than {PREFIX} bytes"))
    length = int.from_bytes(part(0, PREFIX).tobytes(), "little")
    if length > LARGEST_HEADER:
        raise damaged(path, ValueError(f"its header is longer than {LARGEST_HEADER} bytes"))
    if length > size - PREFIX:
        raise damaged(path, ValueError("it ends within its header"))
    try:
        values = json.loads(part(PREFIX, length).tobytes(), object_pairs_hook=_unique)
        metadata = values.pop("__metadata__", {})
        if not all(type(value) is str for value in metadata.values()):
            raise ValueError("its __metadata__ holds more than texts")
        entries = [_entry(path, name, value) for name, value in values.items()]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise damaged(path, error) from None
    entries.sort(key=lambda entry: (entry.start, entry.end))
    end = 0
    for entry in entries:
        if entry.start != end:
            raise damaged(
                path, ValueError(f"{shown(entry.name)} does not begin where the tensor before it ends")
            )
        end = entry.end
    if end != size - PREFIX - length:
        raise damaged(path, ValueError(f"its tensors take {end} bytes and it has {size - PREFIX - length}"))
    return _Header(entries, metadata, PREFIX + length)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is in its header twice")
    return found


def _entry(path: Path, name: str, value: Mapping[str, Any]) -> _Entry:
    (start, end), shape, form = value["data_offsets"], tuple(value["shape"]), value["dtype"]
    if not all(type(number) is int and 0 <= number < 1 << 63 for number in (start, end, *shape)):
        raise ValueError(f"the shape or data_offsets of {shown(name)} are not whole numbers")
    if form not in NUMPY:
        raise ModelError(f"{path}: {shown(name)} is stored as {shown(form)}, which is not supported")
    kind = np.dtype(NUMPY[form])
    if end - start != math.prod(shape) * kind.itemsize:
        raise ValueError(f"the shape of {shown(name)} does not fit its data_offsets")
    return _Entry(name, form, kind, shape, start, end)


def open_shards(
    index: Path, open_file: Callable[[Path], dict[str, StoredTensor]] = open_tensors
) -> dict[str, StoredTensor]:
    """Return the tensors of all files that an index lists.

    Args:
        index: the JSON file that names the file of each tensor.
        open_file: returns the tensors of one file.
    """
    listed = _read_index(index)
    found: dict[str, StoredTensor] = {}
    for path in sorted(set(listed.values())):
        tensors = open_file(path)
        for name in sorted(tensors.keys() & found.keys())[:1]:
            raise ModelError(
                f"{path}: {name!r} is stored in {found[name].path.name}, too; fetch both files again"
            )
        found |= tensors
    for name, path in listed.items():
        if name not in found or found[name].path != path:
            raise ModelError(f"{path}: {name!r} is missing, although {index.name} lists it there")
    return found


def _read_index(index: Path) -> dict[str, Path]:
    """Read the index of shards: the file of each tensor."""
    try:
        mapping = json.loads(read_regular(index, LARGEST_INDEX).decode("utf-8"))["weight_map"]
        names = {str(name): str(file) for name, file in mapping.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelError(f"{index}: not an index of weight files; fetch it again") from None
    for file in set(names.values()):
        if Path(file).name != file or file in ("", ".", ".."):
            raise ModelError(f"{index}: names {file!r}, which is not a file of this folder")
    return {name: index.parent / file for name, file in names.items()}


def count_tensors(path: Path) -> tuple[int, int]:
    """Return the numbers of tensors and of bytes of a weight file; only its header is read."""
    return len(read_header(path)), path.stat().st_size


def read_header(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shape and number format of every tensor of a file."""
    return {entry.name: (entry.shape, entry.format) for entry in _open(path)[1].entries}


def read_metadata(path: Path) -> dict[str, str]:
    """Return the metadata of a file."""
    return _open(path)[1].metadata


def check_header(path: Path, expected: Mapping[str, tuple[int, ...]], wanted: Mapping[str, str]) -> None:
    """Compare the header of ``path`` with the shapes and number formats that a model has."""
    found = read_header(path)
    shapes = {name: shape for name, (shape, _) in found.items()}
    formats = {name: form for name, (_, form) in found.items()}
    check_tensors(path, expected, wanted, shapes, formats)


def check_tensors(
    path: Path,
    expected: Mapping[str, tuple[int, ...]],
    wanted: Mapping[str, str],
    shapes: Mapping[str, tuple[int, ...]],
    formats: Mapping[str, str],
) -> None:
    """Compare the shapes and number formats found in ``path`` with those that a model has."""
    missing, unknown = sorted(set(expected) - set(shapes)), sorted(set(shapes) - set(expected))
    if missing:
        raise ModelError(f"{path}: missing {_some(missing)}, which config.json asks for")
    if unknown:
        raise ModelError(f"{path}: holds {_some(unknown)}, unknown to the model that config.json describes")
    for name, shape in expected.items():
        if shapes[name] != shape:
            raise ModelError(
                f"{path}: {name!r} has shape {shapes[name]}, config.json asks for {shape}; "
                "the two files belong to different models"
            )
        if formats[name] != wanted[name]:
            raise ModelError(
                f"{path}: {name!r} is stored as {formats[name]}, config.json asks for {wanted[name]}; "
                "the two files belong to different models"
            )


def _some(names: list[str]) -> str:
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(repr(name) for name in names[:SHOWN]) + rest


def damaged(path: Path, error: Exception) -> ModelError:
    """Return the error to raise for a file that its library rejects."""
    return ModelError(f"{path}: damaged or cut short ({reason(error)}); fetch or save the model again")


ALIGNED = 64
NAMES: Mapping[str, str] = {
    "int8": "I8",
    "uint8": "U8",
    "uint16": "U16",
    "int32": "I32",
    "float16": "F16",
    "float32": "F32",
}
"""Names of number formats in safetensors, by their names in numpy."""


def aligned_bytes(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return a safetensors file of ``tensors`` in their order, the first of them aligned to 64 bytes.

    A tensor is aligned too if the sizes of all tensors before it are multiples of 64. The library's own
    writer reorders tensors and aligns them to eight bytes.

    Args:
        tensors: arrays by name.
        metadata: metadata for the header; ``transformers`` requires ``{"format": "pt"}``.
    """
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": NAMES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNED)
    parts = [len(text).to_bytes(8, "little"), text]
    parts += [np.ascontiguousarray(tensor).tobytes() for tensor in tensors.values()]
    return b"".join(parts)

"""Read safetensors files without torch: the header is checked, tensors are read on demand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from uwaga.checkpoints.storage.memory import PrivateFile, PrivateTensor
from uwaga.checkpoints.storage.tensors import NUMPY, StoredTensor
from uwaga.engine.packing import Bytes
from uwaga.errors import ModelError, reason
from uwaga.files.regular import read_regular

STORED = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
"""Names of number formats in safetensors, by their names in numpy."""
LARGEST_INDEX = 1 << 26
"""Maximum bytes of an index of shards."""
SHOWN = 3
"""Maximum number of names in a message."""


def open_tensors(path: Path, sha256: str | None = None) -> dict[str, StoredTensor]:
    """Return the tensors of a file, each of which is read into private memory on demand.

    Args:
        path: the file.
        sha256: the expected checksum, None if it is not known.

    Raises:
        ModelError: the file is missing, truncated or damaged, or has an unsupported number format.
    """
    count_tensors(path)  # safetensors itself checks sizes, offsets and formats
    file = PrivateFile(path)
    if sha256 is not None and file.sha256() != sha256:
        raise ModelError(
            f"{path}: damaged: its checksum differs from that in config.json; fetch or save the model again"
        )
    size = int.from_bytes(file.part(0, 8).tobytes(), "little")
    if size > file.size - 8:
        raise damaged(path, ValueError("the file ends within its header"))
    found = {}
    for entry in _entries(path, file.part(8, size).tobytes(), file.size - 8 - size):
        tensor = PrivateTensor(file, 8 + size + entry.start, entry.shape, entry.kind)
        found[entry.name] = StoredTensor(entry.name, path, entry.format, tensor)
    return found


def tensors_of(path: Path, whole: Bytes) -> dict[str, StoredTensor]:
    """Return the tensors of a file whose bytes are in memory, without a copy.

    Raises:
        ModelError: as :func:`open_tensors`.
    """
    size = int.from_bytes(whole[:8].tobytes(), "little")
    data = whole[8 + size :]
    found = {}
    for entry in _entries(path, whole[8 : 8 + size].tobytes(), len(data)):
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


def _entries(path: Path, header: bytes, size: int) -> Iterator[_Entry]:
    try:
        values = json.loads(header)
        values.pop("__metadata__", None)
        for name, entry in values.items():
            if entry["dtype"] not in NUMPY:
                raise ModelError(f"{path}: {name!r} is stored as {entry['dtype']}, which is not supported")
            (start, end), shape = entry["data_offsets"], tuple(entry["shape"])
            kind = np.dtype(NUMPY[entry["dtype"]])
            if not 0 <= start <= end <= size or end - start != math.prod(shape) * kind.itemsize:
                raise damaged(path, ValueError(f"{name!r} is outside the file"))
            yield _Entry(name, entry["dtype"], kind, shape, start, end)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise damaged(path, error) from None


def open_shards(
    index: Path, open_file: Callable[[Path], dict[str, StoredTensor]] = open_tensors
) -> dict[str, StoredTensor]:
    """Return the tensors of all files that an index lists.

    Args:
        index: the JSON file that names the file of each tensor.
        open_file: returns the tensors of one file.

    Raises:
        ModelError: the index or a file is missing or damaged, a tensor is not in the file that the index
            states, or it is in two files.
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
    """Read the index of shards: the file of each tensor.

    Raises:
        ModelError: it is not an index of shards, or names a file of another folder.
    """
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
    """Return the numbers of tensors and of bytes of a weight file; only its header is read.

    Raises:
        ModelError: the file is missing, truncated or damaged.
    """
    return len(read_header(path)), path.stat().st_size


def read_header(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shape and number format of every tensor of a file.

    Raises:
        ModelError: the file is missing, truncated or damaged.
    """
    if not path.is_file():
        raise ModelError(f"{path}: no such file, so {path.parent} is not a complete model folder")
    try:
        with safe_open(path, framework="np") as file:
            parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            return {name: (tuple(part.get_shape()), part.get_dtype()) for name, part in parts.items()}
    except (SafetensorError, OSError) as error:
        raise damaged(path, error) from None


def check_header(path: Path, expected: Mapping[str, tuple[int, ...]], wanted: Mapping[str, str]) -> None:
    """Compare the header of ``path`` with the shapes and number formats that a model has.

    Raises:
        ModelError: a key is missing or unknown, or a shape or number format differs; names both values.
    """
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
    """Compare the shapes and number formats found in ``path`` with those that a model has.

    Raises:
        ModelError: as :func:`check_header`.
    """
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

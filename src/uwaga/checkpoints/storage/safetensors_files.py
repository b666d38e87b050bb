"""Reading and writing of safetensors files without PyTorch; tensors are read on demand.

A file (https://huggingface.co/docs/safetensors) consists of the length of the header in 8 bytes, the header
in JSON, and the data of the tensors.
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
from uwaga.checkpoints.storage.tensors import NUMPY_TYPES, StoredTensor
from uwaga.engine.packing import Bytes
from uwaga.errors import ModelError, quoted, reason
from uwaga.files.regular import read_regular

WEIGHT_FORMATS = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
"""Names of floating-point formats in safetensors, by their names in PyTorch."""
LENGTH_BYTES = 8
"""Number of bytes of the header's length field."""
MAX_HEADER_BYTES = 100_000_000
"""Maximum size of a header in bytes, as in the safetensors library."""
MAX_INDEX_BYTES = 1 << 26
"""Maximum size of an index of shards in bytes."""
MAX_NAMES = 3
"""Maximum number of weight names that a message lists."""


def open_tensors(path: Path, sha256: str | None = None) -> dict[str, StoredTensor]:
    """Return the tensors of a file, which are read into private memory on demand.

    Args:
        path: path of the file.
        sha256: the expected SHA-256, None if it is not known.
    """
    file, header = _open(path)
    if sha256 is not None and file.sha256() != sha256:
        raise ModelError(
            f"{path}: damaged: the checksum differs from that in config.json; fetch or save the model again"
        )
    tensors = {}
    for entry in header.entries:
        content = PrivateTensor(file, header.size + entry.start, entry.shape, entry.kind)
        tensors[entry.name] = StoredTensor(entry.name, path, entry.format, content)
    return tensors


def parse_tensors(path: Path, content: Bytes) -> dict[str, StoredTensor]:
    """Return the tensors of a file whose contents are in memory, without copying them."""
    header = _read_header(path, lambda start, size: content[start : start + size], len(content))
    data = content[header.size :]
    tensors = {}
    for entry in header.entries:
        part = data[entry.start : entry.end]
        if part.ctypes.data % entry.kind.itemsize:
            part = part.copy()
        values = part.view(entry.kind).reshape(entry.shape)
        tensors[entry.name] = StoredTensor(entry.name, path, entry.format, values)
    return tensors


class _Entry(NamedTuple):
    """A tensor's entry in the header; ``start`` and ``end`` are offsets from the end of the header."""

    name: str
    format: str
    kind: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    end: int


class _Header(NamedTuple):
    """A header: entries of tensors in file order, metadata, and size in bytes including the length field."""

    entries: list[_Entry]
    metadata: dict[str, str]
    size: int


def _open(path: Path) -> tuple[PrivateFile, _Header]:
    if not path.is_file():
        raise ModelError(f"{path}: no such file, so {path.parent} is not a complete model folder")
    file = PrivateFile(path)
    return file, _read_header(path, file.part, file.size)


def _read_header(path: Path, part: Callable[[int, int], Bytes], size: int) -> _Header:
    """Return the checked header of a file.

    Args:
        path: the file, for messages.
        part: function that returns bytes of the file, given their offset and number.
        size: size of the file in bytes.
    """
    if size < LENGTH_BYTES:
        raise damage_error(path, ValueError(f"it is shorter than {LENGTH_BYTES} bytes"))
    length = int.from_bytes(part(0, LENGTH_BYTES).tobytes(), "little")
    if length > MAX_HEADER_BYTES:
        raise damage_error(path, ValueError(f"its header is longer than {MAX_HEADER_BYTES} bytes"))
    if length > size - LENGTH_BYTES:
        raise damage_error(path, ValueError("it ends within its header"))
    try:
        values = json.loads(part(LENGTH_BYTES, length).tobytes(), object_pairs_hook=_reject_duplicates)
        metadata = values.pop("__metadata__", {})
        if not all(type(value) is str for value in metadata.values()):
            raise ValueError("__metadata__ in its header contains values that are not strings")
        entries = [_entry(path, name, value) for name, value in values.items()]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise damage_error(path, error) from None
    entries.sort(key=lambda entry: (entry.start, entry.end))
    end = 0
    for entry in entries:
        if entry.start != end:
            raise damage_error(
                path, ValueError(f"{quoted(entry.name)} does not begin where the previous tensor ends")
            )
        end = entry.end
    if end != size - LENGTH_BYTES - length:
        raise damage_error(
            path,
            ValueError(
                f"its tensors take {end} bytes, but it contains {size - LENGTH_BYTES - length} bytes of data"
            ),
        )
    return _Header(entries, metadata, LENGTH_BYTES + length)


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a name occurs twice in its header")
    return values


def _entry(path: Path, name: str, value: Mapping[str, Any]) -> _Entry:
    (start, end), shape, number_format = value["data_offsets"], tuple(value["shape"]), value["dtype"]
    if not all(type(number) is int and 0 <= number < 1 << 63 for number in (start, end, *shape)):
        raise ValueError(f"the shape or data_offsets of {quoted(name)} are not whole numbers")
    if number_format not in NUMPY_TYPES:
        raise ModelError(
            f"{path}: {quoted(name)} is stored as {quoted(number_format)}, which is not supported"
        )
    kind = np.dtype(NUMPY_TYPES[number_format])
    if end - start != math.prod(shape) * kind.itemsize:
        raise ValueError(f"the shape of {quoted(name)} does not match its data_offsets")
    return _Entry(name, number_format, kind, shape, start, end)


def open_shards(
    index: Path, open_file: Callable[[Path], dict[str, StoredTensor]] = open_tensors
) -> dict[str, StoredTensor]:
    """Return the tensors of the files listed in an index.

    Args:
        index: path of the JSON file that lists the file of each tensor.
        open_file: function that returns the tensors of a file.
    """
    paths = _read_index(index)
    tensors: dict[str, StoredTensor] = {}
    for path in sorted(set(paths.values())):
        file_tensors = open_file(path)
        for name in sorted(file_tensors.keys() & tensors.keys())[:1]:
            raise ModelError(
                f"{path}: {name!r} is also stored in {tensors[name].path.name}; fetch both files again"
            )
        tensors |= file_tensors
    for name, path in paths.items():
        if name not in tensors or tensors[name].path != path:
            raise ModelError(f"{path}: {name!r} is missing, but {index.name} lists it in this file")
    return tensors


def _read_index(index: Path) -> dict[str, Path]:
    """Return the path of each tensor's file, as listed in an index of shards."""
    try:
        mapping = json.loads(read_regular(index, MAX_INDEX_BYTES).decode("utf-8"))["weight_map"]
        names = {str(name): str(file) for name, file in mapping.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelError(f"{index}: not an index of weight files; fetch it again") from None
    for file in set(names.values()):
        if Path(file).name != file or file in ("", ".", ".."):
            raise ModelError(f"{index}: lists {file!r}, which is not the name of a file in this folder")
    return {name: index.parent / file for name, file in names.items()}


def count_tensors(path: Path) -> tuple[int, int]:
    """Return the number of tensors and the size of a file in bytes, reading only the header."""
    return len(read_header(path)), path.stat().st_size


def read_header(path: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shape and the number format of each tensor of a file, by name."""
    return {entry.name: (entry.shape, entry.format) for entry in _open(path)[1].entries}


def read_metadata(path: Path) -> dict[str, str]:
    """Return the metadata in the header of a file."""
    return _open(path)[1].metadata


def check_header(
    path: Path, expected_shapes: Mapping[str, tuple[int, ...]], expected_formats: Mapping[str, str]
) -> None:
    """Raise ModelError if the header of a file differs from the expected shapes and number formats."""
    header = read_header(path)
    shapes = {name: shape for name, (shape, _) in header.items()}
    formats = {name: number_format for name, (_, number_format) in header.items()}
    check_tensors(path, expected_shapes, expected_formats, shapes, formats)


def check_tensors(
    path: Path,
    expected_shapes: Mapping[str, tuple[int, ...]],
    expected_formats: Mapping[str, str],
    shapes: Mapping[str, tuple[int, ...]],
    formats: Mapping[str, str],
) -> None:
    """Raise ModelError if the shapes and number formats in a file differ from the expected ones."""
    missing_names, unknown_names = (
        sorted(set(expected_shapes) - set(shapes)),
        sorted(set(shapes) - set(expected_shapes)),
    )
    if missing_names:
        raise ModelError(
            f"{path}: the weights {_list_names(missing_names)}, which config.json requires, are missing"
        )
    if unknown_names:
        raise ModelError(
            f"{path}: contains {_list_names(unknown_names)}, which the model described in config.json "
            "does not have"
        )
    for name, shape in expected_shapes.items():
        if shapes[name] != shape:
            raise ModelError(
                f"{path}: {name!r} has shape {shapes[name]}, but config.json requires {shape}; "
                "the two files belong to different models"
            )
        if formats[name] != expected_formats[name]:
            raise ModelError(
                f"{path}: {name!r} is stored as {formats[name]}, but config.json requires "
                f"{expected_formats[name]}; the two files belong to different models"
            )


def _list_names(names: list[str]) -> str:
    suffix = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(repr(name) for name in names[:MAX_NAMES]) + suffix


def damage_error(path: Path, error: Exception) -> ModelError:
    """Return the ModelError to raise for an invalid file, given the error that occurred."""
    return ModelError(f"{path}: damaged or cut short ({reason(error)}); fetch or save the model again")


ALIGNMENT = 64
FORMAT_NAMES: Mapping[str, str] = {
    "int8": "I8",
    "uint8": "U8",
    "uint16": "U16",
    "int32": "I32",
    "float16": "F16",
    "float32": "F32",
}
"""Names of number formats in safetensors, by their names in NumPy."""


def aligned_bytes(tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return the contents of a safetensors file that keeps the order of the tensors.

    The first tensor is aligned to 64 bytes, and so is any other tensor if the sizes of all preceding
    tensors are multiples of 64. The safetensors library would reorder tensors and align them to eight bytes.

    Args:
        tensors: arrays by name.
        metadata: metadata for the header; ``transformers`` requires ``{"format": "pt"}``.
    """
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": FORMAT_NAMES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    parts = [len(text).to_bytes(8, "little"), text]
    parts += [np.ascontiguousarray(tensor).tobytes() for tensor in tensors.values()]
    return b"".join(parts)

"""``model.safetensors`` without torch: its header is checked, its tensors are read where they lie."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from uwaga.contracts import Floats
from uwaga.errors import ModelError

STORED = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
"""What safetensors calls them."""
NUMPY: Mapping[str, Any] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": np.uint16,
    "U16": np.uint16,
    "I8": np.int8,
    "I32": np.int32,
}
"""Number formats that can be read in numpy; bfloat16 as its bits."""
FLOATING = frozenset({"F64", "F32", "F16", "BF16"})

SHOWN = 3
"""Names in one message."""


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of a file: ``format`` as safetensors calls it, ``values`` a view of the mapped file."""

    format: str
    values: NDArray[Any]

    def floats(self) -> Floats:
        """Its numbers as float32; a copy unless they are stored so."""
        if self.format == "BF16":
            return (self.values.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return self.values.astype(np.float32, copy=False)


def open_tensors(path: Path, without: re.Pattern[str] | None = None) -> dict[str, StoredTensor]:
    """The tensors of a file, memory-mapped: their pages are read when they are used.

    Args:
        path: the file.
        without: names of tensors to pass over.

    Raises:
        ModelError: the file is missing, cut short or damaged, or holds a number format that is not read.
    """
    count_tensors(path)  # safetensors itself holds sizes, offsets and formats against the file
    try:
        whole = np.memmap(path, dtype=np.uint8, mode="r")
        size = int.from_bytes(whole[:8].tobytes(), "little")
        header = json.loads(whole[8 : 8 + size].tobytes())
    except (OSError, ValueError, RecursionError) as error:
        raise damaged(path, error) from None
    header.pop("__metadata__", None)
    data = whole[8 + size :]
    found = {}
    for name, entry in header.items():
        if without is not None and without.fullmatch(name):
            continue
        if entry["dtype"] not in NUMPY:
            raise ModelError(f"{path}: {name!r} is stored as {entry['dtype']}, which is not read here")
        start, end = entry["data_offsets"]
        kind = np.dtype(NUMPY[entry["dtype"]])
        if not 0 <= start <= end <= len(data) or end - start != math.prod(entry["shape"]) * kind.itemsize:
            raise damaged(path, ValueError(f"{name!r} lies outside the file"))
        part = data[start:end]
        if part.ctypes.data % kind.itemsize:
            part = part.copy()
        found[name] = StoredTensor(entry["dtype"], part.view(kind).reshape(entry["shape"]))
    return found


def count_tensors(path: Path) -> tuple[int, int]:
    """How many tensors and how many bytes the weight file holds, read from its header alone.

    Raises:
        ModelError: the file is missing, cut short or damaged.
    """
    if not path.is_file():
        raise ModelError(f"{path}: no such file, so {path.parent} is not a complete model folder")
    try:
        with safe_open(path, framework="np") as file:
            return len(file.keys()), path.stat().st_size
    except (SafetensorError, OSError) as error:
        raise damaged(path, error) from None


def check_header(path: Path, expected: Mapping[str, tuple[int, ...]], wanted: Mapping[str, str]) -> None:
    """Compare the header of ``path`` with the shapes and number formats that a model has.

    Raises:
        ModelError: a key is missing or unknown, or a shape or number format differs; names both sides.
    """
    try:
        with safe_open(path, framework="np") as file:
            found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            shapes = {name: tuple(part.get_shape()) for name, part in found.items()}
            formats = {name: part.get_dtype() for name, part in found.items()}
    except (SafetensorError, OSError) as error:
        raise damaged(path, error) from None
    _check_names(path, set(expected), set(shapes))
    for name, shape in expected.items():
        if shapes[name] != shape:
            raise ModelError(
                f"{path}: {name!r} has shape {shapes[name]}, config.json asks for {shape}; "
                "the two files are of different models"
            )
        if formats[name] != wanted[name]:
            raise ModelError(
                f"{path}: {name!r} is stored as {formats[name]}, config.json asks for {wanted[name]}; "
                "the two files are of different models"
            )


def _check_names(path: Path, expected: set[str], found: set[str]) -> None:
    missing, unknown = sorted(expected - found), sorted(found - expected)
    if missing:
        raise ModelError(f"{path}: {_some(missing)} missing, which config.json asks for")
    if unknown:
        raise ModelError(f"{path}: {_some(unknown)} unknown to the model that config.json describes")


def _some(names: list[str]) -> str:
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(repr(name) for name in names[:SHOWN]) + rest + (" is" if len(names) == 1 else " are")


def damaged(path: Path, error: Exception) -> ModelError:
    """The error to raise for a file that its library refuses."""
    return ModelError(f"{path}: damaged or cut short ({error}); fetch or save the model again")

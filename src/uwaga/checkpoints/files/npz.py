"""Arrays in a ``.npz`` file, read without trusting a size it states and without unpickling."""

from __future__ import annotations

import math
import tokenize
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from uwaga.errors import ModelError, shown
from uwaga.files.zip import Archive, open_archive

LARGEST = 1 << 36
"""Bytes of one array."""
LONGEST_HEADER = 10_000
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays by name.

    Raises:
        ModelError: missing, damaged, an array that is not as large as it says, or one of objects.
    """
    with open_archive(path, "a .npz file") as archive:
        return {name.removesuffix(".npy"): _array(path, archive, name) for name in archive.members}


def read_array_header(
    path: Path, name: str, stream: IO[bytes]
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether it is stored column by column, and number format of an array.

    Raises:
        ModelError: of an unknown format, damaged, or an array of objects.
    """
    version = npy.read_magic(stream)
    if version not in HEADERS:
        raise ModelError(f"{path}: {shown(name)} is of the unknown format {version}")
    try:
        shape, by_column, dtype = HEADERS[version](stream, LONGEST_HEADER)
    except (
        tokenize.TokenError,
        ValueError,
        TypeError,
        LookupError,
        SyntaxError,
        RuntimeError,
        AttributeError,
        MemoryError,
    ) as error:
        raise ModelError(f"{path}: {shown(name)} has a damaged header ({str(error)[:80]})") from None
    if any(type(axis) is not int or axis < 0 for axis in shape):
        raise ModelError(f"{path}: {shown(name)} has the shape {shown(shape)}")
    if dtype.hasobject:
        raise ModelError(f"{path}: {shown(name)} holds objects, not numbers; refused, nothing was executed")
    return shape, by_column, dtype


def _array(path: Path, archive: Archive, name: str) -> NDArray[Any]:
    archive.check_size(name, LARGEST)
    with archive.open(name) as stream:
        shape, by_column, dtype = read_array_header(path, name, stream)
        content = stream.read()
    size = math.prod(shape) * dtype.itemsize
    if size != len(content):
        raise ModelError(
            f"{path}: {shown(name)} of shape {shown(shape)} needs {shown(size)} bytes, but has "
            f"{len(content)}; the file is damaged"
        )
    if not dtype.itemsize:
        raise ModelError(f"{path}: {shown(name)} is of {dtype}, not numbers that are read here")
    array: NDArray[Any] = np.frombuffer(content, dtype)
    return array.reshape(shape, order="F" if by_column else "C")

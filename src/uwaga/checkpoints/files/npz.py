"""Arrays in a ``.npz`` file, read without trusting a size it states and without unpickling."""

from __future__ import annotations

import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from uwaga.errors import ModelError

MOST_ARRAYS = 100_000
DENSEST = 200
"""Bytes out of one byte in; weights give less than 10."""
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays by name.

    Raises:
        ModelError: missing, damaged, an array that is not as large as it says, or one of objects.
    """
    try:
        with zipfile.ZipFile(path) as file:
            members = file.infolist()
            if len(members) > MOST_ARRAYS:
                raise ModelError(f"{path}: {len(members)} arrays, not a model's weights")
            return {member.filename.removesuffix(".npy"): _array(path, file, member) for member in members}
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError) as error:
        raise ModelError(f"{path}: damaged or not a .npz file ({error}); fetch it again") from None


def _array(path: Path, file: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    name = member.filename
    if (
        member.file_size > DENSEST * member.compress_size + 4096
        or member.file_size > path.stat().st_size * 200
    ):
        raise ModelError(
            f"{path}: {name!r} would unpack from {member.compress_size} to {member.file_size} bytes; refused"
        )
    with file.open(member) as stream:
        version = npy.read_magic(stream)
        if version not in HEADERS:
            raise ModelError(f"{path}: {name!r} is of the unknown format {version}")
        shape, by_column, dtype = HEADERS[version](stream)
        if dtype.hasobject:
            raise ModelError(f"{path}: {name!r} holds objects, not numbers; refused, nothing was executed")
        content = stream.read()
    if math.prod(shape) * dtype.itemsize != len(content):
        raise ModelError(
            f"{path}: {name!r} of shape {shape} needs {math.prod(shape) * dtype.itemsize} bytes, but has "
            f"{len(content)}; the file is damaged"
        )
    array: NDArray[Any] = np.frombuffer(content, dtype)
    return array.reshape(shape, order="F" if by_column else "C")

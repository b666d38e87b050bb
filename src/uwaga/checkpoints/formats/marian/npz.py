"""The tensors in Marian's ``.npz`` files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from uwaga.checkpoints.formats.marian.options import SETTINGS
from uwaga.checkpoints.storage.tensors import FORMATS, StoredTensor, read_npz
from uwaga.errors import ModelError


def read_arrays(path: Path, contents: bool = True) -> tuple[dict[str, StoredTensor], dict[str, NDArray[Any]]]:
    """The weights, and the settings by their name.

    Raises:
        ModelError: missing or damaged, or a tensor that holds no numbers.
    """
    arrays = read_npz(path, None if contents else SETTINGS)
    others = {SETTINGS: arrays.pop(SETTINGS)} if SETTINGS in arrays else {}
    return {name: _stored(path, name, array) for name, array in arrays.items()}, others


def _stored(path: Path, name: str, array: NDArray[Any]) -> StoredTensor:
    kind = FORMATS.get(array.dtype.name)
    if kind is None:
        raise ModelError(f"{path}: {name!r} is of {array.dtype}, not numbers that are read here")
    return StoredTensor(name, path, kind, array)

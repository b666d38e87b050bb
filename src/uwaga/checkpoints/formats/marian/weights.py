"""Settings and weights of Marian models in ``.npz`` and binary files.

The native core, which the C library also uses, reads binary files and interprets the settings and the names
of weights (``native/checkpoints/marian_file.h``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uwaga.checkpoints.size_checks import weight_shapes
from uwaga.checkpoints.storage.memory import PrivateFile, PrivateTensor
from uwaga.checkpoints.storage.tensors import (
    FORMAT_NAMES,
    NUMPY_TYPES,
    QuantisedTensor,
    StoredTensor,
    read_npz,
)
from uwaga.checkpoints.weight_map import RowPadding, Table, View
from uwaga.engine import _core
from uwaga.errors import ModelError, printable
from uwaga.settings import AlignmentHead, TransformerSettings, parse
from uwaga.settings.yaml_text import load_yaml

SETTINGS = _core.MARIAN_SETTINGS
"""Name of the tensor that contains the settings."""
MAX_SETTINGS_BYTES = 1 << 20
"""Maximum size of the settings in bytes."""


def read_binary(path: Path) -> tuple[dict[str, StoredTensor], dict[str, NDArray[Any]]]:
    """Return the weights of a binary file and, separately, its settings tensor, both by name."""
    file = PrivateFile(path)
    weights: dict[str, StoredTensor] = {}
    other_tensors: dict[str, NDArray[Any]] = {}
    for name, number_format, shape, start, scale, transposed, weight in _core.marian_tensors(
        printable(path), file.size, file.part
    ):
        content = PrivateTensor(
            file, start, shape[::-1] if transposed else shape, np.dtype(NUMPY_TYPES[number_format])
        )
        if not weight:
            if name == SETTINGS:
                other_tensors[name] = content.read()
        elif scale is None:
            weights[name] = StoredTensor(name, path, number_format, content)
        else:
            weights[name] = QuantisedTensor(name, path, number_format, content, scale, transposed)
    return weights, other_tensors


def read_arrays(
    path: Path, with_contents: bool = True
) -> tuple[dict[str, StoredTensor], dict[str, NDArray[Any]]]:
    """Return the weights of an ``.npz`` file and, separately, its settings array, both by name."""
    arrays = read_npz(path, None if with_contents else SETTINGS)
    other_tensors = {SETTINGS: arrays.pop(SETTINGS)} if SETTINGS in arrays else {}
    return {name: _stored_tensor(path, name, array) for name, array in arrays.items()}, other_tensors


def _stored_tensor(path: Path, name: str, array: NDArray[Any]) -> StoredTensor:
    kind = FORMAT_NAMES.get(array.dtype.name)
    if kind is None:
        raise ModelError(f"{path}: {name!r} has the number format {array.dtype}, which is not supported")
    return StoredTensor(name, path, kind, array)


def parse_embedded_settings(path: Path, content: NDArray[Any] | None) -> Mapping[str, Any]:
    """Return the settings that a tensor contains as YAML text.

    Args:
        path: the file, for messages.
        content: the settings tensor, None if the file has none.
    """
    if content is None or content.itemsize != 1 or content.size > MAX_SETTINGS_BYTES:
        raise ModelError(f"{path}: contains no {SETTINGS!r}, so it was not saved by Marian")
    try:
        values = load_yaml(np.ascontiguousarray(content).tobytes().rstrip(b"\0").decode("utf-8"))
    except ValueError as error:
        raise ModelError(f"{path}: {SETTINGS!r} is not YAML: {error}") from None
    if not isinstance(values, dict) or not values:
        raise ModelError(f"{path}: {SETTINGS!r} is not a YAML mapping")
    return values


def model_settings(path: Path, options: Mapping[str, Any]) -> tuple[TransformerSettings, AlignmentHead]:
    """Return the settings of the model, and the attention head that was trained with guided alignment."""
    location = _location(path)
    model, layer = _core.marian_settings(location, json_text(options))
    return parse(TransformerSettings, json.loads(model), location), AlignmentHead(layer=layer, head=1)


def weight_table(
    path: Path, sizes: tuple[int, int], settings: TransformerSettings, tensors: Mapping[str, StoredTensor]
) -> Table:
    """Return the table that maps weights to the tensors of the file.

    Args:
        path: the weight file, for messages.
        sizes: number of source and of target pieces, without padding.
        settings: settings of the model.
        tensors: the tensors of the file.
    """
    locations = _core.marian_names(
        _location(path),
        settings.model_dump_json(),
        *sizes,
        _core.MARIAN_OUTPUT_ROWS in tensors,
        list(weight_shapes(settings, *sizes)),
    )
    weights: dict[str, tuple[View, ...]] = {}
    padding: dict[str, RowPadding] = {}
    for weight, (names, transposed, rows, value, _) in locations.items():
        weights[weight] = tuple(View(name, transposed) for name in names)
        if rows:
            padding[weight] = RowPadding(rows, value)
    optional = [weight for weight, (*_, is_optional) in locations.items() if is_optional]
    return Table(weights, optional=optional, padding=padding, origin=SETTINGS)


def json_text(options: object) -> str:
    """Return settings as JSON; values that JSON cannot represent become strings."""
    text = json.dumps(options, default=str, skipkeys=True)
    return json.dumps(json.loads(text, parse_constant=str))


def _location(path: Path) -> str:
    return f"{printable(path)} ({SETTINGS})"

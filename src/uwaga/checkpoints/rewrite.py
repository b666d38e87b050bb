"""Copying of model folders with new weights in the same format. Does not import torch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uwaga.checkpoints.alignment_head import HEAD_FILE, head_bytes
from uwaga.checkpoints.card import CARD, README
from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.checkpoints.formats.uwaga.names import CONFIG, FILES, WEIGHTS
from uwaga.checkpoints.registry import HUGGING_FACE, UWAGA
from uwaga.checkpoints.storage.json_file import read_mapping
from uwaga.checkpoints.storage.safetensors_files import aligned_bytes
from uwaga.checkpoints.storage.tensors import StoredTensor
from uwaga.checkpoints.weight_map import View, Weights
from uwaga.errors import ModelError
from uwaga.files.atomic import write_folder
from uwaga.results.attention import Floats

WeightReader = Callable[[str], Floats]
"""Type of functions that return a weight, given its name in uwaga."""
REWRITABLE_FORMATS = (UWAGA.name, HUGGING_FACE.name)


def can_rewrite(checkpoint: Checkpoint) -> bool:
    """Return True if :func:`rewrite` can write models of this format."""
    return checkpoint.format in REWRITABLE_FORMATS and checkpoint.weights is not None


def rewrite(
    checkpoint: Checkpoint, folder: Path, read: WeightReader, card: str, half_precision: bool = False
) -> None:
    """Write a copy of a model folder with other weights and another card, atomically.

    Args:
        checkpoint: the model, in one of :data:`REWRITABLE_FORMATS`.
        folder: the folder to create; an existing model folder of the same format is replaced.
        read: function that returns the new weight for a name, with the shape of the old weight; it is called
            once for tied weights.
        card: the model card in Markdown.
        half_precision: True to store the weights in float16 instead of float32.
    """
    weights = checkpoint.weights
    if not can_rewrite(checkpoint) or weights is None:
        raise ModelError(
            f"{checkpoint.path}: models in the format {checkpoint.format} cannot be written; convert the "
            "model first: `uwaga convert MODEL FOLDER --to marian`"
        )
    is_uwaga = checkpoint.format == UWAGA.name
    names = FILES if is_uwaga else {*HUGGING_FACE.files.auxiliary} - {README}
    auxiliary = {path.name: path.read_bytes() for path in checkpoint.path.iterdir() if path.name in names}
    _check_replaceable(folder, {*auxiliary, WEIGHTS, CARD, HEAD_FILE})
    content = aligned_bytes(stored_tensors(weights, read, half_precision), {"format": "pt"})
    files = auxiliary | {WEIGHTS: content, CARD: card.encode()}
    if checkpoint.alignment_head is not None:
        files[HEAD_FILE] = head_bytes(checkpoint.alignment_head)
    if is_uwaga:
        files[CONFIG] = _config_bytes(checkpoint, content, half_precision)
    write_folder(folder, files)


def stored_tensors(weights: Weights, read: WeightReader, half_precision: bool) -> dict[str, NDArray[Any]]:
    """Return the tensors to store for new weights, in the layout of the original file.

    Args:
        weights: the model's weights, whose table determines the layout.
        read: function that returns the new weight for a name.
        half_precision: True for float16 instead of float32.
    """
    dtype = np.float16 if half_precision else np.float32
    tensors: dict[str, Floats] = {}
    for name in weights.shapes:
        values = read(name)
        if not np.isfinite(values.astype(dtype)).all():
            raise ModelError(
                f"weight {name!r} contains numbers that are not finite in {np.dtype(dtype).name}; the model "
                "was not saved"
            )
        padding, views = weights.table.padding.get(name), weights.table.weights[name]
        parts = np.split(values if padding is None else values[: padding.rows], len(views))
        for view, part in zip(views, parts, strict=True):
            if view.name in weights.tensors:
                _write_view(tensors, view, part, weights.tensors[view.name])
    arrays: dict[str, NDArray[Any]] = {}
    for name, tensor in weights.tensors.items():
        if tensor.name != name:
            continue  # an alias
        new_tensor = tensors.get(weights.table.aliases.get(name, name))
        if new_tensor is None and name not in weights.table.unused:
            new_tensor = tensor.floats()  # such as sinusoids
        if new_tensor is not None:
            arrays[name] = np.ascontiguousarray(new_tensor, dtype=dtype)
    return arrays


def _write_view(tensors: dict[str, Floats], view: View, values: Floats, stored_tensor: StoredTensor) -> None:
    """Copy a weight, or a part of a weight, into the tensor in which it is stored."""
    tensor = tensors.setdefault(view.name, np.zeros(stored_tensor.shape, dtype=np.float32))
    target = tensor.T if view.transposed else tensor
    rows = len(target) // view.parts if view.parts > 1 else 0
    if view.parts > 1:
        target[view.first * rows : view.last * rows] = values
    else:
        target[...] = values.reshape(target.shape)


def _config_bytes(checkpoint: Checkpoint, content: bytes, half_precision: bool) -> bytes:
    """Return the contents of ``config.json`` for new weights, without score statistics."""
    values = read_mapping(checkpoint.path / CONFIG)
    values["weights"] = "float16" if half_precision else "float32"
    values["sha256"] = hashlib.sha256(content).hexdigest()
    values.pop("usual_score", None)
    return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()


def _check_replaceable(folder: Path, names: set[str]) -> None:
    if folder.exists() and not folder.is_dir():
        raise ModelError(f"{folder}: is a file; give another folder")
    unexpected_names = sorted({path.name for path in folder.iterdir()} - names) if folder.is_dir() else []
    if unexpected_names:
        raise ModelError(
            f"{folder}: contains {unexpected_names[0]!r}, which is not part of a model, so the folder is "
            "not overwritten; give the model another folder or empty this one"
        )

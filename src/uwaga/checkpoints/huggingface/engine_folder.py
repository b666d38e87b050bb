"""Marian and GPT-2 folders for the native engine, read without torch by the same tables of names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from uwaga.checkpoints.files.safetensors_read import FLOATING, StoredTensor, open_tensors
from uwaga.checkpoints.huggingface.config import search_options
from uwaga.checkpoints.huggingface.recipe import Recipe
from uwaga.checkpoints.uwaga.schema import WEIGHTS
from uwaga.checkpoints.weight_map import CLOSE, SHOWN, Table
from uwaga.contracts import Floats
from uwaga.decoding import SearchOptions
from uwaga.engine.layout import stored_shapes
from uwaga.engine.positions import sinusoids
from uwaga.errors import ModelError
from uwaga.settings import EncoderOnlySettings, TransformerSettings

POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


@dataclass(frozen=True)
class ForeignFolder:
    """Another library's folder understood for the engine; ``read`` gives a weight by our name for it."""

    recipe: Recipe
    options: SearchOptions
    table: Table
    tensors: Mapping[str, StoredTensor]

    def read(self, name: str) -> Floats:
        """A weight in float32: the stored ones put one below the other, or zeros where none need be."""
        parts = self.table.weights[name]
        if parts[0] not in self.tensors:
            return np.zeros(_shapes(self.recipe)[name], dtype=np.float32)
        whole = [self.tensors[part].floats() for part in parts]
        return (whole[0] if len(whole) == 1 else np.concatenate(whole)).reshape(_shapes(self.recipe)[name])


def open_foreign(folder: Path, config: Mapping[str, Any]) -> ForeignFolder | None:
    """Map a Marian or GPT-2 folder, or None where only torch reads it: other families, older files, shards,
    a Marian with its own positions.

    Raises:
        ModelError: as :func:`uwaga.checkpoints.huggingface.registry.load_pretrained`.
    """
    path = folder / WEIGHTS
    read = READERS.get(str(config.get("model_type")))
    if read is None or not path.is_file():
        return None
    recipe, stored = read(folder, config)
    options = search_options(folder, config, recipe.unstated)
    # The table asks a model for its settings, and for the sinusoids that a file may hold too.
    table = recipe.table(
        SimpleNamespace(settings=recipe.settings, source_positions=None, target_positions=None)
    )
    tensors = _resolved(path, recipe, table, stored)
    if tensors is None:
        return None
    found = ForeignFolder(recipe, options, table, tensors)
    _check_shapes(path, found)
    return found


def _marian(folder: Path, config: Mapping[str, Any]) -> tuple[Recipe, dict[str, StoredTensor]]:
    from uwaga.checkpoints.huggingface.marian import marian

    return marian(folder, config), open_tensors(folder / WEIGHTS)


def _gpt2(folder: Path, config: Mapping[str, Any]) -> tuple[Recipe, dict[str, StoredTensor]]:
    from uwaga.checkpoints.huggingface.gpt2 import MASKS, gpt2, parts_of

    path = folder / WEIGHTS
    recipe = gpt2(folder, config)
    stored = {
        short: StoredTensor(tensor.format, part)
        for name, tensor in open_tensors(path, MASKS).items()
        for short, part in parts_of(name, tensor.values, path).items()
    }
    return recipe, stored


READERS = {"gpt2": _gpt2, "marian": _marian}
"""By ``model_type``: a folder's recipe, and its tensors by the names that the recipe's table uses."""


def _resolved(
    path: Path, recipe: Recipe, table: Table, stored: Mapping[str, StoredTensor]
) -> dict[str, StoredTensor] | None:
    """The stored tensors by the names that the table uses; copies and constants are checked and dropped.

    None where the positions are not the family's sinusoids: such a model is read as one with learned ones.
    """
    tensors = {name: tensor for name, tensor in stored.items() if name not in table.unused}
    for name in POSITIONS:
        found = tensors.pop(name, None)
        if found is None:
            continue
        assert isinstance(recipe.settings, TransformerSettings)
        wanted = sinusoids(recipe.settings)
        if found.values.shape != wanted.shape or not np.allclose(found.floats(), wanted, atol=CLOSE):
            return None
    for alias, name in table.same.items():
        copy = tensors.pop(alias, None)
        if copy is None:
            continue
        first = tensors.setdefault(name, copy)
        if first is not copy and not np.array_equal(first.values, copy.values):
            raise ModelError(f"{path}: {alias!r} and {name!r} differ, but config.json ties them")
    needed = {name for names in table.weights.values() for name in names}
    spare = {table.weights[name][0] for name in table.zero}
    for names, what in (
        (sorted(needed - set(tensors) - spare), "missing, which config.json asks for"),
        (sorted(set(tensors) - needed), "unknown to this family"),
    ):
        if names:
            rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            raise ModelError(f"{path.parent}: weights {', '.join(map(repr, names[:SHOWN]))}{rest}: {what}")
    return tensors


def _check_shapes(path: Path, found: ForeignFolder) -> None:
    for ours, shape in _shapes(found.recipe).items():
        names = found.table.weights[ours]
        for name in names:
            if name not in found.tensors:
                continue  # a weight that is zero where it is not stored
            wanted = (shape[0] // len(names), *shape[1:])
            there = found.tensors[name].values.shape
            if found.tensors[name].format not in FLOATING:
                raise ModelError(
                    f"{path}: {name!r} is stored as {found.tensors[name].format}, which are no weights"
                )
            if there != wanted and not (len(shape) == 1 and there == (1, *wanted)):
                raise ModelError(
                    f"{path}: {name!r} has shape {there}, config.json asks for {wanted}; "
                    "the files are of different models"
                )


def _shapes(recipe: Recipe) -> dict[str, tuple[int, ...]]:
    assert not isinstance(recipe.settings, EncoderOnlySettings)
    return stored_shapes(recipe.settings, recipe.source_vocabulary, recipe.target_vocabulary)

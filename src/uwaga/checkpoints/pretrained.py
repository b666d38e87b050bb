"""Model folders in Hugging Face's format: settings, weights and tokenisers of the families we know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from uwaga.checkpoints.foreign import read_mapping, search_options
from uwaga.checkpoints.initialisation import Undrawn
from uwaga.checkpoints.marian import marian
from uwaga.checkpoints.recipe import Family, Recipe
from uwaga.checkpoints.schema import CONFIG, FORMAT, Dtype
from uwaga.checkpoints.table import fill
from uwaga.checkpoints.tensors import read_tensors
from uwaga.checkpoints.weights import DTYPES
from uwaga.decoding import SearchOptions
from uwaga.errors import ModelError
from uwaga.models.base import Seq2Seq
from uwaga.text.subwords import Subwords

FAMILIES: Mapping[str, Family] = {"marian": marian}
"""Encoder–decoders, by ``model_type``."""


@dataclass(frozen=True)
class Pretrained:
    """A pretrained model with all that is needed to translate; ``options`` are its decoding defaults."""

    model: Seq2Seq
    source: Subwords
    target: Subwords
    options: SearchOptions
    languages: tuple[str, str]


def family_of(folder: Path) -> str | None:
    """The ``model_type`` that another library's ``config.json`` names, None where it is none."""
    try:
        values = read_mapping(folder / CONFIG)
    except ModelError:
        return None
    name = values.get("model_type")
    return name if values.get("format") != FORMAT and isinstance(name, str) else None


def is_pretrained(folder: Path) -> bool:
    """Whether the folder's ``config.json`` is another library's."""
    return family_of(folder) is not None


def load_pretrained(folder: Path, device: str = "cpu", dtype: Dtype = "float32") -> Pretrained:
    """Load an encoder–decoder from a folder in Hugging Face's format.

    Args:
        folder: the folder.
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        dtype: number format to compute in.

    Raises:
        ModelError: an unknown family, a feature that uwaga lacks, a missing, damaged or unsafe file, a
            weight that is missing, unknown or of another shape, a vocabulary of another size.
    """
    recipe, model, options = _loaded(folder, FAMILIES, device, dtype)
    assert isinstance(model, Seq2Seq)
    return Pretrained(model, recipe.source, recipe.target, options, recipe.languages)


def _loaded(
    folder: Path, families: Mapping[str, Family], device: str, dtype: Dtype
) -> tuple[Recipe, nn.Module, SearchOptions]:
    config = read_mapping(folder / CONFIG)
    name = config.get("model_type")
    if not isinstance(name, str) or name not in families:
        raise ModelError(
            f"{folder / CONFIG}: the family {name!r} is unknown; uwaga runs {', '.join(sorted(families))}"
        )
    recipe = families[name](folder, config)
    options = search_options(folder, config, recipe.unstated)
    stored = recipe.prepare(read_tensors(folder))
    with Undrawn():
        model = recipe.build(recipe, stored)
    fill(model, recipe.table(model), stored)
    model.eval()
    try:
        model.to(device=device, dtype=DTYPES[dtype])
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"{folder}: cannot be put on device {device!r}: {error}") from None
    return recipe, model, options

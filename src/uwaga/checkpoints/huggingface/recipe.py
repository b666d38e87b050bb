"""What a family's file makes of a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uwaga.checkpoints.weight_map import Table
from uwaga.settings import DecoderOnlySettings, EncoderOnlySettings, TransformerSettings
from uwaga.text.subwords import Subwords

if TYPE_CHECKING:
    from torch import nn

    from uwaga.checkpoints.files.torch_files import Tensors


def encoder_decoder(recipe: Recipe, stored: Tensors) -> nn.Module:
    """The Transformer of a recipe's settings."""
    from uwaga.models.transformer import Transformer

    assert isinstance(recipe.settings, TransformerSettings)
    return Transformer(
        recipe.settings, recipe.target.symbols, recipe.source_vocabulary, recipe.target_vocabulary
    )


def as_they_are(stored: Tensors) -> Tensors:
    """The stored tensors under their own names."""
    return stored


@dataclass(frozen=True)
class Recipe:
    """A folder understood: how to build its model, and where each weight is stored.

    ``table`` takes the model that ``build`` made. ``prepare`` gives stored tensors the names that the table
    uses, before anything is built. ``unstated`` are generation settings to take where the folder has none.
    """

    settings: TransformerSettings | DecoderOnlySettings | EncoderOnlySettings
    source_vocabulary: int
    target_vocabulary: int
    source: Subwords
    target: Subwords
    table: Callable[[Any], Table]
    languages: tuple[str, str] = ("src", "tgt")
    build: Callable[[Recipe, Tensors], nn.Module] = encoder_decoder
    prepare: Callable[[Tensors], Tensors] = as_they_are
    unstated: Mapping[str, Any] = field(default_factory=dict)


Family = Callable[[Path, Mapping[str, Any]], Recipe]
"""From a folder and its ``config.json`` to what they mean; raises ModelError."""

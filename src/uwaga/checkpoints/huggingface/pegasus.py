"""Pegasus (Zhang et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from uwaga.checkpoints.huggingface.marian import (
    has_marian_tokenisers,
    languages_of,
    marian_tokenisers,
    with_own_positions,
)
from uwaga.checkpoints.huggingface.recipe import Recipe
from uwaga.checkpoints.huggingface.seq2seq_family import Kind, recipe
from uwaga.text.pretrained import read_pegasus_tokeniser

START = 0

PEGASUS = Kind(
    settings={"norm": "pre", "positions": "sinusoidal", "sinusoids": "halves"},
    lacking={
        "normalize_before": (True,),
        "normalize_embedding": (False,),
        "add_final_layer_norm": (True,),
        "add_bias_logits": (False,),
        "static_position_embeddings": (True,),
    },
    tokenisers=read_pegasus_tokeniser,
    end=1,
    pad=0,
)


def pegasus(folder: Path, config: Mapping[str, Any]) -> Recipe:
    """Understand a Pegasus folder; see :data:`uwaga.checkpoints.huggingface.recipe.Family`."""
    if not has_marian_tokenisers(folder):
        return recipe(PEGASUS, folder, config, START)
    # As `uwaga convert --to pegasus` writes it: this layout with Marian's tokenisers.
    made = recipe(replace(PEGASUS, tokenisers=marian_tokenisers), folder, config)
    return replace(made, languages=languages_of(folder), build=with_own_positions)

"""BART (Lewis et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uwaga.checkpoints.huggingface.recipe import Recipe
from uwaga.checkpoints.huggingface.seq2seq_family import Kind, recipe
from uwaga.text.pretrained import read_bart_tokeniser

OFFSET = 2
"""Rows of the position table that no token uses."""

START = 2

BART = Kind(
    settings={"norm": "post", "positions": "learned", "position_offset": OFFSET, "embedding_norm": True},
    lacking={
        "normalize_before": (False,),
        "normalize_embedding": (True,),
        "add_final_layer_norm": (False,),
        "add_bias_logits": (False,),
        "static_position_embeddings": (False,),
    },
    tokenisers=read_bart_tokeniser,
)


def bart(folder: Path, config: Mapping[str, Any]) -> Recipe:
    """Understand a BART folder; see :data:`uwaga.checkpoints.huggingface.recipe.Family`."""
    return recipe(BART, folder, config, START)

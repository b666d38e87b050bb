"""mBART of 25 languages (Liu et al. 2020) and mBART-50 (Tang et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uwaga.checkpoints.huggingface.bart import OFFSET
from uwaga.checkpoints.huggingface.recipe import Recipe
from uwaga.checkpoints.huggingface.seq2seq_family import Kind, recipe
from uwaga.text.multilingual import read_mbart_tokeniser

MBART = Kind(
    settings={"norm": "pre", "positions": "learned", "position_offset": OFFSET, "embedding_norm": True},
    lacking={
        "normalize_before": (True,),
        "normalize_embedding": (True,),
        "add_final_layer_norm": (True,),
        "add_bias_logits": (False,),
        "static_position_embeddings": (False,),
    },
    tokenisers=read_mbart_tokeniser,
)


def mbart(folder: Path, config: Mapping[str, Any]) -> Recipe:
    """Understand an mBART folder; see :data:`uwaga.checkpoints.huggingface.recipe.Family`.

    With 25 languages decoding starts from the target language's token, with 50 from the end symbol, and
    the language's token comes first.
    """
    return recipe(MBART, folder, config)

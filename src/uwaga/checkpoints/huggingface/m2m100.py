"""M2M-100 (Fan et al. 2020) and NLLB-200 (Costa-jussà et al. 2022), which has the same form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from uwaga.checkpoints.huggingface import seq2seq_layout as fairseq
from uwaga.checkpoints.huggingface.config import ConfigReader, read_mapping
from uwaga.checkpoints.huggingface.recipe import Recipe
from uwaga.checkpoints.huggingface.seq2seq_family import Kind, recipe
from uwaga.checkpoints.weight_map import Table
from uwaga.models.transformer import Transformer
from uwaga.nn.positions import sinusoids
from uwaga.text.multilingual import read_m2m100_tokeniser, read_nllb_tokeniser

START, PAD = 2, 1
SPARE = 2
"""Rows that a stored position table has beyond the model's length."""


def m2m100(folder: Path, config: Mapping[str, Any]) -> Recipe:
    """Understand an M2M-100 or NLLB-200 folder; see :data:`uwaga.checkpoints.huggingface.recipe.Family`.

    Positions count from the padding symbol's id on: the first token has the position after it.
    """
    pad = ConfigReader(folder, config).whole("pad_token_id", PAD)
    kind = Kind(
        settings={
            "norm": "pre",
            "positions": "sinusoidal",
            "sinusoids": "tensor2tensor",
            "position_offset": pad + 1,
            "output_bias": False,
        },
        lacking={},
        tokenisers=read_nllb_tokeniser if is_nllb(folder, config) else read_m2m100_tokeniser,
        activation="relu",
        scaled=True,
        pad=PAD,
        forces_end=False,
        table=table,
    )
    return recipe(kind, folder, config, START)


def is_nllb(folder: Path, config: Mapping[str, Any]) -> bool:
    """Whether the folder's tokeniser is NLLB's: as it says itself, or by the files that it has."""
    path = folder / "tokenizer_config.json"
    for values in (read_mapping(path) if path.exists() else {}, config):
        name = str(values.get("tokenizer_class") or "").lower()
        if name.startswith(("nllb", "m2m100")):
            return name.startswith("nllb")
    return not (folder / "vocab.json").exists()


def table(model: Transformer, shared: bool) -> Table:
    """Where each weight is stored; early files hold the positions too, under a name of their own."""
    made = fairseq.table(model, shared)
    settings = model.settings
    rows = sinusoids(settings.max_length + SPARE, settings.width, settings.sinusoids)
    rows[settings.position_offset - 1] = 0.0  # the padding symbol's
    return replace(made, constant={f"{name}s": rows for name in fairseq.POSITIONS})

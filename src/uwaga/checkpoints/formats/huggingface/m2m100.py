"""M2M-100 (Fan et al. 2020) and NLLB-200 (Costa-jussà et al. 2022), which has the same form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from uwaga.checkpoints.formats.huggingface import seq2seq_layout as layout
from uwaga.checkpoints.formats.huggingface.folder import FamilyModel, HuggingFaceFolder
from uwaga.checkpoints.formats.huggingface.seq2seq_family import (
    Traits,
    read_seq2seq,
)
from uwaga.checkpoints.storage.json_file import read_optional
from uwaga.checkpoints.weight_map import Table
from uwaga.engine.layout import sinusoids
from uwaga.results.attention import Floats
from uwaga.settings import TransformerSettings
from uwaga.tokenizers.multilingual import read_m2m100_tokeniser, read_nllb_tokeniser
from uwaga.tokenizers.pretrained import Sides, TokenIds

START, PAD = 2, 1
SPARE = 2
"""Rows that a stored position table has beyond the model's length."""


def read_m2m100(folder: HuggingFaceFolder) -> FamilyModel:
    """Understand a folder of either; see :data:`uwaga.checkpoints.formats.huggingface.folder.FamilyReader`.

    Positions count from the padding symbol's id on: the first token has the position after it.
    """
    traits = Traits(
        settings={
            "norm": "pre",
            "positions": "sinusoidal",
            "sinusoids": "tensor2tensor",
            "position_offset": folder.reader.whole("pad_token_id", PAD) + 1,
            "output_bias": False,
        },
        unsupported={},
        tokenisers=_tokenisers(folder),
        activation="relu",
        scaled=True,
        start=START,
        pad=PAD,
        forces_end=False,
        table=table,
    )
    return read_seq2seq(traits, folder)


def is_nllb(folder: HuggingFaceFolder) -> bool:
    """Whether the folder's tokeniser is NLLB's: as it says itself, or by the files that it has."""
    for values in (read_optional(folder.path / "tokenizer_config.json"), folder.config):
        name = str(values.get("tokenizer_class") or "").lower()
        if name.startswith(("nllb", "m2m100")):
            return name.startswith("nllb")
    return not (folder.path / "vocab.json").exists()


def table(settings: TransformerSettings, shared: bool) -> Table:
    """Where each weight is stored; early files hold the positions too, under a name of their own."""

    def rows() -> Floats:
        whole = {"max_length": settings.max_length + SPARE, "position_offset": 0}
        found = sinusoids(settings.model_copy(update=whole))
        found[settings.position_offset - 1] = 0.0  # the padding symbol's
        return found

    shape = (settings.max_length + SPARE, settings.width)
    constant = {f"{name}s": (shape, rows) for name in layout.POSITIONS}
    return replace(layout.table(settings, shared), constant=constant)


def _tokenisers(folder: HuggingFaceFolder) -> Callable[[Path, TokenIds], Sides]:
    return read_nllb_tokeniser if is_nllb(folder) else read_m2m100_tokeniser

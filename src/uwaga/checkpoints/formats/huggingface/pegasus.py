"""Pegasus (Zhang et al. 2020)."""

from __future__ import annotations

from dataclasses import replace

from uwaga.checkpoints.formats.huggingface.folder import FamilyModel, HuggingFaceFolder
from uwaga.checkpoints.formats.huggingface.marian import (
    has_marian_tokenisers,
    languages_of,
    marian_tokenisers,
)
from uwaga.checkpoints.formats.huggingface.seq2seq_family import Traits, read_seq2seq
from uwaga.tokenizers.pretrained import read_pegasus_tokeniser

TRAITS = Traits(
    settings={"norm": "pre", "positions": "sinusoidal", "sinusoids": "halves"},
    unsupported={
        "normalize_before": (True,),
        "normalize_embedding": (False,),
        "add_final_layer_norm": (True,),
        "add_bias_logits": (False,),
        "static_position_embeddings": (True,),
    },
    tokenisers=read_pegasus_tokeniser,
    start=0,
    end=1,
    pad=0,
)


def read_pegasus(folder: HuggingFaceFolder) -> FamilyModel:
    """Understand a Pegasus folder; see :data:`uwaga.checkpoints.formats.huggingface.folder.FamilyReader`."""
    if not has_marian_tokenisers(folder.path):
        return read_seq2seq(TRAITS, folder)
    # As `uwaga convert --to pegasus` writes it: this layout with Marian's tokenisers.
    traits = replace(TRAITS, tokenisers=marian_tokenisers, start=None, own_positions=True)
    return replace(read_seq2seq(traits, folder), languages=languages_of(folder.path))

"""BART (Lewis et al. 2019)."""

from __future__ import annotations

from uwaga.checkpoints.formats.huggingface.folder import FamilyModel, HuggingFaceFolder
from uwaga.checkpoints.formats.huggingface.seq2seq_family import Traits, read_seq2seq
from uwaga.tokenizers.pretrained import read_bart_tokeniser

OFFSET = 2
"""Rows of the position table that no token uses."""

TRAITS = Traits(
    settings={"norm": "post", "positions": "learned", "position_offset": OFFSET, "embedding_norm": True},
    unsupported={
        "normalize_before": (False,),
        "normalize_embedding": (True,),
        "add_final_layer_norm": (False,),
        "add_bias_logits": (False,),
        "static_position_embeddings": (False,),
    },
    tokenisers=read_bart_tokeniser,
    start=2,
)


def read_bart(folder: HuggingFaceFolder) -> FamilyModel:
    """Understand a BART folder; see :data:`uwaga.checkpoints.formats.huggingface.folder.FamilyReader`."""
    return read_seq2seq(TRAITS, folder)

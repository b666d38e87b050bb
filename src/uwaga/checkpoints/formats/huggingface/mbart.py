"""mBART of 25 languages (Liu et al. 2020) and mBART-50 (Tang et al. 2020)."""

from __future__ import annotations

from uwaga.checkpoints.formats.huggingface.bart import OFFSET
from uwaga.checkpoints.formats.huggingface.folder import FamilyModel, HuggingFaceFolder
from uwaga.checkpoints.formats.huggingface.seq2seq_family import (
    Traits,
    read_seq2seq,
)
from uwaga.tokenizers.multilingual import read_mbart_tokeniser

TRAITS = Traits(
    settings={"norm": "pre", "positions": "learned", "position_offset": OFFSET, "embedding_norm": True},
    unsupported={
        "normalize_before": (True,),
        "normalize_embedding": (True,),
        "add_final_layer_norm": (True,),
        "add_bias_logits": (False,),
        "static_position_embeddings": (False,),
    },
    tokenisers=read_mbart_tokeniser,
)


def read_mbart(folder: HuggingFaceFolder) -> FamilyModel:
    """Understand an mBART folder; see :data:`uwaga.checkpoints.formats.huggingface.folder.FamilyReader`.

    With 25 languages decoding starts from the target language's token, with 50 from the end symbol, and
    the language's token comes first.
    """
    return read_seq2seq(TRAITS, folder)

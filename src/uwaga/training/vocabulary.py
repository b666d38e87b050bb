"""A model's embeddings for a new vocabulary."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from uwaga.errors import SettingsError
from uwaga.models.base import Seq2Seq
from uwaga.models.build import build_model
from uwaga.settings import ModelSettings, TransformerSettings
from uwaga.tokenizers.subwords import TrainingSubwords
from uwaga.tokenizers.tokeniser import Tokeniser

SPACE = "\u2581"
Sides = tuple[TrainingSubwords, TrainingSubwords]


def with_vocabulary(
    model: Seq2Seq, settings: ModelSettings, old: Sides, new: tuple[Tokeniser, Tokeniser]
) -> Seq2Seq:
    """The model for other subwords, all but its vocabularies as it was.

    Args:
        model: a Transformer.
        settings: of it.
        old: its tokenisers, source and target.
        new: those that it is to have.

    Raises:
        SettingsError: it is no Transformer, or shares tables that two vocabularies cannot share.
    """
    if not isinstance(settings, TransformerSettings):
        raise SettingsError(
            f"adapt.vocabulary: new vocabularies are for Transformers, not the family {settings.family!r}"
        )
    if settings.tie in ("all", "embeddings") and new[0].model_bytes != new[1].model_bytes:
        raise SettingsError(
            f"text.joint: the model named by init shares its embeddings (tie: {settings.tie}), so both sides "
            "must share one vocabulary; set text.joint: true"
        )
    made = build_model(settings, new[1].symbols, new[0].size, new[1].size)
    weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
    tied = {"all": ("source_embedding.weight", "output_weight"), "embeddings": ("source_embedding.weight",)}
    both = tied.get(settings.tie, ())
    for name, side in (
        ("source_embedding.weight", 0),
        ("target_embedding.weight", 1),
        ("output_weight", 1),
        ("output_bias", 1),
    ):
        if name in weights:
            shared = bool(both) and (settings.tie == "all" or name != "output_weight")
            sources = old if shared and weights[name].dim() == 2 else (old[side],)
            weights[name] = remapped(weights[name], sources, new[side])
    made.load_state_dict(weights)
    return made


def remapped(table: Tensor, old: Sequence[TrainingSubwords], new: Tokeniser) -> Tensor:
    """Rows of a table for other pieces.

    A piece that the old vocabulary has keeps its row, and so do the special symbols. Any other gets the mean
    of the rows of those that an old tokeniser makes of it, the one that makes fewest.

    Args:
        table: (old vocabulary, ...).
        old: tokenisers of that vocabulary, those of both sides where they share it.
        new: the other vocabulary.

    Returns:
        (new vocabulary, ...).
    """
    known = {piece: number for number, piece in reversed(list(enumerate(old[0].pieces(range(len(table))))))}
    symbols, wanted = old[0].symbols, new.symbols
    special = {getattr(wanted, one): getattr(symbols, one) for one in ("start", "end", "pad", "unknown")}
    whole = table.mean(0)
    rows = []
    for number, piece in enumerate(new.pieces(range(new.size))):
        if number in special:
            rows.append(table[special[number]])
        elif piece in known:
            rows.append(table[known[piece]])
        else:
            parts = min((_parts(one, piece) for one in old), key=lambda ids: (not ids, len(ids)))
            rows.append(table[parts].mean(0) if parts else whole)
    return torch.stack(rows)


def _parts(tokeniser: TrainingSubwords, piece: str) -> list[int]:
    """What an old tokeniser makes of a new piece."""
    if isinstance(tokeniser, Tokeniser):
        return tokeniser.encode_piece(piece)
    unknown, end = tokeniser.symbols.unknown, tokeniser.symbols.end
    ids = [token for token in tokeniser.encode(piece.replace(SPACE, " ")) if token not in (unknown, end)]
    if not piece.startswith(SPACE) and ids and tokeniser.pieces(ids[:1]) == [SPACE]:
        ids = ids[1:]  # the space that it puts before every text
    return ids

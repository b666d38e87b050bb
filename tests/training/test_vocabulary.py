"""Embeddings for a new vocabulary: shared pieces keep theirs, new ones get the mean of their parts."""

from __future__ import annotations

from pathlib import Path

import tiny_models as tiny
import torch

from uwaga.settings import TextSettings
from uwaga.tokenizers.training import train_tokeniser
from uwaga.training.initial_model import remapped


def test_shared_pieces_keep_their_rows_and_new_ones_get_means(tmp_path: Path) -> None:
    old = tiny.tokeniser()
    new = train_tokeniser(tiny.GERMAN * 2, TextSettings(kind="bpe", size=400), tmp_path / "new")
    table = torch.randn(old.size, 5)
    rows = remapped(table, (old,), new)
    assert rows.shape == (new.size, 5)
    known = {piece: number for number, piece in enumerate(old.pieces(range(old.size)))}
    shared = made = 0
    for number, piece in enumerate(new.pieces(range(new.size))):
        if piece in known:
            shared += 1
            assert torch.equal(rows[number], table[known[piece]])
            continue
        parts = old.encode_piece(piece)
        assert "".join(old.pieces(parts)) == piece  # nothing is put before it
        torch.testing.assert_close(rows[number], table[parts].mean(0))
        made += 1
    assert shared > 100 and made > 20
    assert torch.equal(remapped(table, (old,), old), table)

"""Embeddings for a new vocabulary: those of shared pieces are kept, new ones are means of old ones."""

import tiny_models as tiny
import torch

from uwaga.settings import TextSettings
from uwaga.tokenizers.training import train_tokeniser
from uwaga.training.initial_model import remap_rows


def test_new_vocabulary_keeps_embeddings_of_shared_pieces_and_averages_them_for_new_ones(tmp_path) -> None:
    old = tiny.tokeniser()
    new = train_tokeniser(tiny.GERMAN * 2, TextSettings(kind="bpe", size=400), tmp_path / "new")
    table = torch.randn(old.size, 5)
    rows = remap_rows(table, (old,), new)
    assert rows.shape == (new.size, 5)
    old_ids = {piece: number for number, piece in enumerate(old.pieces(range(old.size)))}
    shared = averaged = 0
    for number, piece in enumerate(new.pieces(range(new.size))):
        if piece in old_ids:
            shared += 1
            assert torch.equal(rows[number], table[old_ids[piece]])
            continue
        parts = old.encode_piece(piece)
        assert "".join(old.pieces(parts)) == piece  # no space is added
        torch.testing.assert_close(rows[number], table[parts].mean(0))
        averaged += 1
    assert shared > 100 and averaged > 20
    assert torch.equal(remap_rows(table, (old,), old), table)

"""Every attention matrix of a pass over whole sentences: what the blocks saw, cut into sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from uwaga.results.attention import Attentions, Floats


@dataclass(frozen=True)
class Recording:
    """What the layers of a pass looked at, the lowest first: weights (sentences, heads, query, key) of each.

    A pass that is given one fills it; it belongs to that pass alone.
    """

    encoder: list[Tensor] = field(default_factory=list)
    decoder: list[Tensor] = field(default_factory=list)
    cross: list[Tensor] = field(default_factory=list)

    def sentences(self, sources: Sequence[int], targets: Sequence[int]) -> list[Attentions]:
        """The matrices of each sentence, without padding behind.

        Args:
            sources: (sentences,) tokens of each source.
            targets: (sentences,) steps of each target.
        """
        encoder, decoder, cross = map(_table, (self.encoder, self.decoder, self.cross))
        return [
            Attentions(
                _cut(encoder, row, source, source),
                _cut(decoder, row, target, target),
                _cut(cross, row, target, source),
            )
            for row, (source, target) in enumerate(zip(sources, targets, strict=True))
        ]


def _table(layers: Sequence[Tensor]) -> Floats | None:
    """(layers, sentences, heads, query, key), or None where nothing looked."""
    return torch.stack(list(layers)).float().cpu().numpy() if layers else None


def _cut(table: Floats | None, row: int, queries: int, keys: int) -> Floats | None:
    return None if table is None else np.ascontiguousarray(table[:, row, :, :queries, :keys])

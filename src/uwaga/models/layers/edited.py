"""Attention whose weights are changed between the softmax and the weighted sum."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from uwaga.models.layers.attention import attention_weights
from uwaga.models.layers.multihead import KeysValues, MultiHeadAttention, SharedAttention

Edit = Callable[[Tensor, Tensor | None], Tensor]
"""From weights (batch, heads, target, source) and the mask to others of that shape."""


class EditedAttention(SharedAttention):
    """Multi-head attention with edits of its weights; it shares the layers of the one given.

    It never takes the fused path, so that without an edit it equals it to rounding.
    """

    def __init__(self, plain: MultiHeadAttention) -> None:
        super().__init__(plain)
        self.edits: list[Edit] = []

    def forward(
        self,
        x: Tensor,
        memory: KeysValues,
        mask: Tensor | None = None,
        need_weights: bool = False,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        batch, target, _ = x.shape
        query = self.query(x).view(batch, target, self.heads, -1).transpose(1, 2)
        scores = self.score(query, self.score.prepare(memory.keys))  # (batch, heads, target, source)
        weights = attention_weights(scores if bias is None else scores + bias, mask)
        for edit in self.edits:
            weights = edit(weights, mask)
        context = torch.matmul(weights, memory.values)  # (batch, heads, target, head width)
        out: Tensor = self.output(context.transpose(1, 2).reshape(batch, target, -1))
        return out, weights if need_weights else None

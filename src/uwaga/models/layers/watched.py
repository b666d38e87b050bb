"""Attention of which one head's weights are kept as they are made."""

from __future__ import annotations

from threading import local

from torch import Tensor

from uwaga.models.layers.multihead import KeysValues, MultiHeadAttention, SharedAttention


class WatchedAttention(SharedAttention):
    """Multi-head attention that in training keeps a head's weights; it shares the layers of the one given.

    Each thread has weights of its own, as threads share a model in training.
    """

    def __init__(self, plain: MultiHeadAttention, head: int) -> None:
        super().__init__(plain)
        self.head = head
        self._latest = local()

    def forward(
        self,
        x: Tensor,
        memory: KeysValues,
        mask: Tensor | None = None,
        need_weights: bool = False,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        watched = self.training
        out, weights = super().forward(x, memory, mask, need_weights or watched, bias)
        if watched:
            assert weights is not None
            self._latest.weights = weights[:, self.head]
        return out, weights if need_weights else None

    def take_weights(self) -> Tensor:
        """The weights (batch, target, source) of this thread's latest call in training, once."""
        weights: Tensor = self._latest.weights
        del self._latest.weights
        return weights

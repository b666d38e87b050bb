"""Multi-head attention (M10)."""

from __future__ import annotations

from collections.abc import Callable
from threading import local
from typing import NamedTuple

import torch
from torch import Tensor, nn

from uwaga.models.layers.attention import attend, attention_weights
from uwaga.models.layers.scores import DotScore, ScaledDotScore


class KeysValues(NamedTuple):
    """Projected keys and values, each (batch, heads, source, head width), computed once (M21)."""

    keys: Tensor
    values: Tensor


class MultiHeadAttention(nn.Module):
    """``head_i = attention(Q W_i^Q, K W_i^K, V W_i^V)``, joined, times ``W^O`` (Vaswani 2017 §3.2.2)."""

    def __init__(
        self,
        width: int,
        heads: int,
        dropout: float = 0.0,
        *,
        head_width: int | None = None,
        bias: bool = True,
        scaled: bool = True,
    ) -> None:
        super().__init__()
        head_width = head_width or width // heads
        inner = heads * head_width
        self.heads, self.dropout = heads, dropout
        self.query = nn.Linear(width, inner, bias=bias)
        self.key_value = nn.Linear(width, 2 * inner, bias=bias)
        self.output = nn.Linear(inner, width, bias=bias)
        self.score = (ScaledDotScore if scaled else DotScore)(head_width, head_width)
        self.reset()

    def reset(self) -> None:
        """Initialise each projection with Xavier-uniform weights and zero biases."""
        with torch.no_grad():
            key, value = self.key_value.weight.chunk(2)
            for weight in (self.query.weight, key, value, self.output.weight):
                nn.init.xavier_uniform_(weight)
        for layer in (self.query, self.key_value, self.output):
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def project(self, source: Tensor) -> KeysValues:
        """Return keys and values of (batch, source, width) vectors."""
        batch, length, _ = source.shape
        both = self.key_value(source).view(batch, length, 2, self.heads, -1)
        keys, values = both.permute(2, 0, 3, 1, 4).unbind(0)  # (batch, heads, source, head width)
        return KeysValues(keys, values)

    def forward(
        self,
        x: Tensor,
        memory: KeysValues,
        mask: Tensor | None = None,
        need_weights: bool = False,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from ``x`` (batch, target, width) to ``memory``.

        Args:
            x: queries before their projection.
            memory: from :meth:`project`.
            mask: bool, broadcasts to (batch, heads, target, source); True where a query may look.
            need_weights: return the weights too.
            bias: added to the scores, broadcasts to (batch, heads, target, source).

        Returns:
            (batch, target, width) and weights (batch, heads, target, source) or None.
        """
        batch, target, _ = x.shape
        query = self.query(x).view(batch, target, self.heads, -1).transpose(1, 2)
        context, weights = attend(
            query,
            self.score.prepare(memory.keys),
            memory.values,
            self.score,
            mask,
            self.dropout if self.training else 0.0,
            need_weights,
            bias,
        )  # (batch, heads, target, head width)
        joined = context.transpose(1, 2).reshape(batch, target, -1)
        out: Tensor = self.output(joined)
        return out, weights


class SharedAttention(MultiHeadAttention):
    """Multi-head attention that shares the layers of another, for variants."""

    def __init__(self, plain: MultiHeadAttention) -> None:
        nn.Module.__init__(self)
        self.heads, self.dropout = plain.heads, plain.dropout
        self.query, self.key_value, self.output = plain.query, plain.key_value, plain.output
        self.score = plain.score


def extend(past: KeysValues | None, new: KeysValues) -> KeysValues:
    """Return the cache with new positions appended."""
    if past is None:
        return new
    return KeysValues(torch.cat([past.keys, new.keys], dim=2), torch.cat([past.values, new.values], dim=2))


Edit = Callable[[Tensor, Tensor | None], Tensor]
"""A function from weights (batch, heads, target, source) and the mask to new weights."""


class EditedAttention(SharedAttention):
    """Multi-head attention with edits of its weights; shares the layers of the given one.

    It never uses fused kernels; without edits it equals them up to rounding. ``edits`` change the weights;
    ``scales`` are factors of the scores of some heads in place of their own.
    """

    def __init__(self, plain: MultiHeadAttention) -> None:
        super().__init__(plain)
        self.edits: list[Edit] = []
        self.scales: list[tuple[slice, float]] = []

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
        scale = query.shape[-1] ** -0.5 if isinstance(self.score, ScaledDotScore) else 1.0
        if self.scales:
            factors = query.new_ones(self.heads, 1, 1)
            for heads, given in self.scales:
                factors[heads] = given / scale
            query = query * factors
        scores = self.score(query, self.score.prepare(memory.keys))  # (batch, heads, target, source)
        weights = attention_weights(scores if bias is None else scores + bias, mask)
        for edit in self.edits:
            weights = edit(weights, mask)
        context = torch.matmul(weights, memory.values)  # (batch, heads, target, head width)
        out: Tensor = self.output(context.transpose(1, 2).reshape(batch, target, -1))
        return out, weights if need_weights else None


class WatchedAttention(SharedAttention):
    """Multi-head attention that keeps the weights of a head in training; shares the layers of the given one.

    The weights are kept for each thread, since threads share a model in training.
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
        """Return and clear the weights (batch, target, source) of this thread's latest call in training."""
        weights: Tensor = self._latest.weights
        del self._latest.weights
        return weights

"""Multi-head attention (M10)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from uwaga.models.layers.attention import attend
from uwaga.models.layers.scores import DotScore, ScaledDotScore


class KeysValues(NamedTuple):
    """Projected keys and values, each (batch, heads, source, head width): computed once, then kept (M21)."""

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
        """Xavier-uniform weights, each projection on its own, and zero biases."""
        with torch.no_grad():
            key, value = self.key_value.weight.chunk(2)
            for weight in (self.query.weight, key, value, self.output.weight):
                nn.init.xavier_uniform_(weight)
        for layer in (self.query, self.key_value, self.output):
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def project(self, source: Tensor) -> KeysValues:
        """Keys and values of (batch, source, width) vectors."""
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
    """Multi-head attention with the layers of the one given, for what runs them in another way."""

    def __init__(self, plain: MultiHeadAttention) -> None:
        nn.Module.__init__(self)
        self.heads, self.dropout = plain.heads, plain.dropout
        self.query, self.key_value, self.output = plain.query, plain.key_value, plain.output
        self.score = plain.score


def extend(past: KeysValues | None, new: KeysValues) -> KeysValues:
    """The cache with the new positions behind the past ones."""
    if past is None:
        return new
    return KeysValues(torch.cat([past.keys, new.keys], dim=2), torch.cat([past.values, new.values], dim=2))

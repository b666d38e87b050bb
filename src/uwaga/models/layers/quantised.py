"""Quantisation-aware training (M36): rounding in the forward pass, straight-through gradients.

The engine quantises each row of a matrix, and each vector that a matrix multiplies, to integers from -127 to
127 (:mod:`uwaga.engine.packing`; its products are in ``native/``); it stores keys and values in float16.
Quantisation-aware training (Jacob 2018 §3.1) does the same in its forward pass. The gradient of rounding is
replaced by that of the identity (the straight-through estimator of Bengio 2013 §4).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from uwaga.engine.packing import MAX_LEVELS, MIN_QUANTISED


def fake_quantise(x: Tensor) -> Tensor:
    """Return a tensor quantised as in int8: ``s · round(x / s)`` with ``s = max |x| / 127`` for each row.

    Rows run along the last axis. The gradient is passed through unchanged.
    """
    max_magnitude = x.detach().abs().amax(dim=-1, keepdim=True).clamp_min(MIN_QUANTISED)
    # As in the kernels: multiply by the inverse of the scale, ties to even.
    return _straight_through(
        x, (x.detach() * (MAX_LEVELS / max_magnitude)).round_().mul_(max_magnitude / MAX_LEVELS)
    )


def fake_float16(x: Tensor) -> Tensor:
    """Return a tensor with each number rounded to float16; the gradient is passed through unchanged."""
    return _straight_through(x, x.detach().to(torch.float16).to(x.dtype))


def _straight_through(x: Tensor, rounded: Tensor) -> Tensor:
    """Return ``rounded`` with its gradient passed to ``x``."""
    result: Tensor = _StraightThrough.apply(x, rounded)  # type: ignore[no-untyped-call]
    return result


class _StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rounded: Tensor) -> Tensor:
        return rounded

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0], None


class QuantisedLinear(nn.Linear):
    """A linear layer with quantised inputs and weights, which shares the weights of another layer."""

    def __init__(self, layer: nn.Linear, is_cached: bool = False) -> None:
        """Wrap the layer ``layer``.

        ``is_cached`` tells whether the outputs are keys and values, which the engine stores in float16.
        """
        with torch.device("meta"):
            super().__init__(layer.in_features, layer.out_features, bias=layer.bias is not None)
        self.weight, self.bias = layer.weight, layer.bias
        self.is_cached = is_cached

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (torch's name)
        """Map (..., inputs) to (..., outputs)."""
        out = nn.functional.linear(fake_quantise(input), fake_quantise(self.weight), self.bias)
        return fake_float16(out) if self.is_cached else out


class QuantisedEmbedding(nn.Embedding):
    """An embedding layer with quantised rows, which shares the table of another layer."""

    def __init__(self, embedding: nn.Embedding) -> None:
        with torch.device("meta"):
            super().__init__(embedding.num_embeddings, embedding.embedding_dim)
        self.weight, self.padding_idx = embedding.weight, embedding.padding_idx

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (torch's name)
        """Map ids (...) to vectors (..., width)."""
        return fake_quantise(super().forward(input))

"""Feed-forward network of a Transformer block (Vaswani 2017 §3.3), optionally gated (Shazeer 2020)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional

from uwaga.models.layers.dropout import Dropout

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": functional.relu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "silu": functional.silu,
}


class FeedForward(nn.Module):
    """A feed-forward network: ``W2 f(W1 x + b1) + b2``, or gated ``W2 (f(W1 x + b1) ⊙ (W3 x + b3)) + b2``."""

    def __init__(
        self,
        width: int,
        inner_width: int,
        activation: Literal["relu", "gelu", "gelu_tanh", "silu"],
        is_gated: bool,
        dropout: float,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.inner = nn.Linear(width, inner_width, bias=bias)
        self.gate = nn.Linear(width, inner_width, bias=bias) if is_gated else None
        self.outer = nn.Linear(inner_width, width, bias=bias)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)
        for layer in (self.inner, self.gate, self.outer):
            if layer is not None:
                nn.init.xavier_uniform_(layer.weight)
                if bias:
                    nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., width) to (..., width)."""
        hidden = self.activation(self.inner(x))  # (..., inner)
        if self.gate is not None:
            hidden = hidden * self.gate(x)
        out: Tensor = self.outer(self.dropout(hidden))
        return out

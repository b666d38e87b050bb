"""The average attention network (M35), which replaces the decoder's self-attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from uwaga.models.layers.choose import at_least_float32
from uwaga.models.layers.dropout import Dropout
from uwaga.models.layers.feedforward import ACTIVATIONS


class AverageState(NamedTuple):
    """The state of average attention: the sum and the number of the inputs so far.

    ``total`` is (rows, width), ``length`` is (rows, 1); both are in float32 or float64.
    """

    total: Tensor
    length: Tensor


def running_mean(x: Tensor, past: AverageState | None) -> tuple[Tensor, AverageState]:
    """Return ``(x_1 + ... + x_t) / t`` for every new position t (Zhang 2018 eq. 1), and the new state.

    Args:
        x: (rows, new, width) vectors at the new positions.
        past: state after the earlier positions, or None if there are none.

    Returns:
        means (rows, new, width), and the state after the last position.
    """
    totals = torch.cumsum(at_least_float32(x), dim=1)
    counts = torch.arange(1, x.shape[1] + 1, device=x.device, dtype=totals.dtype)[:, None]  # (new, 1)
    if past is not None:
        totals, counts = totals + past.total[:, None], counts + past.length[:, None]  # (rows, new, ...)
    state = AverageState(totals[:, -1], counts[..., -1, :].expand(x.shape[0], 1))
    return (totals / counts).to(x.dtype), state


class AverageAttention(nn.Module):
    """Average attention (Zhang 2018): ``i_t ⊙ x_t + f_t ⊙ g_t``, with ``g_t = FFN(running mean)``.

    As in Marian, ``i_t = σ(W_i x_t + b_i)`` and ``f_t = σ(W_f g_t + b_f)``; in Zhang 2018 eq. 3, both gates
    read both vectors.

    Args:
        width: width of the vectors.
        sizes: input and output width of each layer of the feed-forward network.
        activated: number of layers, counted from the first, that are followed by an activation function.
        activation: name of the activation function in the settings.
        is_gated: whether there are gates; without gates, the output is ``g_t``.
        dropout: dropout probability after each activation.
    """

    def __init__(
        self,
        width: int,
        sizes: Sequence[tuple[int, int]],
        activated: int,
        activation: Literal["relu", "gelu", "gelu_tanh", "silu"],
        is_gated: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(*size) for size in sizes)
        self.activated = activated
        self.input_gate = nn.Linear(width, width) if is_gated else None
        self.forget_gate = nn.Linear(width, width) if is_gated else None
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)
        for layer in (*self.layers, self.input_gate, self.forget_gate):
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, running_mean: Tensor) -> Tensor:
        """Return the outputs for inputs and their :func:`running_mean`; all three are (rows, new, width)."""
        for index, layer in enumerate(self.layers):
            running_mean = layer(running_mean)
            if index < self.activated:
                running_mean = self.dropout(self.activation(running_mean))
        if self.input_gate is None or self.forget_gate is None:
            return running_mean
        return (
            torch.sigmoid(self.input_gate(x)) * x
            + torch.sigmoid(self.forget_gate(running_mean)) * running_mean
        )

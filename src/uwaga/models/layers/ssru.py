"""The simpler simple recurrent unit (M26), which replaces the decoder's self-attention."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from uwaga.models.layers.choose import at_least_float32


class SsruState(NamedTuple):
    """The state of an SSRU: ``cells`` (rows, width), c_t of the last position, in float32 or float64."""

    cells: Tensor


class Ssru(nn.Module):
    """The SSRU layer (Kim 2019 §3.1), whose output is ``relu(c_t)``.

    ``f_t = σ(W_f x_t + b_f)`` and ``c_t = f_t ⊙ c_{t-1} + (1 - f_t) ⊙ W x_t``. The products do not depend
    on earlier positions and are computed for all positions at once; only elementwise operations
    are sequential, as in the simple recurrent unit (Lei 2018 §3).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.forget = nn.Linear(width, width)
        self.input = nn.Linear(width, width, bias=False)
        for layer in (self.forget, self.input):
            nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(self.forget.bias)

    def forward(self, x: Tensor, past: SsruState | None) -> tuple[Tensor, SsruState]:
        """Return the outputs (rows, new, width) at new positions, and the state after the last position.

        Args:
            x: (rows, new, width) vectors at the new positions.
            past: state after the earlier positions; None if there are none: ``c_0 = 0``.
        """
        gates, new_values = (
            at_least_float32(self.forget(x)),
            at_least_float32(self.input(x)),
        )  # (rows, new, width)
        start = new_values.new_zeros(x.shape[0], x.shape[2]) if past is None else past.cells
        cells = scan(gates, new_values, start)
        return torch.relu(cells).to(x.dtype), SsruState(cells[:, -1])


def scan(gates: Tensor, new_values: Tensor, start: Tensor) -> Tensor:
    """Return ``c_t = f_t ⊙ c_{t-1} + (1 - f_t) ⊙ v_t`` with ``f_t = σ(a_t)`` for all t: (rows, time, width).

    Autograd would store a tensor for each operation of each step. The hand-written backward pass, like the
    forward pass, has one operation per step.

    Args:
        gates: a, (rows, time, width).
        new_values: v, (rows, time, width).
        start: c before the first step, (rows, width).
    """
    return cast(Tensor, _Scan.apply(gates, new_values, start))  # type: ignore[no-untyped-call]


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, new_values: Tensor, start: Tensor) -> Tensor:
        forget = torch.sigmoid(gates)
        cells = torch.empty_like(new_values)
        previous_cell = start
        for position in range(new_values.shape[1]):
            cell = cells[:, position]
            torch.lerp(new_values[:, position], previous_cell, forget[:, position], out=cell)
            previous_cell = cell
        ctx.save_for_backward(forget, new_values, start, cells)
        return cells

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        forget, new_values, start, cells = ctx.saved_tensors
        # d_t = g_t + f_{t+1} ⊙ d_{t+1}: the gradient of c_t, directly and through all later cells.
        grad_cells = grad.clone(memory_format=torch.contiguous_format)
        for position in range(grad.shape[1] - 2, -1, -1):
            grad_cells[:, position].addcmul_(forget[:, position + 1], grad_cells[:, position + 1])
        previous_cells = torch.cat([start[:, None], cells[:, :-1]], dim=1)  # c_{t-1}
        grad_start = forget[:, 0] * grad_cells[:, 0]
        grad_gates = torch.ops.aten.sigmoid_backward.default(
            previous_cells.sub_(new_values).mul_(grad_cells), forget
        )
        return grad_gates, grad_cells.mul_(1.0 - forget), grad_start

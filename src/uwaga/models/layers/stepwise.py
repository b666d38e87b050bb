"""Products with one matrix at every step of a recurrence, whose gradient is one product over all steps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class StepProduct:
    """``y_t = b_t + W x_t`` for t = 0, 1, ..., where ``x_t`` may depend on the ``y`` before it.

    Called with x_0, x_1, ... one after the other. Autograd alone would make W's gradient anew at each step,
    ``dy_t x_tᵀ``, and add all of those tables up; here it is made once, after the last step, as one product
    over all of them. The values and the gradients are the same sums.

    Args:
        base: (rows, time, out), all b_t.
        matrix: W, (out, in), or (rows, out, in) where each row has its own.
    """

    def __init__(self, base: Tensor, matrix: Tensor) -> None:
        self._inputs: list[Tensor] = []
        if torch.is_grad_enabled() and matrix.requires_grad:
            base = _Collect.apply(base, matrix, self._inputs)  # type: ignore[no-untyped-call]
            matrix = matrix.detach()
        self._base = base.unbind(1)  # its gradient is one table, where that of an index is one per step
        self._matrix = matrix.transpose(-1, -2)  # (..., in, out)

    def __call__(self, x: Tensor) -> Tensor:
        """``y_t`` (rows, out) of the next ``x_t`` (rows, in)."""
        base = self._base[len(self._inputs)]
        self._inputs.append(x.detach())  # without its graph, which leads back to the list
        if self._matrix.dim() == 2:
            return torch.addmm(base, x, self._matrix)
        return torch.baddbmm(base[:, None], x[:, None], self._matrix)[:, 0]


class _Collect(torch.autograd.Function):
    """The bases as they are; of their gradient and the inputs gathered meanwhile, the matrix's gradient."""

    @staticmethod
    def forward(ctx: Any, base: Tensor, matrix: Tensor, inputs: list[Tensor]) -> Tensor:
        ctx.inputs, ctx.own = inputs, matrix.dim() == 3
        return base.view_as(base)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        inputs = torch.stack(ctx.inputs, dim=1)  # (rows, time, in)
        seen = grad[:, : inputs.shape[1]]  # (rows, time, out)
        if ctx.own:
            return grad, torch.matmul(seen.transpose(1, 2), inputs), None
        return grad, torch.mm(seen.flatten(0, 1).t(), inputs.flatten(0, 1)), None

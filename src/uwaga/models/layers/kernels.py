"""Operations with hand-written gradients: GRU and LSTM cells, additive scores, products in a recurrence.

Autograd allocates a tensor for each operation and concatenates the gradients of the gates; at the sizes of a
single step, that costs as much as the matrix products (Cho 2014; Gers 2000).
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

_sigmoid_backward = torch.ops.aten.sigmoid_backward.default
_tanh_backward = torch.ops.aten.tanh_backward.default


def gru_cell(inputs: Tensor, states: Tensor, hidden: Tensor) -> Tensor:
    """Return the next state (rows, units) of a GRU in torch's form.

    ``r, z = σ(a + b)``, ``n = tanh(a_n + r b_n)``, ``h' = n + z (h - n)``.

    Args:
        inputs: a, (rows, 3 units), contribution of the input to the gates r, z, n.
        states: b, (rows, 3 units), contribution of the previous state.
        hidden: h, (rows, units).
    """
    return cast(Tensor, _GruCell.apply(inputs, states, hidden))  # type: ignore[no-untyped-call]


def lstm_cell(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Return the next state of an LSTM: ``h' = σ(o) tanh(c')`` and ``c' = σ(f) c + σ(i) tanh(g)``.

    Both are (rows, units).

    Args:
        gates: (rows, 4 units), i, f, g and o before their activations.
        cell: c, (rows, units).
    """
    return cast(tuple[Tensor, Tensor], _LstmCell.apply(gates, cell))  # type: ignore[no-untyped-call]


class _GruCell(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, states: Tensor, hidden: Tensor) -> Tensor:
        units = hidden.shape[1]
        gates = torch.sigmoid_(inputs[:, : 2 * units] + states[:, : 2 * units])  # (rows, 2 units)
        reset, update = gates.chunk(2, dim=1)
        candidate = tanh_in_place(torch.addcmul(inputs[:, 2 * units :], reset, states[:, 2 * units :]))
        ctx.save_for_backward(gates, candidate, states, hidden)
        return candidate + update * (hidden - candidate)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gates, candidate, states, hidden = ctx.saved_tensors
        units = hidden.shape[1]
        reset, update = gates.chunk(2, dim=1)
        grad_hidden = grad * update
        grad_new = _tanh_backward(grad - grad_hidden, candidate)  # (rows, units): before tanh
        grad_gates = torch.cat([grad_new * states[:, 2 * units :], grad * (hidden - candidate)], dim=1)
        grad_gates = _sigmoid_backward(grad_gates, gates)  # (rows, 2 units)
        return (
            torch.cat([grad_gates, grad_new], dim=1),
            torch.cat([grad_gates, grad_new * reset], dim=1),
            grad_hidden,
        )


class _LstmCell(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        units = cell.shape[1]
        input_forget = torch.sigmoid(gates[:, : 2 * units])  # (rows, 2 units)
        candidate = tanh_in_place(gates[:, 2 * units : 3 * units].clone())
        output_gate = torch.sigmoid(gates[:, 3 * units :])
        input_gate, forget_gate = input_forget.chunk(2, dim=1)
        next_cell = torch.addcmul(forget_gate * cell, input_gate, candidate)
        cell_tanh = tanh_in_place(next_cell.clone())
        ctx.save_for_backward(input_forget, candidate, output_gate, cell, cell_tanh)
        return output_gate * cell_tanh, next_cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        input_forget, candidate, output_gate, cell, cell_tanh = ctx.saved_tensors
        grad_hidden, grad_cell = grads
        input_gate, forget_gate = input_forget.chunk(2, dim=1)
        grad_next = grad_cell + _tanh_backward(grad_hidden * output_gate, cell_tanh)  # (rows, units): of c'
        grad_input_forget = _sigmoid_backward(
            torch.cat([grad_next * candidate, grad_next * cell], dim=1), input_forget
        )
        grad_output_gate = _sigmoid_backward(grad_hidden * cell_tanh, output_gate)
        return torch.cat(
            [grad_input_forget, _tanh_backward(grad_next * input_gate, candidate), grad_output_gate], dim=1
        ), grad_next * forget_gate


def energies(query: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
    """Return the additive scores ``vᵀ tanh(s + h)`` (..., target, source) of all queries and keys (M2, M5).

    Only one tensor of (..., target, source, hidden) is allocated; autograd would store a second one.

    Args:
        query: s, (..., target, hidden).
        keys: h, (..., source, hidden).
        vector: v, (hidden,).
    """
    return cast(Tensor, _Energies.apply(query, keys, vector))  # type: ignore[no-untyped-call]


def tanh_in_place(x: Tensor) -> Tensor:
    """Compute tanh in place, and return the tensor.

    On a CPU, this is ``2 σ(2 x) - 1``, because torch's sigmoid is six times as fast as its tanh; the absolute
    error is a few units in the last place of 1.
    """
    if x.device.type != "cpu":
        return x.tanh_()
    return x.mul_(2).sigmoid_().mul_(2).sub_(1)


class _Energies(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, keys: Tensor, vector: Tensor) -> Tensor:
        hidden = tanh_in_place(query.unsqueeze(-2) + keys.unsqueeze(-3))  # (..., target, source, hidden)
        ctx.save_for_backward(hidden, vector)
        ctx.shapes = query.shape, keys.shape
        return torch.matmul(hidden, vector)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden, vector = ctx.saved_tensors
        query, keys = ctx.shapes
        grad_inner = _tanh_backward(grad.unsqueeze(-1) * vector, hidden)  # (..., target, source, hidden)
        # A matrix product: torch's product of a transposed matrix and a vector is slow.
        grad_vector = torch.mm(grad.reshape(1, -1), hidden.reshape(-1, vector.shape[0]))[0]
        return grad_inner.sum(-2).sum_to_size(query), grad_inner.sum(-3).sum_to_size(keys), grad_vector


class StepProduct:
    """Computes ``y_t = b_t + W x_t`` for t = 0, 1, ..., where ``x_t`` may depend on earlier ``y``.

    It is called with x_0, x_1, ... in order. Autograd would compute the gradient ``dy_t x_tᵀ`` of W at each
    step and add these gradients. Here, their sum is computed as one product after the last step.

    Args:
        base: (rows, time, out), all b_t.
        matrix: W, (out, in), or (rows, out, in) with one matrix per row.
    """

    def __init__(self, base: Tensor, matrix: Tensor) -> None:
        self._inputs: list[Tensor] = []
        if torch.is_grad_enabled() and matrix.requires_grad:
            base = _CollectInputs.apply(base, matrix, self._inputs)  # type: ignore[no-untyped-call]
            matrix = matrix.detach()
        self._base = base.unbind(1)  # one gradient tensor; indexing would allocate one per step
        self._matrix = matrix.transpose(-1, -2)  # (..., in, out)

    def __call__(self, x: Tensor) -> Tensor:
        """Return ``y_t`` (rows, out) of the next ``x_t`` (rows, in)."""
        base = self._base[len(self._inputs)]
        self._inputs.append(x.detach())  # without its graph, which refers to the list
        if self._matrix.dim() == 2:
            return torch.addmm(base, x, self._matrix)
        return torch.baddbmm(base[:, None], x[:, None], self._matrix)[:, 0]


class _CollectInputs(torch.autograd.Function):
    """The identity of ``base``, whose backward pass also computes the gradient of the matrix."""

    @staticmethod
    def forward(ctx: Any, base: Tensor, matrix: Tensor, inputs: list[Tensor]) -> Tensor:
        ctx.inputs, ctx.batched = inputs, matrix.dim() == 3
        return base.view_as(base)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        inputs = torch.stack(ctx.inputs, dim=1)  # (rows, time, in)
        step_grads = grad[:, : inputs.shape[1]]  # (rows, time, out)
        if ctx.batched:
            return grad, torch.matmul(step_grads.transpose(1, 2), inputs), None
        return grad, torch.mm(step_grads.flatten(0, 1).t(), inputs.flatten(0, 1)), None

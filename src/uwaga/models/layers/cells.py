"""What a GRU and an LSTM do with their gates, with gradients written by hand (Cho 2014, Gers 2000).

Autograd makes a table per operation and joins the gates' gradients from pieces; at the sizes of one step that
costs as much as the products do.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from uwaga.models.layers.energies import tanh_in_place

_of_sigmoid = torch.ops.aten.sigmoid_backward.default
_of_tanh = torch.ops.aten.tanh_backward.default


def gru_cell(inputs: Tensor, states: Tensor, hidden: Tensor) -> Tensor:
    """``r, z = σ(a + b)``, ``n = tanh(a_n + r b_n)``, ``h' = n + z (h - n)``: torch's GRU.

    Args:
        inputs: a, (rows, 3 units), what the input adds to the gates r, z, n.
        states: b, (rows, 3 units), what the last state adds.
        hidden: h, (rows, units).
    """
    return cast(Tensor, _GruCell.apply(inputs, states, hidden))  # type: ignore[no-untyped-call]


def lstm_cell(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """``c' = σ(f) c + σ(i) tanh(g)``, ``h' = σ(o) tanh(c')``; gives h' and c', each (rows, units).

    Args:
        gates: (rows, 4 units): i, f, g, o.
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
        kept = grad * update
        new = _of_tanh(grad - kept, candidate)  # (rows, units): of what is under the candidate's tanh
        outer = torch.cat([new * states[:, 2 * units :], grad * (hidden - candidate)], dim=1)
        outer = _of_sigmoid(outer, gates)  # (rows, 2 units)
        return torch.cat([outer, new], dim=1), torch.cat([outer, new * reset], dim=1), kept


class _LstmCell(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        units = cell.shape[1]
        write_keep = torch.sigmoid(gates[:, : 2 * units])  # (rows, 2 units)
        new = tanh_in_place(gates[:, 2 * units : 3 * units].clone())
        show = torch.sigmoid(gates[:, 3 * units :])
        write, keep = write_keep.chunk(2, dim=1)
        after = torch.addcmul(keep * cell, write, new)
        shown = tanh_in_place(after.clone())
        ctx.save_for_backward(write_keep, new, show, cell, shown)
        return show * shown, after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        write_keep, new, show, cell, shown = ctx.saved_tensors
        of_hidden, of_cell = grads
        write, keep = write_keep.chunk(2, dim=1)
        through = of_cell + _of_tanh(of_hidden * show, shown)  # (rows, units): of c'
        early = _of_sigmoid(torch.cat([through * new, through * cell], dim=1), write_keep)
        late = _of_sigmoid(of_hidden * shown, show)
        return torch.cat([early, _of_tanh(through * write, new), late], dim=1), through * keep

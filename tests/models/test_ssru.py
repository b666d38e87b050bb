"""The simpler simple recurrent unit: Kim's equations by hand and in numpy, its gradient, its steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from precision import EXACT, close_for
from torch import Tensor

from uwaga.models.layers.ssru import Ssru, SsruState, scan

pytestmark = pytest.mark.numerical

ROWS, TIME, WIDTH = 3, 6, 5


def numbers(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


def layer(width: int = WIDTH) -> Ssru:
    torch.manual_seed(7)
    made = Ssru(width).double()
    torch.nn.init.normal_(made.forget.bias)
    return made


def in_numpy(made: Ssru, x: np.ndarray) -> np.ndarray:
    """The equations, one position at a time, of (time, width) vectors."""
    forget, bias = made.forget.weight.detach().numpy(), made.forget.bias.detach().numpy()
    matrix = made.input.weight.detach().numpy()
    cell, found = np.zeros(x.shape[1]), []
    for vector in x:
        kept = 1 / (1 + np.exp(-(forget @ vector + bias)))
        cell = kept * cell + (1 - kept) * (matrix @ vector)
        found.append(np.maximum(cell, 0))
    return np.array(found)


def test_M26_ssru_by_hand() -> None:
    """Gates of one half: c_1 = 8/2, c_2 = c_1/2 + 4/2, c_3 = c_2/2 - 10/2 = -3, of which relu leaves 0."""
    made = Ssru(1)
    with torch.no_grad():
        made.forget.weight.zero_()
        made.input.weight.fill_(2.0)
        out, state = made(torch.tensor([[[4.0], [2.0], [-5.0]]]), None)
    assert out.flatten().tolist() == [4.0, 4.0, 0.0]
    assert state.cells.tolist() == [[-3.0]]


def test_M26_ssru_is_its_equations() -> None:
    made, x = layer(), numbers(ROWS, TIME, WIDTH, seed=1).detach()
    out, _ = made(x, None)
    for row in range(ROWS):
        np.testing.assert_allclose(out[row].detach().numpy(), in_numpy(made, x[row].numpy()), **EXACT)


@pytest.mark.parametrize("cuts", [[1] * TIME, [2, 4], [5, 1]], ids=str)
def test_M26_parts_one_after_the_other_are_the_whole(cuts: list[int]) -> None:
    made, x = layer(), numbers(ROWS, TIME, WIDTH, seed=1)
    whole, end = made(x, None)
    state: SsruState | None = None
    found = []
    for part in x.split(cuts, dim=1):
        out, state = made(part, state)
        found.append(out)
    assert state is not None
    torch.testing.assert_close(torch.cat(found, dim=1), whole, **EXACT)
    torch.testing.assert_close(state.cells, end.cells, **EXACT)


def test_M26_the_gradient_is_that_of_finite_differences() -> None:
    inputs = (
        numbers(ROWS, TIME, WIDTH, seed=1),
        numbers(ROWS, TIME, WIDTH, seed=2),
        numbers(ROWS, WIDTH, seed=3),
    )
    assert torch.autograd.gradcheck(scan, inputs)
    single = tuple(one[:, :1].detach().requires_grad_() for one in inputs[:2])
    assert torch.autograd.gradcheck(scan, (*single, inputs[2]))


def test_M26_the_gradient_is_that_of_autograd_on_the_plain_loop() -> None:
    gates, new, start = (
        numbers(ROWS, TIME, WIDTH, seed=1),
        numbers(ROWS, TIME, WIDTH, seed=2),
        numbers(ROWS, WIDTH, seed=3),
    )
    weights = numbers(ROWS, TIME, WIDTH, seed=4).detach()
    cell, cells = start, []
    for position in range(TIME):
        forget = torch.sigmoid(gates[:, position])
        cell = forget * cell + (1 - forget) * new[:, position]
        cells.append(cell)
    plainly = torch.stack(cells, dim=1)
    together = scan(gates, new, start)
    torch.testing.assert_close(together, plainly, **EXACT)
    ours = torch.autograd.grad((together * weights).sum(), [gates, new, start])
    theirs = torch.autograd.grad((plainly * weights).sum(), [gates, new, start])
    torch.testing.assert_close(ours, theirs, **EXACT)


def test_M26_neither_inputs_nor_gradients_are_written_to() -> None:
    """Gradients that come as a view of one number, and twice, find everything as it was."""
    gates, new, start = (numbers(2, TIME, WIDTH, seed=seed) for seed in (1, 2, 3))
    cells = scan(gates, new, start[:, 0])
    one = torch.autograd.grad(cells.sum(), [gates, new, start], retain_graph=True)
    again = torch.autograd.grad(cells.sum(), [gates, new, start])
    torch.testing.assert_close(one, again, rtol=0, atol=0)


def test_M26_a_gate_of_one_remembers_and_of_zero_forgets() -> None:
    new, start = numbers(ROWS, TIME, WIDTH, seed=2).detach(), numbers(ROWS, WIDTH, seed=3).detach()
    open_gates = torch.full_like(new, 800.0)
    kept = scan(open_gates, new, start)
    torch.testing.assert_close(kept, start[:, None].expand_as(kept), rtol=0, atol=0)
    torch.testing.assert_close(scan(-open_gates, new, start), new, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_M26_the_cells_are_float32_whatever_the_weights_are(dtype: torch.dtype) -> None:
    made, x = Ssru(WIDTH).to(dtype), torch.randn(ROWS, TIME, WIDTH).to(dtype)
    out, state = made(x, None)
    assert out.dtype == dtype
    assert state.cells.dtype == torch.float32


def test_M26_autocast_rounds_the_products_alone() -> None:
    made, x = layer().float(), numbers(ROWS, 200, WIDTH, seed=1).detach().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, state = made(x, None)
    gates, new = (one(x.bfloat16()) for one in (made.forget.bfloat16(), made.input.bfloat16()))
    wanted = scan(gates.float(), new.float(), torch.zeros(ROWS, WIDTH))
    assert (out.dtype, state.cells.dtype) == (torch.float32, torch.float32)
    torch.testing.assert_close(out, torch.relu(wanted), **close_for(wanted))

"""The simpler simple recurrent unit (SSRU): hand calculations, numpy, gradients and steps."""

import numpy as np
import pytest
import torch
from precision import EXACT, tolerance
from torch import Tensor

from uwaga.models.layers.ssru import Ssru, SsruState, scan

pytestmark = pytest.mark.numerical

ROWS, TIME, WIDTH = 3, 6, 5


def random_tensor(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


def make_layer(width: int = WIDTH) -> Ssru:
    torch.manual_seed(7)
    layer = Ssru(width).double()
    torch.nn.init.normal_(layer.forget.bias)
    return layer


def numpy_ssru(layer: Ssru, x: np.ndarray) -> np.ndarray:
    """Apply the equations to (time, width) vectors, one position at a time."""
    forget, bias = layer.forget.weight.detach().numpy(), layer.forget.bias.detach().numpy()
    matrix = layer.input.weight.detach().numpy()
    cell, outputs = np.zeros(x.shape[1]), []
    for vector in x:
        gate = 1 / (1 + np.exp(-(forget @ vector + bias)))
        cell = gate * cell + (1 - gate) * (matrix @ vector)
        outputs.append(np.maximum(cell, 0))
    return np.array(outputs)


def test_M26_ssru_matches_hand_calculation() -> None:
    """Gates of one half: c_1 = 8/2, c_2 = c_1/2 + 4/2, c_3 = c_2/2 - 10/2 = -3; the relu of c_3 is 0."""
    layer = Ssru(1)
    with torch.no_grad():
        layer.forget.weight.zero_()
        layer.input.weight.fill_(2.0)
        out, state = layer(torch.tensor([[[4.0], [2.0], [-5.0]]]), None)
    assert out.flatten().tolist() == [4.0, 4.0, 0.0]
    assert state.cells.tolist() == [[-3.0]]


def test_M26_ssru_matches_numpy() -> None:
    layer, x = make_layer(), random_tensor(ROWS, TIME, WIDTH, seed=1).detach()
    out, _ = layer(x, None)
    for row in range(ROWS):
        np.testing.assert_allclose(out[row].detach().numpy(), numpy_ssru(layer, x[row].numpy()), **EXACT)


@pytest.mark.parametrize("lengths", [[1] * TIME, [2, 4], [5, 1]], ids=str)
def test_M26_processing_in_chunks_matches_a_single_pass(lengths: list[int]) -> None:
    layer, x = make_layer(), random_tensor(ROWS, TIME, WIDTH, seed=1)
    expected, end = layer(x, None)
    state: SsruState | None = None
    outputs = []
    for part in x.split(lengths, dim=1):
        out, state = layer(part, state)
        outputs.append(out)
    assert state is not None
    torch.testing.assert_close(torch.cat(outputs, dim=1), expected, **EXACT)
    torch.testing.assert_close(state.cells, end.cells, **EXACT)


def test_M26_gradient_matches_finite_differences() -> None:
    inputs = (
        random_tensor(ROWS, TIME, WIDTH, seed=1),
        random_tensor(ROWS, TIME, WIDTH, seed=2),
        random_tensor(ROWS, WIDTH, seed=3),
    )
    assert torch.autograd.gradcheck(scan, inputs)
    single = tuple(tensor[:, :1].detach().requires_grad_() for tensor in inputs[:2])
    assert torch.autograd.gradcheck(scan, (*single, inputs[2]))


def test_M26_gradient_matches_autograd() -> None:
    gates = random_tensor(ROWS, TIME, WIDTH, seed=1)
    new = random_tensor(ROWS, TIME, WIDTH, seed=2)
    start = random_tensor(ROWS, WIDTH, seed=3)
    weights = random_tensor(ROWS, TIME, WIDTH, seed=4).detach()
    cell, cells = start, []
    for position in range(TIME):
        forget = torch.sigmoid(gates[:, position])
        cell = forget * cell + (1 - forget) * new[:, position]
        cells.append(cell)
    expected = torch.stack(cells, dim=1)
    actual = scan(gates, new, start)
    torch.testing.assert_close(actual, expected, **EXACT)
    actual_gradients = torch.autograd.grad((actual * weights).sum(), [gates, new, start])
    expected_gradients = torch.autograd.grad((expected * weights).sum(), [gates, new, start])
    torch.testing.assert_close(actual_gradients, expected_gradients, **EXACT)


def test_M26_inputs_and_gradients_are_not_modified() -> None:
    """A second backward pass with a broadcast gradient gives the same result."""
    gates, new, start = (random_tensor(2, TIME, WIDTH, seed=seed) for seed in (1, 2, 3))
    cells = scan(gates, new, start[:, 0])
    first = torch.autograd.grad(cells.sum(), [gates, new, start], retain_graph=True)
    second = torch.autograd.grad(cells.sum(), [gates, new, start])
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_M26_saturated_gates_keep_or_replace_cell_states() -> None:
    new = random_tensor(ROWS, TIME, WIDTH, seed=2).detach()
    start = random_tensor(ROWS, WIDTH, seed=3).detach()
    open_gates = torch.full_like(new, 800.0)
    cells = scan(open_gates, new, start)
    torch.testing.assert_close(cells, start[:, None].expand_as(cells), rtol=0, atol=0)
    torch.testing.assert_close(scan(-open_gates, new, start), new, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_M26_cell_states_are_float32_for_16_bit_weights(dtype: torch.dtype) -> None:
    layer, x = Ssru(WIDTH).to(dtype), torch.randn(ROWS, TIME, WIDTH).to(dtype)
    out, state = layer(x, None)
    assert out.dtype == dtype
    assert state.cells.dtype == torch.float32


def test_M26_autocast_rounds_only_matrix_products() -> None:
    layer, x = make_layer().float(), random_tensor(ROWS, 200, WIDTH, seed=1).detach().float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, state = layer(x, None)
    gates, new = (linear(x.bfloat16()) for linear in (layer.forget.bfloat16(), layer.input.bfloat16()))
    expected = scan(gates.float(), new.float(), torch.zeros(ROWS, WIDTH))
    assert (out.dtype, state.cells.dtype) == (torch.float32, torch.float32)
    torch.testing.assert_close(out, torch.relu(expected), **tolerance(expected))

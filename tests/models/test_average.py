"""The average attention network: Marian's equations in numpy, and its steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from precision import EXACT

from uwaga.models.layers.average import AverageAttention, AverageState, running_mean
from uwaga.settings import TransformerSettings

pytestmark = pytest.mark.numerical

ROWS, TIME, WIDTH = 3, 6, 5
SHAPES = [
    {},
    {"aan_layers": 1},
    {"aan_layers": 3, "aan_feed_forward": 7},
    {"aan_feed_forward": WIDTH},  # the width already: no last product
    {"aan_gate": False, "aan_activation": "relu"},
]


def layer(shape: dict) -> AverageAttention:
    torch.manual_seed(7)
    settings = TransformerSettings(
        width=WIDTH, heads=1, feed_forward=9, positions="learned", self_attention="aan", **shape
    )
    made = AverageAttention(
        WIDTH, settings.aan_sizes, settings.aan_layers - 1, "silu", settings.aan_gate, 0.0
    ).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made.eval()


def in_numpy(made: AverageAttention, shape: dict, x: np.ndarray) -> np.ndarray:
    """Marian's LayerAAN between the mean and the residual, of (time, width) vectors, step by step."""
    weights = {name: tensor.numpy() for name, tensor in made.state_dict().items()}

    def affine(vector: np.ndarray, name: str) -> np.ndarray:
        return weights[f"{name}.weight"] @ vector + weights[f"{name}.bias"]

    def sigmoid(vector: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-vector))

    depth, found, mean = shape.get("aan_layers", 2), [], np.zeros(x.shape[1])
    for position, vector in enumerate(x):
        mean = (mean * position + vector) / (position + 1)
        y = mean
        for number in range(depth - 1):
            hidden = affine(y, f"layers.{number}")
            y = hidden * sigmoid(hidden)
        if y.shape != vector.shape:
            y = affine(y, f"layers.{depth - 1}")
        if shape.get("aan_gate", True):
            y = sigmoid(affine(vector, "input_gate")) * vector + sigmoid(affine(y, "forget_gate")) * y
        found.append(y)
    return np.array(found)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_M35_average_attention_is_marians(shape: dict) -> None:
    made, x = layer(shape), torch.randn(ROWS, TIME, WIDTH, dtype=torch.float64)
    mean, _ = running_mean(x, None)
    out = made(x, mean)
    for row in range(ROWS):
        np.testing.assert_allclose(out[row].detach().numpy(), in_numpy(made, shape, x[row].numpy()), **EXACT)


def test_M35_the_running_mean_by_hand() -> None:
    mean, state = running_mean(torch.tensor([[[2.0], [4.0], [-3.0]]]), None)
    assert mean.flatten().tolist() == [2.0, 3.0, 1.0]
    assert (state.total.tolist(), state.seen.tolist()) == ([[3.0]], [[3.0]])


@pytest.mark.parametrize("cuts", [[1] * TIME, [2, 4], [5, 1]], ids=str)
def test_M35_parts_one_after_the_other_are_the_whole(cuts: list[int]) -> None:
    x = torch.randn(ROWS, TIME, WIDTH, dtype=torch.float64)
    whole, end = running_mean(x, None)
    state: AverageState | None = None
    found = []
    for part in x.split(cuts, dim=1):
        mean, state = running_mean(part, state)
        found.append(mean)
    assert state is not None
    torch.testing.assert_close(torch.cat(found, dim=1), whole, **EXACT)
    torch.testing.assert_close(tuple(state), tuple(end), **EXACT)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_M35_the_sum_is_float32_whatever_the_vectors_are(dtype: torch.dtype) -> None:
    """The mean of ones stays one where a sum of few bits would stop growing at 256 or 2048."""
    mean, state = running_mean(torch.ones(1, 3000, 1, dtype=dtype), None)
    assert state.total.dtype == torch.float32
    assert (mean == 1).all()

"""Average attention network: agreement of full passes and steps with Marian's equations in numpy."""

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
    {"aan_feed_forward": WIDTH},  # equal to the width: no output layer
    {"aan_gate": False, "aan_activation": "relu"},
]


def make_layer(shape: dict) -> AverageAttention:
    torch.manual_seed(7)
    settings = TransformerSettings(
        width=WIDTH, heads=1, feed_forward=9, positions="learned", self_attention="aan", **shape
    )
    layer = AverageAttention(
        WIDTH, settings.aan_sizes, settings.aan_layers - 1, "silu", settings.aan_gate, 0.0
    ).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    return layer.eval()


def numpy_average(layer: AverageAttention, shape: dict, x: np.ndarray) -> np.ndarray:
    """Apply Marian's LayerAAN, without the residual, to (time, width) vectors step by step."""
    weights = {name: tensor.numpy() for name, tensor in layer.state_dict().items()}

    def affine(vector: np.ndarray, name: str) -> np.ndarray:
        return weights[f"{name}.weight"] @ vector + weights[f"{name}.bias"]

    def sigmoid(vector: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-vector))

    depth, outputs, mean = shape.get("aan_layers", 2), [], np.zeros(x.shape[1])
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
        outputs.append(y)
    return np.array(outputs)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_M35_average_attention_matches_marian(shape: dict) -> None:
    layer, x = make_layer(shape), torch.randn(ROWS, TIME, WIDTH, dtype=torch.float64)
    mean, _ = running_mean(x, None)
    out = layer(x, mean)
    for row in range(ROWS):
        np.testing.assert_allclose(
            out[row].detach().numpy(), numpy_average(layer, shape, x[row].numpy()), **EXACT
        )


def test_M35_running_mean_matches_hand_calculation() -> None:
    mean, state = running_mean(torch.tensor([[[2.0], [4.0], [-3.0]]]), None)
    assert mean.flatten().tolist() == [2.0, 3.0, 1.0]
    assert (state.total.tolist(), state.length.tolist()) == ([[3.0]], [[3.0]])


@pytest.mark.parametrize("lengths", [[1] * TIME, [2, 4], [5, 1]], ids=str)
def test_M35_processing_in_chunks_matches_a_single_pass(lengths: list[int]) -> None:
    x = torch.randn(ROWS, TIME, WIDTH, dtype=torch.float64)
    expected, end = running_mean(x, None)
    state: AverageState | None = None
    means = []
    for part in x.split(lengths, dim=1):
        mean, state = running_mean(part, state)
        means.append(mean)
    assert state is not None
    torch.testing.assert_close(torch.cat(means, dim=1), expected, **EXACT)
    torch.testing.assert_close(tuple(state), tuple(end), **EXACT)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_M35_running_sum_of_16_bit_vectors_is_float32(dtype: torch.dtype) -> None:
    """The mean of ones must be 1, but a 16-bit sum would stop growing at 256 or 2048."""
    mean, state = running_mean(torch.ones(1, 3000, 1, dtype=dtype), None)
    assert state.total.dtype == torch.float32
    assert (mean == 1).all()

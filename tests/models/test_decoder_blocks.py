"""Residuals and norms of decoder layers without self-attention, as in Marian (M26, M35)."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from precision import EXACT

from uwaga.models.blocks import DecoderBlock
from uwaga.models.layers.multihead import AttendedSource
from uwaga.settings import TransformerSettings

pytestmark = pytest.mark.numerical

WIDTH, TIME, EPSILON = 6, 5, 1e-5
Array = NDArray[np.float64]


def make_block(norm: str, kind: str) -> DecoderBlock:
    """Return a block with random weights whose cross-attention and feed-forward add nothing."""
    torch.manual_seed(3)
    settings = TransformerSettings(
        width=WIDTH, heads=2, feed_forward=7, norm=norm, self_attention=kind, norm_epsilon=EPSILON
    )
    block = DecoderBlock(settings).double().eval()
    for name, parameter in block.named_parameters():
        if name.startswith(("ssru", "aan", "self_attention_norm")):
            torch.nn.init.normal_(parameter)
    for layer in (block.cross_attention.output, block.feed_forward.outer):
        torch.nn.init.zeros_(layer.weight)
    return block


def numpy_block(block: DecoderBlock, norm: str, kind: str, x: Array) -> Array:
    weights = {name: tensor.numpy() for name, tensor in block.state_dict().items()}

    def layer_norm(values: Array, plain: bool = False) -> Array:
        centred = values - values.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
        if plain:
            return scaled
        return scaled * weights["self_attention_norm.weight"] + weights["self_attention_norm.bias"]

    def affine(values: Array, name: str) -> Array:
        return values @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)

    def sigmoid(values: Array) -> Array:
        return 1 / (1 + np.exp(-values))

    def ssru(values: Array) -> Array:
        cell, cells = np.zeros(WIDTH), []
        for vector in values:
            forget = sigmoid(affine(vector, "ssru.forget"))
            cell = forget * cell + (1 - forget) * affine(vector, "ssru.input")
            cells.append(np.maximum(cell, 0))
        return np.array(cells)

    def average(values: Array) -> Array:
        mean = np.cumsum(values, axis=0) / np.arange(1, len(values) + 1)[:, None]
        mean = layer_norm(mean) if norm == "pre" else mean
        mean = affine(np.maximum(affine(mean, "aan.layers.0"), 0), "aan.layers.1")
        gates = sigmoid(affine(values, "aan.input_gate")), sigmoid(affine(mean, "aan.forget_gate"))
        return gates[0] * values + gates[1] * mean

    if norm == "pre":
        return x + (ssru(layer_norm(x)) if kind == "ssru" else average(x))
    output = layer_norm(x + (ssru(x) if kind == "ssru" else average(x)))
    return layer_norm(layer_norm(output, plain=True), plain=True)  # the norms of the other two blocks


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("kind", ["ssru", "aan"])
def test_M26_M35_residuals_and_norms_match_marian(norm: str, kind: str) -> None:
    block, x = make_block(norm, kind), torch.randn(2, TIME, WIDTH, dtype=torch.float64)
    memory = block.cross_attention.project(torch.randn(2, 3, WIDTH, dtype=torch.float64))
    with torch.no_grad():
        out, _, weights = block(x, None, None, AttendedSource(memory), need_weights=True)
    assert weights is not None
    assert weights.shape == (2, 2, TIME, 3)
    for row in range(2):
        np.testing.assert_allclose(out[row].numpy(), numpy_block(block, norm, kind, x[row].numpy()), **EXACT)

"""What lies between two words of a sentence: operations and gradient, RNN against attention (E7)."""

from __future__ import annotations

import pytest
import torch
from experiment_scripts import experiment

from uwaga.models.layers.multihead import MultiHeadAttention

pytestmark = pytest.mark.numerical

DISTANCES = (1, 2, 3, 8, 21)


def test_E7_d_recurrent_steps_against_one_attention() -> None:
    script = experiment("path_length")
    recurrent = [script.recurrent_operations(distance) for distance in DISTANCES]
    assert [count - recurrent[0] for count in recurrent] == [distance - 1 for distance in DISTANCES]
    assert len({script.attention_operations(distance) for distance in DISTANCES}) == 1


def test_E7_the_gradient_fades_with_the_distance_in_a_recurrent_network_alone() -> None:
    script = experiment("path_length")
    near, middle, far = script.gradients("gru", (1, 8, 32), draws=4)
    assert near > 5 * middle > 500 * far
    found = script.gradients("transformer", (1, 8, 32), draws=4)
    assert max(found) < 3 * min(found)


def test_E7_attention_without_positions_knows_no_distance() -> None:
    """Two words that change places change gradients too, and nothing else changes."""
    torch.manual_seed(1)
    layer = MultiHeadAttention(16, 4).double()
    x = torch.randn(1, 12, 16, dtype=torch.float64)
    order = torch.arange(12)
    order[[1, 9]] = order[[9, 1]]

    def gradient(given: torch.Tensor) -> torch.Tensor:
        given = given.clone().requires_grad_()
        output, _ = layer(given[:, -1:], layer.project(given))
        (found,) = torch.autograd.grad(output.sum(), given)
        return found

    torch.testing.assert_close(gradient(x[:, order]), gradient(x)[:, order])

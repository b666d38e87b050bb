"""Length of the path between two words in recurrent networks and attention: operations, gradients (E7)."""

import pytest
import torch
from experiment_scripts import experiment

from uwaga.models.layers.multihead import MultiHeadAttention

pytestmark = pytest.mark.numerical

DISTANCES = (1, 2, 3, 8, 21)


def test_E7_number_of_operations_grows_with_distance_only_in_recurrent_networks() -> None:
    script = experiment("path_length")
    recurrent = [script.recurrent_operations(distance) for distance in DISTANCES]
    assert [count - recurrent[0] for count in recurrent] == [distance - 1 for distance in DISTANCES]
    assert len({script.attention_operations(distance) for distance in DISTANCES}) == 1


def test_E7_gradient_fades_with_distance_only_in_recurrent_networks() -> None:
    script = experiment("path_length")
    near, middle, far = script.gradients("gru", (1, 8, 32), draws=4)
    assert near > 5 * middle > 500 * far
    gradients = script.gradients("transformer", (1, 8, 32), draws=4)
    assert max(gradients) < 3 * min(gradients)


def test_E7_attention_without_positions_ignores_distance() -> None:
    """Swapping two words swaps their gradients without any other change."""
    torch.manual_seed(1)
    layer = MultiHeadAttention(16, 4).double()
    x = torch.randn(1, 12, 16, dtype=torch.float64)
    order = torch.arange(12)
    order[[1, 9]] = order[[9, 1]]

    def gradient(inputs: torch.Tensor) -> torch.Tensor:
        inputs = inputs.clone().requires_grad_()
        output, _ = layer(inputs[:, -1:], layer.project(inputs))
        (gradient_,) = torch.autograd.grad(output.sum(), inputs)
        return gradient_

    torch.testing.assert_close(gradient(x[:, order]), gradient(x)[:, order])

"""Dropout: rate, scale, independence, seed, and evaluation mode."""

import pytest
import torch

from uwaga.models.layers.dropout import Dropout, dropout


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5])
def test_dropout_has_the_expected_rate_and_scale(probability: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(300_003, requires_grad=True)
    y = dropout(x, probability)
    dropped = float((y == 0).float().mean())
    assert abs(dropped - probability) < 0.005  # five standard deviations
    nonzero = y[y != 0].detach()
    torch.testing.assert_close(nonzero, torch.full_like(nonzero, 1 / (1 - probability)), rtol=1e-4, atol=0)
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())  # x is 1 everywhere, so y is the mask


def test_dropout_of_neighbouring_elements_is_independent() -> None:
    torch.manual_seed(1)
    mask = (dropout(torch.ones(400_000), 0.5) != 0).float()
    for lag in (1, 2, 3, 4, 5):
        both_rate = float((mask[:-lag] * mask[lag:]).mean())
        assert abs(both_rate - 0.25) < 0.005


def test_seed_determines_the_dropout_mask() -> None:
    x = torch.ones(1000)
    torch.manual_seed(2)
    first = dropout(x, 0.3)
    assert not torch.equal(first, dropout(x, 0.3))
    torch.manual_seed(2)
    assert torch.equal(first, dropout(x, 0.3))


def test_dropout_is_the_identity_in_evaluation() -> None:
    layer = Dropout(0.9).eval()
    x = torch.randn(50)
    assert layer(x) is x

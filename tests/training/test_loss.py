"""The chunked loss equals torch's cross-entropy in value and in every gradient (M20)."""

import pytest
import torch
from precision import tolerance
from torch.nn import functional

from uwaga.models.base import OutputLayer
from uwaga.training.loss import cross_entropy

pytestmark = pytest.mark.numerical


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("chunk", [1, 3, 100])
@pytest.mark.parametrize("cap", [None, 2.0])
def test_M20_chunked_cross_entropy_matches_torch(smoothing, biased, chunk, cap) -> None:
    generator = torch.Generator().manual_seed(3)
    features = torch.randn(7, 5, generator=generator, requires_grad=True)
    weight = torch.randn(11, 5, generator=generator, requires_grad=True)
    bias = torch.randn(11, generator=generator, requires_grad=True) if biased else None
    targets = torch.tensor([0, 10, 3, 3, 5, 1, 9])
    inputs = [x for x in (features, weight, bias) if x is not None]

    logits = functional.linear(features, weight, bias)
    if cap is not None:
        logits = cap * torch.tanh(logits / cap)
    expected = functional.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    expected_gradients = torch.autograd.grad(expected / 7, inputs)
    loss = cross_entropy(features, OutputLayer(weight, bias, cap), targets, smoothing, chunk=chunk)
    actual_gradients = torch.autograd.grad(loss.smoothed / 7, inputs)

    torch.testing.assert_close(loss.smoothed, expected)
    torch.testing.assert_close(loss.plain, functional.cross_entropy(logits, targets, reduction="sum"))
    for a, b in zip(actual_gradients, expected_gradients, strict=True):
        torch.testing.assert_close(a, b, **tolerance(b))


@pytest.mark.parametrize("cap", [None, 5.0])
def test_M20_bfloat16_loss_is_close_to_float32_loss(cap: float | None) -> None:
    generator = torch.Generator().manual_seed(4)
    features = torch.randn(64, 32, generator=generator, requires_grad=True)
    weight = (torch.randn(300, 32, generator=generator) * 0.3).requires_grad_()
    targets = torch.randint(0, 300, (64,), generator=generator)
    exact = cross_entropy(features, OutputLayer(weight, None, cap), targets, 0.1)
    (expected,) = torch.autograd.grad(exact.smoothed, weight)
    half = cross_entropy(features, OutputLayer(weight, None, cap), targets, 0.1, dtype=torch.bfloat16)
    (actual,) = torch.autograd.grad(half.smoothed, weight)
    assert abs(float((half.smoothed - exact.smoothed).detach())) < 0.01 * float(exact.smoothed.detach())
    assert float((actual - expected).norm()) < 0.01 * float(expected.norm())

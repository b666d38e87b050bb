"""Local attention: windows and the Gaussian (M9; Luong 2015 §3.2)."""

import math

import pytest
import torch

from uwaga.models.layers.attention import Adjustments, attend
from uwaga.models.layers.local import MonotonicWindow, PredictiveWindow
from uwaga.models.layers.scores import make_score

pytestmark = pytest.mark.numerical

LENGTHS = torch.tensor([6, 3])


def test_M9_local_m_windows_are_cut_at_sentence_ends() -> None:
    steps = torch.tensor([0, 1, 4, 9])
    mask, gain = MonotonicWindow(1)(torch.zeros(2, 4, 5), steps, LENGTHS, 6)
    assert gain is None
    expected = [
        [[1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1]],
        [[1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [0, 1, 1, 0, 0, 0], [0, 1, 1, 0, 0, 0]],
    ]
    assert mask.int().tolist() == expected


def predictive_window(width: int, reach: int, logit: float) -> PredictiveWindow:
    """Return a window whose centre is S times the sigmoid of ``logit`` for any query."""
    window = PredictiveWindow(width, reach)
    with torch.no_grad():
        window.inner.weight.fill_(100.0)  # its tanh is 1 for a positive query
        window.vector.fill_(logit / width)
    return window


def test_M9_local_p_matches_hand_calculation() -> None:
    # sigmoid(0) = 1/2: p = 3 in a sentence of 6 and 1.5 in one of 3; D = 2, so sigma = 1.
    mask, gain = predictive_window(4, 2, 0.0)(torch.ones(2, 1, 4), torch.tensor([0]), LENGTHS, 6)
    assert mask.int().tolist() == [[[0, 1, 1, 1, 1, 1]], [[1, 1, 1, 0, 0, 0]]]
    expected = [[math.exp(-((position - centre) ** 2) / 2) for position in range(6)] for centre in (3.0, 1.5)]
    torch.testing.assert_close(gain[:, 0], torch.tensor(expected))


def test_M9_local_p_windows_are_cut_at_sentence_ends() -> None:
    for logit, first, last in ((-9.0, 0, 2), (9.0, 4, 5)):
        mask, _ = predictive_window(4, 2, logit)(torch.ones(1, 1, 4), torch.tensor([0]), LENGTHS[:1], 6)
        assert mask[0, 0].nonzero()[:, 0].tolist() == list(range(first, last + 1))


def test_M9_weights_are_windowed_softmax_times_gaussian() -> None:
    torch.manual_seed(0)
    score, window = make_score("dot", 4, 4), PredictiveWindow(4, 2)
    query, keys, values = torch.randn(2, 3, 4), torch.randn(2, 6, 4), torch.randn(2, 6, 4)
    mask, gain = window(query, torch.arange(3), LENGTHS, 6)
    adjustments = Adjustments(hook=gain.mul)
    context, weights = attend(query, keys, values, score, mask, True, adjustments)
    assert weights is not None and (weights[~mask] == 0).all()
    windowed = torch.softmax((query @ keys.transpose(1, 2)).masked_fill(~mask, -math.inf), dim=-1)
    torch.testing.assert_close(weights, windowed * gain)
    torch.testing.assert_close(context, weights @ values)


def test_M9_gradient_reaches_the_centre_through_the_gaussian() -> None:
    torch.manual_seed(1)
    window = PredictiveWindow(4, 2)
    query = torch.randn(1, 1, 4)
    _, gain = window(query, torch.tensor([0]), LENGTHS[:1], 6)
    gain[0, 0, 0].backward()
    assert window.vector.grad is not None and float(window.vector.grad.abs().max()) > 0


def test_M9_window_of_full_width_equals_global_attention() -> None:
    torch.manual_seed(2)
    score = make_score("general", 4, 4)
    query, keys = torch.randn(2, 3, 4), torch.randn(2, 6, 4)
    mask, _ = MonotonicWindow(6)(query, torch.arange(3), LENGTHS, 6)
    full_mask = (torch.arange(6) < LENGTHS[:, None])[:, None]
    local_context, _ = attend(query, score.prepare(keys), keys, score, mask, need_weights=True)
    global_context, _ = attend(query, score.prepare(keys), keys, score, full_mask, need_weights=True)
    torch.testing.assert_close(local_context, global_context)

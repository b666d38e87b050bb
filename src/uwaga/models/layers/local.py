"""Local attention: a window over the source (M9; Luong 2015 §3.2)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn


class Window(NamedTuple):
    """The attention window of each query.

    ``mask`` (sentences, target, source) is True within the window. ``gain``, of the same shape, contains
    factors by which the attention weights are multiplied, which decrease with the distance from the centre;
    it is None if all factors are 1.
    """

    mask: Tensor
    gain: Tensor | None


class MonotonicWindow(nn.Module):
    """The window of local-m attention: ``[p_t - D, p_t + D]`` with ``p_t = t``.

    The window does not extend beyond the sentence. If the target is longer than the source, ``p_t`` stays at
    the last source position.
    """

    def __init__(self, reach: int) -> None:
        super().__init__()
        self.reach = reach

    def forward(self, query: Tensor, steps: Tensor, lengths: Tensor, source: int) -> Window:
        """Return the window of each query.

        Args:
            query: (sentences, target, width).
            steps: (target,) step t of each query, from 0.
            lengths: (sentences,) number of source tokens of each sentence.
            source: number of source tokens of the longest sentence.
        """
        centre = torch.minimum(steps[None, :], lengths[:, None] - 1)  # (sentences, target)
        return Window(_window_mask(centre, self.reach, lengths, source), None)


class PredictiveWindow(nn.Module):
    """The window of local-p attention, around a predicted position.

    ``p_t = S · sigmoid(v_pᵀ tanh(W_p h_t))``, where S is the source length (eq. 9). Weights are multiplied by
    ``exp(-(s - p_t)² / (2 σ²))`` with ``σ = D / 2`` (eq. 10), through which p_t receives a gradient.
    """

    def __init__(self, width: int, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.inner = nn.Linear(width, width, bias=False)  # W_p
        self.vector = nn.Parameter(torch.empty(width))  # v_p
        nn.init.xavier_uniform_(self.inner.weight)
        nn.init.normal_(self.vector, std=width**-0.5)

    def forward(self, query: Tensor, steps: Tensor, lengths: Tensor, source: int) -> Window:
        """See :meth:`MonotonicWindow.forward`; ``steps`` is ignored."""
        share = torch.sigmoid(torch.matmul(torch.tanh(self.inner(query)), self.vector))
        centre = lengths[:, None] * share  # (sentences, target): p_t
        positions = torch.arange(source, device=query.device)
        distance = positions - centre[..., None]  # (sentences, target, source)
        deviation = self.reach / 2
        gain = torch.exp(-(distance**2) / (2 * deviation**2))
        return Window(_window_mask(centre.detach(), self.reach, lengths, source), gain)


def _window_mask(centre: Tensor, reach: int, lengths: Tensor, source: int) -> Tensor:
    """Return the mask (sentences, target, source) of positions at most ``reach`` from ``centre``."""
    positions = torch.arange(source, device=centre.device)
    is_within_reach = (positions - centre[..., None]).abs() <= reach
    return is_within_reach & (positions < lengths[:, None, None])

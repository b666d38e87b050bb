"""Attention: mask, softmax, weighted sum (M1, M8).

Unusual: one function serves every score, with any leading axes; a query that may attend to nothing yields
zeros, not NaN; torch's fused kernels are used only where the weights are not needed and the kernels are
faster. This file does not depend on heads, projections or caches, or on where keys and values come from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from uwaga.models.layers.dropout import dropout
from uwaga.models.layers.scores import AttentionScore, ScaledDotScore

Hook = Callable[[Tensor], Tensor]
"""A function that maps attention weights (..., target, source) to new weights."""


class Adjustments(NamedTuple):
    """Adjustments of attention weights, in addition to the mask.

    Attributes:
        bias: tensor added to the scores, such as that of relative positions; it is broadcast to (..., target,
            source).
        hook: function that is called with the weights after the softmax, and returns the weights to use.
        dropout: probability of dropping a weight from the sum.
    """

    bias: Tensor | None = None
    hook: Hook | None = None
    dropout: float = 0.0


NO_ADJUSTMENTS = Adjustments()


def attend(
    query: Tensor,
    prepared_keys: Tensor,
    values: Tensor,
    score: AttentionScore,
    mask: Tensor | None = None,
    need_weights: bool = False,
    adjustments: Adjustments = NO_ADJUSTMENTS,
) -> tuple[Tensor, Tensor | None]:
    """Return the contexts ``c_i = Σ_j w_ij v_j`` and the weights ``w_i = softmax_j(F(s_i, h_j))`` (M1).

    See Bahdanau 2014 §3.1 and Vaswani 2017 eq. 1.

    Args:
        query: (..., target, query width).
        prepared_keys: (..., source, width): ``score.prepare(keys)``.
        values: (..., source, value width).
        score: the score F.
        mask: bool, broadcasts to (..., target, source); True where a query may attend. The weight of a masked
            position is exactly 0; if all are masked, the context is 0 (M8).
        need_weights: whether to return the weights, computed without fused kernels.
        adjustments: bias, hook and dropout of the weights.

    Returns:
        contexts (..., target, value width) and weights (..., target, source), or None if a fused
        kernel was used.
    """
    bias, hook, dropout_rate = adjustments
    if (
        isinstance(score, ScaledDotScore)
        and not need_weights
        and bias is None
        and hook is None
        and _fused_is_faster(query, dropout_rate)
    ):
        return _fused_attention(query, prepared_keys, values, mask), None
    scores = score(query, prepared_keys)  # (..., target, source)
    weights = masked_softmax(scores if bias is None else scores + bias, mask)
    if hook is not None:
        weights = hook(weights)
    return torch.matmul(dropout(weights, dropout_rate), values), weights


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Return the softmax over the last axis; masked weights are exactly 0, also in fully masked rows (M8).

    ``mask`` is False at masked positions.
    """
    if mask is None:
        return torch.softmax(scores, dim=-1)
    lowest = torch.finfo(scores.dtype).min
    weights = torch.softmax(scores.masked_fill(~mask, lowest), dim=-1)
    return weights.masked_fill(~mask, 0.0)


def causal_mask(target: int, source: int, device: torch.device | str | None = None) -> Tensor:
    """Return a causal mask, (target, source), True where a query may attend (M8, E2).

    Query i may attend to the first ``source - target + i + 1`` keys.
    """
    return torch.ones(target, source, dtype=torch.bool, device=device).tril(source - target)


def _fused_is_faster(query: Tensor, dropout_rate: float) -> bool:
    if query.device.type != "cpu":
        return dropout_rate == 0.0
    # torch's CPU kernel has a fast forward pass, but in 16 bits, its backward pass was measured to be nine
    # times slower.
    return dropout_rate == 0.0 and not (query.dtype != torch.float32 and torch.is_grad_enabled())


def _fused_attention(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return functional.scaled_dot_product_attention(query, keys, values)
    # A row with all positions masked attends to all, to avoid NaN, and is zeroed afterwards.
    has_keys = mask.any(dim=-1, keepdim=True)  # (..., target, 1)
    context = functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask | ~has_keys)
    return context.masked_fill(~has_keys, 0.0)


def mask_or_none(mask: Tensor) -> Tensor | None:
    """Return the mask, or None if it masks nothing, because attention without a mask is faster."""
    return None if bool(mask.all()) else mask

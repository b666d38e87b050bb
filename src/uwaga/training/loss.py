"""The smoothed cross-entropy of tokens (Szegedy 2016 §7), computed in chunks, and that of alignments."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from uwaga.models.base import OutputLayer
from uwaga.models.layers.choose import at_least_float32
from uwaga.models.layers.scores import soft_cap


class Loss(NamedTuple):
    """Sums over tokens in nats: ``smoothed`` is minimised, ``plain`` is the negative log-likelihood."""

    smoothed: Tensor
    plain: Tensor


def cross_entropy(
    features: Tensor,
    output: OutputLayer,
    targets: Tensor,
    smoothing: float = 0.0,
    dtype: torch.dtype = torch.float32,
    chunk: int = 512,
) -> Loss:
    """Return the cross-entropy against ``(1 - smoothing) [y] + smoothing / vocabulary``, summed over rows.

    Args:
        features: (rows, width), without padding positions.
        output: output layer, which maps features to logits.
        targets: (rows,) ids of the tokens to predict.
        smoothing: share of the probability that is spread evenly over the vocabulary.
        dtype: number format of the matrix products; sums are in float32 or wider.
        chunk: number of rows whose logits are in memory at a time.

    Returns:
        two scalars, in float64 if ``dtype`` is float64, otherwise in float32; only ``smoothed_loss`` has a
            gradient.
    """
    smoothed_loss, plain_loss = _ChunkedCrossEntropy.apply(  # type: ignore[no-untyped-call]
        features, output.weight, output.bias, targets, _LossOptions(output.cap, smoothing, dtype, chunk)
    )
    return Loss(smoothed_loss, plain_loss)


def alignment_cross_entropy(weights: Tensor, links: Tensor) -> Tensor:
    """Return ``-Σ_t 1/n_t Σ_s log w_ts`` over the links (t, s) of each target token t, which has n_t links.

    This is eq. 5 of Chen 2016 and Garg 2019 with alignment rows that sum to 1; target tokens without links
    contribute nothing.

    Args:
        weights: (sentences, target, source) attention weights.
        links: (links, 3): index of the sentence, target position, source position.

    Returns:
        a scalar, the sum over the target tokens.
    """
    sentence, target, source = links.unbind(1)
    rows = sentence * weights.shape[1] + target  # (links,)
    counts = torch.bincount(rows, minlength=weights.shape[0] * weights.shape[1])[rows]  # (links,)
    linked_weights = at_least_float32(weights[sentence, target, source])
    linked_weights = linked_weights.clamp_min(torch.finfo(torch.float32).tiny)
    return -(linked_weights.log() / counts).sum()


class _LossOptions(NamedTuple):
    """Options of :func:`cross_entropy`, and the cap of the logits."""

    cap: float | None
    smoothing: float
    dtype: torch.dtype
    chunk: int


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Computes loss and gradient in one pass, so that no (rows, vocabulary) tensor is kept.

    With probabilities p, smoothing e, vocabulary V and target y, the gradient of a row's logits is
    ``p - e/V - (1 - e) [y]``. Its last two terms are applied to the results of the matrix products, so that a
    chunk's probabilities are written once and read once. For capped logits c tanh(z / c), the gradient of z
    has the factor ``1 - tanh²(z / c)``, which is applied before the products.
    """

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        options: _LossOptions,
    ) -> tuple[Tensor, Tensor]:
        cap, smoothing, dtype, chunk = options
        rows, vocabulary = features.shape[0], weight.shape[0]
        sum_dtype = torch.promote_types(dtype, torch.float32)  # type of sums
        inputs, table = features.to(dtype), weight.to(dtype)
        mean_weight = weight.to(sum_dtype).mean(0)  # (width,)
        mean_bias = 0.0 if bias is None else bias.to(sum_dtype).mean()
        grad_features = torch.empty_like(features, dtype=sum_dtype)
        grad_weight = torch.zeros_like(weight, dtype=sum_dtype)
        mass = torch.zeros(vocabulary, dtype=sum_dtype, device=weight.device)  # Σ_rows p, or of slopes
        smoothed_loss, plain_loss = torch.zeros(2, dtype=torch.float64, device=features.device).unbind()
        smallest = torch.finfo(sum_dtype).tiny
        for start in range(0, rows, chunk):
            part, next_tokens = inputs[start : start + chunk], targets[start : start + chunk, None]
            logits = torch.mm(part, table.t())  # (chunk, vocabulary)
            if bias is not None:
                logits += bias.to(dtype)
            if cap is not None:
                logits = soft_cap(logits, cap)
            probabilities = torch.softmax(logits, dim=1)
            nll = -probabilities.gather(1, next_tokens).to(sum_dtype).clamp_min(smallest).log()  # (chunk, 1)
            if cap is None:
                mean_logits = (part.to(sum_dtype) @ mean_weight + mean_bias)[:, None]  # (chunk, 1) mean logit
            else:
                mean_logits = logits.to(sum_dtype).mean(1, keepdim=True)
            plain_loss += nll.double().sum()
            smoothed_loss += (
                (nll + smoothing * (logits.gather(1, next_tokens).to(sum_dtype) - mean_logits)).double().sum()
            )
            slopes = probabilities
            if cap is not None:
                slopes = slopes.sub_(smoothing / vocabulary)
                slopes.scatter_add_(
                    1, next_tokens, torch.full_like(next_tokens, smoothing - 1.0, dtype=dtype)
                )
                slopes *= 1.0 - (logits / cap).square()
            grad_features[start : start + chunk] = torch.mm(slopes, table)
            grad_weight += torch.mm(slopes.t(), part)
            if bias is not None:
                mass += slopes.sum(0, dtype=sum_dtype)
        if cap is None:
            grad_features -= smoothing * mean_weight
            grad_features.sub_(weight[targets].to(sum_dtype), alpha=1.0 - smoothing)
            grad_weight -= (smoothing / vocabulary) * features.to(sum_dtype).sum(0)
            grad_weight.index_add_(0, targets, features.to(sum_dtype), alpha=smoothing - 1.0)
        grad_bias = None
        if bias is not None and cap is None:
            counts = torch.bincount(targets, minlength=vocabulary)
            grad_bias = mass - smoothing * rows / vocabulary - (1.0 - smoothing) * counts
        elif bias is not None:
            grad_bias = mass
        ctx.save_for_backward(grad_features, grad_weight, grad_bias)
        ctx.dtypes = (features.dtype, weight.dtype)
        total, likelihood = smoothed_loss.to(sum_dtype), plain_loss.to(sum_dtype)
        ctx.mark_non_differentiable(likelihood)
        return total, likelihood

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_features, grad_weight, grad_bias = ctx.saved_tensors
        output_grad = grads[0]
        return (
            (grad_features * output_grad).to(ctx.dtypes[0]),
            (grad_weight * output_grad).to(ctx.dtypes[1]),
            None if grad_bias is None else grad_bias * output_grad,
            None,
            None,
        )

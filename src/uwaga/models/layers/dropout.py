"""Dropout (Srivastava 2014), with fast generation of random bits on the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

_LEVELS = 1 << 16
_generator: ContextVar[torch.Generator | None] = ContextVar("dropout generator", default=None)


@contextmanager
def seeded_dropout(seed: int, device: torch.device) -> Iterator[None]:
    """Make dropout in this thread depend only on the seed within the block.

    On a CPU, other threads are not affected.
    """
    if device.type != "cpu":
        torch.manual_seed(seed)
        yield
        return
    token = _generator.set(torch.Generator().manual_seed(seed))
    try:
        yield
    finally:
        _generator.reset(token)


class _BitDropout(torch.autograd.Function):
    """Dropout with 16 random bits for each element; torch draws 64 bits on the CPU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        words = torch.empty((x.numel() + 3) // 4, dtype=torch.int64)
        bits = (
            words.random_(-(1 << 63), None, generator=_generator.get())
            .view(torch.int16)[: x.numel()]
            .view(x.shape)
        )
        keep = (bits >= threshold - _LEVELS // 2).to(x.dtype)
        keep *= _LEVELS / (_LEVELS - threshold)
        ctx.save_for_backward(keep)
        return x * keep

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return grads[0] * keep, None


def dropout(x: Tensor, probability: float) -> Tensor:
    """Return ``x`` with random elements set to 0 and all others multiplied by ``1 / (1 - probability)``.

    On the CPU, the probability is rounded to a multiple of 2**-16, and the scale matches the rounded value.
    """
    if probability == 0.0:
        return x
    if x.device.type != "cpu":
        return functional.dropout(x, probability)
    return _BitDropout.apply(x, round(probability * _LEVELS))  # type: ignore[no-any-return,no-untyped-call]


class Dropout(nn.Module):
    """A layer that applies :func:`dropout` in training mode, and otherwise returns its input."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.probability) if self.training else x


class SequenceDropout(nn.Module):
    """Dropout on the vectors of a sentence; if ``is_shared``, all positions have one mask (Gal 2016)."""

    def __init__(self, probability: float, is_shared: bool) -> None:
        super().__init__()
        self.probability, self.shared = probability, is_shared

    def forward(self, x: Tensor) -> Tensor:
        """Map (rows, time, width) to the same shape."""
        mask = self.mask(x.shape[0], x.shape[1], x.shape[2], x)
        return x if mask is None else x * mask

    def mask(self, rows: int, time: int, width: int, reference: Tensor) -> Tensor | None:
        """Return factors (rows, time, width), each 0 or ``1 / (1 - probability)``; None without dropout.

        A recurrent loop calls this once, before its first step.
        """
        if not self.training or self.probability == 0.0:
            return None
        ones = torch.ones(
            rows, 1 if self.shared else time, width, device=reference.device, dtype=reference.dtype
        )
        return dropout(ones, self.probability).expand(rows, time, width)

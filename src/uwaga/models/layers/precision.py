"""What logits and log-probabilities are computed in: float32 at least."""

from __future__ import annotations

import torch
from torch import Tensor


def at_least_float32(x: Tensor) -> Tensor:
    """``x`` (...) in float32 where it has fewer bits, and as it is in float32 and float64."""
    return x.to(torch.promote_types(x.dtype, torch.float32))

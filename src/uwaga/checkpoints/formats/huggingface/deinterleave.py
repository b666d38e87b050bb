"""One order of the width axis for another: the same function, since nothing looks at single columns."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

READS = frozenset(
    "source_embedding target_embedding source_positions target_positions query key_value inner gate".split()  # noqa: SIM905
)
"""Layers whose weights have the residual stream's width as their last axis."""
WRITES = frozenset({"output", "outer"})
"""Layers whose weights and biases have it as their first."""


def deinterleave(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A Transformer's weights with even columns of the residual stream first and odd ones behind them.

    With interleaved sinusoids that makes Marian's order, sines first. Exact: sums over the width, norms
    and the residual additions know no order, and every weight that reads or writes the stream is turned
    alike.

    Args:
        weights: ``state_dict()`` of a Transformer; tied weights may be one tensor.
    """
    return {name: _turned(name, weight) for name, weight in weights.items()}


def _turned(name: str, weight: Tensor) -> Tensor:
    axis = _width_axis(name)
    if axis is None:
        return weight
    width = weight.shape[axis]
    order = torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])
    return weight.index_select(axis, order.to(weight.device))


def _width_axis(name: str) -> int | None:
    """Where a weight has the residual stream's width, None where it has it nowhere."""
    if name in ("output_weight", "output_bias"):
        return -1 if name == "output_weight" else None
    owner, _, kind = name.rpartition(".")
    layer = owner.rpartition(".")[2]
    if layer in READS:
        return -1 if kind == "weight" else None
    if layer in WRITES or layer.endswith("norm"):
        return 0
    raise AssertionError(f"{name!r}: not known whether it reads or writes the residual stream")

"""Tensors of which each process holds a share: the whole of one, and the share of a whole.

They are known by what they can do: importing their class takes a second, which most runs need not wait.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def is_shared(tensor: Tensor) -> bool:
    """Whether a process holds only a share of it: a ``DTensor``."""
    return hasattr(tensor, "full_tensor")


def whole(tensor: Tensor) -> Tensor:
    """The whole tensor, which all processes must ask for; one that is not shared is what it was."""
    return tensor.full_tensor() if is_shared(tensor) else tensor  # type: ignore[attr-defined]


def whole_tensors(tensors: Mapping[str, Tensor], keep: bool) -> dict[str, Tensor]:
    """The whole of each, on the CPU where it was shared; none where not to ``keep``, but all must ask."""
    found = {}
    for name, tensor in tensors.items():
        made = whole(tensor.detach())
        if keep:
            found[name] = made.cpu() if is_shared(tensor) else made
    return found


@torch.no_grad()
def placed(tensor: Tensor, like: Tensor) -> Tensor:
    """The tensor as ``like`` is: on its device, of its type, and shared as it is."""
    moved = tensor.to(like.device, like.dtype)
    if not is_shared(like):
        return moved
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert isinstance(like, DTensor)
    # Each process has the whole and takes its share: nobody waits for another that could not read it.
    return distribute_tensor(moved, like.device_mesh, like.placements, src_data_rank=None)

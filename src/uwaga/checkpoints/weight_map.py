"""Filling a model from another library's weights by a table of names."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor, nn

    from uwaga.checkpoints.files.torch_files import Tensors

SHOWN = 3
CLOSE = 2e-3
"""By how much a stored position table may differ from the formula: the rounding of 16 bits."""


@dataclass(frozen=True)
class Table:
    """Which stored tensors make each weight.

    ``weights``: per weight of ours, the stored ones, put one below the other. ``same``: stored names that
    may stand beside or in place of another, being the same tensor (tied weights). ``constant``: stored
    tensors that must be what we compute. ``unused``: stored names that hold nothing of the model.
    ``zero``: weights of ours that are zero where they are not stored.
    """

    weights: Mapping[str, tuple[str, ...]]
    same: Mapping[str, str] = field(default_factory=dict)
    constant: Mapping[str, Tensor] = field(default_factory=dict)
    unused: Collection[str] = ()
    zero: Collection[str] = ()


def fill(model: nn.Module, table: Table, stored: Tensors) -> None:
    """Give ``model`` its weights; one that is stored as it is needed is not copied.

    Raises:
        ModelError: a stored tensor is missing, unknown, of another shape or not finite, or two that
            should be the same are not. The message names the file, the tensor and both shapes.
    """
    values = _resolved(table, stored)
    where = next(iter(stored.origin.values()), Path("weights")).parent
    needed = {name for names in table.weights.values() for name in names}
    ours = model.state_dict(keep_vars=True)
    if set(ours) != set(table.weights):
        raise AssertionError(f"table and model disagree: {set(ours) ^ set(table.weights)}")
    spare = {table.weights[name][0] for name in table.zero}
    missing = sorted(needed - set(values) - spare)
    unknown = sorted(set(values) - needed)
    if missing or unknown:
        what = "missing, which config.json asks for" if missing else "unknown to this family"
        names = missing or unknown
        rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        raise ModelError(f"{where}: weights {', '.join(map(repr, names[:SHOWN]))}{rest}: {what}")
    from torch import nn

    made: dict[int, nn.Parameter] = {}
    for name, old in ours.items():
        if id(old) not in made:
            made[id(old)] = nn.Parameter(_made(old, table.weights[name], values, stored), requires_grad=False)
        owner, _, leaf = name.rpartition(".")
        model.get_submodule(owner)._parameters[leaf] = made[id(old)]


def _made(old: Tensor, names: tuple[str, ...], values: Mapping[str, Tensor], stored: Tensors) -> Tensor:
    import torch

    if names[0] not in values:
        return torch.zeros(old.shape)
    parts = [values[name] for name in names]
    for name, part in zip(names, parts, strict=True):
        wanted = (old.shape[0] // len(names), *old.shape[1:])
        found = tuple(part.shape)
        if found != wanted and not (old.dim() == 1 and found == (1, *wanted)):
            raise ModelError(
                f"{stored.origin.get(name)}: {name!r} has shape {found}, config.json asks for {wanted}; "
                "the files are of different models"
            )
        if not part.is_floating_point() or not math.isfinite(_sum(name, part, stored)):
            raise ModelError(f"{stored.origin.get(name)}: {name!r} holds what are not finite numbers")
    whole = parts[0] if len(parts) == 1 else torch.cat(parts)
    return whole.reshape(old.shape).to(torch.float32)


def _sum(name: str, part: Tensor, stored: Tensors) -> float:
    import torch

    known = stored.sums.get(name)
    return float(part.sum(dtype=torch.float32)) if known is None else known


def _resolved(table: Table, stored: Tensors) -> dict[str, Tensor]:
    """The stored tensors by the names that the table uses; constants and copies are checked and dropped."""
    import torch

    values = {name: tensor for name, tensor in stored.values.items() if name not in table.unused}
    for name, wanted in table.constant.items():
        found = values.pop(name, None)
        if found is None:
            continue
        if found.shape != wanted.shape:
            raise ModelError(
                f"{stored.origin[name]}: {name!r} has shape {tuple(found.shape)}, config.json asks for "
                f"{tuple(wanted.shape)}"
            )
        if not torch.allclose(found.float(), wanted, atol=CLOSE):
            raise ModelError(f"{stored.origin[name]}: {name!r} is not the sinusoids that the family uses")
    for alias, name in table.same.items():
        copy = values.pop(alias, None)
        if copy is None:
            continue
        first = values.setdefault(name, copy)
        if first.data_ptr() != copy.data_ptr() and not torch.equal(first, copy):
            raise ModelError(
                f"{stored.origin[alias]}: {alias!r} and {name!r} differ, but config.json ties them"
            )
    return values

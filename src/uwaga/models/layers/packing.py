"""Packing of the caches of rows that are at different positions (M42)."""

from __future__ import annotations

from torch import Tensor

from uwaga.models.layers.multihead import KeysValues


def pack_caches(layers: tuple[KeysValues, ...], mask: Tensor) -> tuple[tuple[KeysValues, ...], Tensor]:
    """Return caches and their mask with used positions moved to the front, cropped to the longest row.

    Args:
        layers: keys and values of each layer, (rows, groups, past, head width).
        mask: (rows, past) bool, True at used positions.
    """
    key_counts = mask.sum(dim=1)
    longest = int(key_counts.max())
    cropped_mask = mask[:, :longest]
    if bool((cropped_mask.sum(dim=1) == key_counts).all()):
        cropped = (KeysValues(layer.keys[:, :, :longest], layer.values[:, :, :longest]) for layer in layers)
        return tuple(cropped), cropped_mask
    order = (~mask).byte().argsort(dim=1, stable=True)[:, :longest]  # (rows, longest)

    def pack(part: Tensor) -> Tensor:
        rows, groups, _, width = part.shape
        return part.gather(2, order[:, None, :, None].expand(rows, groups, longest, width))

    return tuple(KeysValues(pack(layer.keys), pack(layer.values)) for layer in layers), mask.gather(1, order)
